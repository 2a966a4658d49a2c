"""Recognise commands that only read, with options that are known to be harmless. Other options need approval.

Not included are commands that run others (`env`, `xargs`), that read whole trees and so secrets (`grep -r`, `rg`,
`diff` of folders), that print the environment, or that obey a file in the folder (`git`, by its settings).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from outrider.coding.permissions.patterns import alternatives
from outrider.coding.permissions.shell.read_only_options import NON_FILE_COMMANDS, READERS, SafeOptions
from outrider.coding.permissions.shell.words import UNKNOWN, Word
from outrider.coding.permissions.word_set import word_set

_COUNT = re.compile(r"\$[?#$!0-9]|\$\(\(.*\)\)", re.DOTALL)
_GLOB = re.compile(r"[*?\[]")
_LONGEST_GLOB = 200
_DATE = re.compile(r"\+.*", re.DOTALL)
_NUMBER = re.compile(r"-[0-9]+|\+[0-9]+")
_COUNTED = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|[0-9]+)[kKmMgGbB]*")
_FORMAT = re.compile(
    r"(?:[^%]|%(?:%|[-+ #0']*(?:\*|[0-9]+)?(?:\.(?:\*|[0-9]+)?)?(?:[sdiouxXeEfgGcbq]|\([^()]*\)T)))*", re.DOTALL
)
_SCRIPT = re.compile(
    r"(?:(?:[0-9]+|\$|/(?:[^/\\\n]|\\[^\n])+/I?)(?:,(?:\+?[0-9]+|\$|/(?:[^/\\\n]|\\[^\n])+/I?))?!?)?[pdq=]"
    r"|s([/|,#:])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*"
)
_SET = re.compile(r"[-+][eu]+|[-+][eu]*o pipefail")
_TEST_OF_FILE = word_set("-e -f -d -s -r -w -x -L -h -b -c -p -S -O -G -N")
_TEST_OF_FILES = word_set("-nt -ot -ef")
_TEST_OF_TEXT = word_set("-n -z -t")
_TEST_OF_TEXTS = word_set("= == != -eq -ne -lt -le -gt -ge")
_FIND_ALONE = word_set("-print -print0 -o -or -a -and -not ! ( ) -empty -true -false -prune -depth -xdev -mount -ls")
_FIND_VALUED = word_set(
    "-name -iname -path -ipath -wholename -regex -iregex -type -maxdepth -mindepth -size -mtime -mmin -atime -amin "
    "-ctime -cmin -perm -user -group -links -newermt"
)


def paths_read(words: Sequence[Word]) -> list[str] | None:
    """Return the files that a command reads, if it does nothing else; None if it may do more."""
    name, arguments = words[0].value or "", words[1:]
    if name in CUSTOM_PARSERS:
        return CUSTOM_PARSERS[name](arguments)
    values = [word.value for word in arguments]
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    if name in READERS:
        return operands_of(known, READERS[name])
    if name in NON_FILE_COMMANDS:
        operands = operands_of(known, NON_FILE_COMMANDS[name])
        if operands is None or (name == "date" and not all(map(_DATE.fullmatch, operands))):
            return None
        return _paths_among(operands) if name in ("which", "type") else []
    return None


def operands_of(values: Sequence[str], options: SafeOptions) -> list[str] | None:
    """Return the operands that are files; None if an option is not known to be harmless."""
    operands: list[str] = []
    waiting = list(reversed(values))
    while waiting:
        word = waiting.pop()
        if word == "--":
            operands.extend(reversed(waiting))
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
        elif not _is_known(word, waiting, options):
            return None
    files = [operand for operand in operands[options.leading :] if operand != "-"]
    return None if options.paths is not None and len(operands) > options.paths else files


def _is_known(word: str, waiting: list[str], options: SafeOptions) -> bool:
    """Return whether an option is known. Its value is taken from the waiting words."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        return name in options.long_valued if equals else name in options.long or name == "--color"
    if options.number and _NUMBER.fullmatch(word):
        return True
    for at, letter in enumerate(word[1:], 1):
        if letter in options.attached:
            return True
        if letter in options.valued + options.counted:
            value = word[at + 1 :] or (waiting.pop() if waiting else "")
            return value != "" and (letter in options.valued or bool(_COUNTED.fullmatch(value)))
        if letter not in options.flags:
            return False
    return True


def folders_listed(words: Sequence[Word]) -> list[str] | None:
    """Return the folders whose names appear when the shell expands the words; None if that is unknown."""
    paths: list[str] = []
    for word in words:
        if word.single or _COUNT.fullmatch(word.source):
            continue
        if UNKNOWN in word.hint or len(word.hint) > _LONGEST_GLOB:
            return None  # it may expand to a pattern
        for text in alternatives(word.hint):
            folder, _, last = text.rpartition("/")
            if _GLOB.search(folder):
                return None
            if _GLOB.search(last):
                paths.append(folder or ("/" if text.startswith("/") else "."))
    return paths


def _printf(arguments: Sequence[Word]) -> list[str] | None:
    form = arguments[0].value if arguments else None
    if form is None or form.startswith("-") or not _FORMAT.fullmatch(form):
        return None  # -v and %n set a variable, and run commands in its subscript
    return folders_listed(arguments)


def _test(arguments: Sequence[Word]) -> list[str] | None:
    words = list(arguments)
    if words and words[0].value == "!":
        words.pop(0)
    if not all(word.single for word in words):
        return None
    match [word.value for word in words]:
        case [_]:
            return []
        case [test, _] if test in _TEST_OF_TEXT:
            return []
        case [_, test, _] if test in _TEST_OF_TEXTS:
            return []
        case [test, str(path)] if test in _TEST_OF_FILE:
            return [path]
        case [str(path), test, str(other)] if test in _TEST_OF_FILES:
            return [path, other]
    return None


def _bracket(arguments: Sequence[Word]) -> list[str] | None:
    return _test(arguments[:-1]) if arguments and arguments[-1].value == "]" else None


def _command(arguments: Sequence[Word]) -> list[str] | None:
    """Check `command -v name`, which prints where a command is."""
    values = [word.value for word in arguments]
    known = [value for value in values[1:] if value is not None]
    asks = values[:1] in (["-v"], ["-V"]) and known and len(known) == len(values) - 1
    return _paths_among(known) if asks else None


def _paths_among(operands: Sequence[str]) -> list[str]:
    """Return the operands that are paths: a lookup of such a command reveals whether the file exists."""
    return [operand for operand in operands if "/" in operand]


def _sed(arguments: Sequence[Word]) -> list[str] | None:
    """Accept addresses, and substitutions that do not run or write anything."""
    scripts: list[str] = []
    operands: list[str] = []
    values = [word.value for word in arguments]
    for before, value in zip([None, *values], values, strict=False):
        if value is None:
            return None
        if before == "-e" or (not value.startswith("-") and not scripts and "-e" not in values):
            scripts.append(value)
        elif not value.startswith("-"):
            operands.append(value)
        elif value not in ("-n", "-E", "-r", "-e", "-nE", "-En", "-nr"):
            return None
    parts = [part.strip() for script in scripts for part in script.split(";")]
    return operands if parts and all(_SCRIPT.fullmatch(part) for part in parts) else None


def _find(arguments: Sequence[Word]) -> list[str] | None:
    paths: list[str] = []
    values = [word.value for word in arguments]
    if None in values:
        return None
    waiting = [value for value in values if value is not None][::-1]
    while waiting and not waiting[-1].startswith(("-", "(", "!")):
        paths.append(waiting.pop())
    while waiting:
        word = waiting.pop()
        if word in _FIND_VALUED and waiting:
            waiting.pop()
        elif word not in _FIND_ALONE:
            return None
    return paths or ["."]


def _set(arguments: Sequence[Word]) -> list[str] | None:
    text = " ".join(word.value or "\0" for word in arguments)
    return [] if _SET.fullmatch(text) else None


CUSTOM_PARSERS: Mapping[str, Callable[[Sequence[Word]], list[str] | None]] = {
    "echo": folders_listed,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "command": _command,
    "sed": _sed,
    "find": _find,
    "set": _set,
}
