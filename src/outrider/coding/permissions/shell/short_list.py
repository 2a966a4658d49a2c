"""The commands that run without a sandbox and without asking: they only read, with options known to be harmless.

Not included are programs that run others (`env`, `xargs`), that read whole trees and so secrets (`grep -r`, `rg`), that
print the environment, that obey a file in the folder (`git`), and scripts of `sed` and `awk`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from outrider.text import word_set


class Options(msgspec.Struct, frozen=True):
    """The harmless options of a command, and what its operands are."""

    flags: str = ""
    """Letters that take no value."""
    counted: str = ""
    """Letters that take a number."""
    valued: str = ""
    """Letters that take a text, which no version of the command opens as a file."""
    operands: re.Pattern[str] | None = None
    """What each operand must be if it is not a file."""
    most: int | None = None
    """The most operands; a further one may be an output file."""
    leading: int = 0
    """The number of operands before the files, such as the pattern of grep."""
    number: bool = False
    """Whether `-20` is an option."""


_NAME = re.compile(r"[\w.+-]+")
_NUMBER = re.compile(r"[0-9]+")
_ANYTHING = re.compile(r".*", re.DOTALL)
_DATE = re.compile(r"\+.*", re.DOTALL)

_COMMANDS: Mapping[str, Options] = {
    "cat": Options("AbeEnstTuv"),
    "head": Options("qv", "nc", number=True),
    "tail": Options("qv", "nc", number=True),
    "wc": Options("clmwL"),
    "ls": Options("aAbBcCdfFgGhHiklmnNopqQrRsStuUvxX1"),  # not L: with R it follows links out of the folder
    "nl": Options("", "w", "b"),
    "tac": Options(),
    "cut": Options("s", "", "bcdf"),
    "sort": Options("bdfghinrsuV", "", "kt"),
    "uniq": Options("cdiu", most=1),
    "grep": Options("cEFhHiLlnoqsvwx", "ABCm", leading=1),
    "stat": Options("t"),
    "du": Options("abchkmsx", "d"),
    "md5sum": Options("bt"),
    "sha1sum": Options("bt"),
    "sha256sum": Options("bt"),
    "realpath": Options("emsz"),
    "readlink": Options("fenm"),
    "pwd": Options("LP", most=0),
    "true": Options(most=0),
    "false": Options(most=0),
    "whoami": Options(most=0),
    "id": Options("gGnru", most=0),
    "uname": Options("amnrsv", most=0),
    "nproc": Options(most=0),
    "date": Options("uR", operands=_DATE, most=1),
    "which": Options("a", operands=_NAME),
    "basename": Options("a", operands=_ANYTHING),
    "dirname": Options(operands=_ANYTHING),
    "tr": Options("cds", operands=_ANYTHING),
    "seq": Options("w", operands=_NUMBER),
    "sleep": Options(operands=_NUMBER),
}
_FIND_ALONE = word_set("-print -print0 -o -or -a -and -not ! -empty -true -false -prune -depth -xdev")
_FIND_VALUED = word_set("-name -iname -path -ipath -type -maxdepth -mindepth -size -mtime -mmin -perm")
_SED_LINES = re.compile(r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$))?[pq=]")


def files_read(words: Sequence[str]) -> list[str] | None:
    """Return the files that a command reads, if it does nothing else; None if it may do more."""
    name, arguments = words[0], words[1:]
    if name in _OWN_SYNTAX:
        return _OWN_SYNTAX[name](arguments)
    if name not in _COMMANDS:
        return None
    options = _COMMANDS[name]
    operands = _operands(arguments, options)
    if operands is None or (options.most is not None and len(operands) > options.most):
        return None
    if options.operands is not None:
        return [] if all(map(options.operands.fullmatch, operands)) else None
    return [operand for operand in operands[options.leading :] if operand != "-"]


def _operands(arguments: Sequence[str], options: Options) -> list[str] | None:
    """Return the operands; None if an option is not known to be harmless."""
    operands: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word == "--":
            return [*operands, *reversed(waiting)]
        if not word.startswith("-") or word == "-":
            operands.append(word)
        elif not _is_harmless(word[1:], waiting, options):
            return None
    return operands


def _is_harmless(letters: str, waiting: list[str], options: Options) -> bool:
    """Return whether the letters of an option are known. Its value is taken from the waiting words."""
    if options.number and _NUMBER.fullmatch(letters):
        return True
    for at, letter in enumerate(letters, 1):
        if letter in options.counted + options.valued:
            value = letters[at:] or (waiting.pop() if waiting else "")
            return bool(_NUMBER.fullmatch(value)) if letter in options.counted else value != ""
        if letter not in options.flags:
            return False
    return True


def _find(arguments: Sequence[str]) -> list[str] | None:
    """Accept tests and printing: other actions run programs or write files."""
    paths: list[str] = []
    waiting = list(reversed(arguments))
    while waiting and not waiting[-1].startswith(("-", "!", "(")):
        paths.append(waiting.pop())
    while waiting:
        word = waiting.pop()
        if word in _FIND_VALUED and waiting:
            waiting.pop()
        elif word not in _FIND_ALONE:
            return None
    return paths or ["."]


def _sed(arguments: Sequence[str]) -> list[str] | None:
    """Accept `sed -n 1,20p file`: the whole script is line numbers and one letter that only prints or quits."""
    if len(arguments) < 2 or arguments[0] != "-n" or not _SED_LINES.fullmatch(arguments[1]):
        return None
    files = list(arguments[2:])
    return None if any(file.startswith("-") for file in files) else files


_OWN_SYNTAX: Mapping[str, Callable[[Sequence[str]], list[str] | None]] = {
    "echo": lambda _: [],
    "find": _find,
    "sed": _sed,
}
