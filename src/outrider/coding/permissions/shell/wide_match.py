"""Match the words of a deny or ask rule with a command, however its options are spelled.

A command may put options before, between and behind the words of a rule. Which of them take a value, only the program
knows, so a word after an option may always be its value: better one match too many than one too few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from outrider.text import word_set

Words: TypeAlias = Sequence[str]

_LETTERS = re.compile(r"-[A-Za-z0-9]+")
_VALUE = re.compile(r"(?:--[^=]+=|-[A-Za-z0-9]=?)(.+)", re.DOTALL)
_LONGEST_BUNDLE = len("-abcd")
"""Longer words after one dash are names, as in `find -delete`, and not letters."""
_LETTER_OF = {"--force": "-f", "--recursive": "-r", "-R": "-r"}
"""Options that mean the same in most programs."""
_SHORTEST = len("--x")
_LEADING = word_set("workspace workspaces foreach recursive multi npm subtree lfs")
"""Sub-commands of `git`, `pnpm` and `yarn` behind which another one says what is done."""


def matches_widely(words: Words, wanted: Words, has_subcommands: Callable[[str], bool]) -> bool:
    """Return whether a command is what a rule names: its program, its options anywhere, its other words in order.

    With a program that has sub-commands, only options and their values may come before the first of the other words.

    >>> matches_widely(["git", "-C", ".", "reset", "--hard"], ["git", "reset", "--hard"], lambda name: True)
    True
    >>> matches_widely(["git", "stash", "push"], ["git", "push"], lambda name: True)
    False
    >>> matches_widely(["rm", "-f", "x", "-r"], ["rm", "-rf"], lambda name: False)
    True
    """
    if not words or not wanted:
        return False
    if _first_name(words) != _first_name(wanted):
        return False
    rules = list(_spellings(wanted))
    named = list(_spellings(words))
    if len(wanted) == 1 and named[-1][0] != "git":  # `ssh-keygen` is no `ssh`
        del named[1:]
    return any(_matches(one, rule, has_subcommands) for one in named for rule in rules)


def _name(word: str) -> str:
    return word.rpartition("/")[2].casefold().removesuffix(".exe")


def _first_name(words: Words) -> str:
    return _name(words[0]).partition("-")[0]


def _spellings(words: Words) -> Iterator[Words]:
    """Yield the words with the name of the program alone, and `git-push x` as `git push x`."""
    name = _name(words[0])
    yield [name, *words[1:]]
    first, dash, second = name.partition("-")
    if first and dash and second:
        yield [first, second, *words[1:]]


def _matches(words: Words, wanted: Words, has_subcommands: Callable[[str], bool]) -> bool:
    if words[0] != wanted[0]:
        return False
    given, rest = words[1:], wanted[1:]
    operands = [word for word in rest if not word.startswith("-")]
    if operands and has_subcommands(wanted[0]):
        # Behind the first place where it stands there is all that is behind the others.
        first = next((at for at in subcommand_places(given) if given[at] == operands[0]), None)
        found = first is not None and _occur(given[first + 1 :], operands[1:])
    else:
        found = _occur(given, operands)
    return found and all(_has_option(given, word) for word in rest if word.startswith("-"))


def subcommand_places(words: Words) -> Iterator[int]:
    """Yield where a sub-command may be: behind options, and behind words that may be their values, and assignments."""
    before = ""
    for at, word in enumerate(words):
        yield at
        if not (word[:1] in ("-", "+") or "=" in word or before[:1] == "-" or {word, before} & _LEADING):
            return
        before = word


def _occur(words: Words, wanted: Words) -> bool:
    """Return whether words occur among others, in this order, also as the value of an option."""
    rest = _with_values(words)
    return all(word in rest for word in wanted)


def _with_values(words: Words) -> Iterator[str]:
    """Yield the words, and after an option its value, if they are one word: `-XPOST`, `--request=POST`."""
    for word in words:
        yield word
        if value := _VALUE.fullmatch(word):
            yield value[1]


def _has_option(words: Words, wanted: str) -> bool:
    """Return whether an option is given: by its name, shortened or with a value, or as letters of any bundles."""
    names = [word.partition("=")[0] for word in words if word.startswith("-")]
    if wanted in words or wanted in names or ("=" in wanted and wanted in map("=".join, pairwise(words))):
        return True
    if wanted.startswith("--") and any(len(name) >= _SHORTEST and wanted.startswith(name) for name in names):
        return True
    bundle = _LETTER_OF.get(wanted, wanted)
    return len(bundle) <= _LONGEST_BUNDLE and bool(_LETTERS.fullmatch(bundle)) and _letters([bundle]) <= _letters(names)


def _letters(options: Words) -> set[str]:
    """Return the letters of all bundles, such as `-rf`, also before a value, as in `-i.bak`."""
    bundles = (_LETTERS.match(_LETTER_OF.get(each, each)) for each in options)
    letters = (letter for each in bundles if each for letter in each[0][1:])
    return {_LETTER_OF.get(f"-{letter}", letter)[-1] for letter in letters}
