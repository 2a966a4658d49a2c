"""Whether a rule speaks of a command: narrowly if it allows, widely if it denies or asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.permissions.rules import Match, Rule
from outrider.permissions.script import Command
from outrider.permissions.traps import is_trapped
from outrider.permissions.wrappers import CARRIERS, MOVERS, WRAPPERS, base_name


def allows(rule: Rule, words: Sequence[str]) -> bool:
    """Whether a rule allows a command of which every word is known."""
    if rule.tool != "Bash" or rule.pattern is None:
        return False
    wanted = rule.words
    if not rule.is_prefix:
        return bool(wanted) and wanted == tuple(words)
    if wanted != tuple(words[: len(wanted)]) or is_trapped(words) or words[0] in MOVERS:
        return False
    if words[0] == "make" and len(wanted) > 1 and any(not word.startswith("-") for word in words[len(wanted) :]):
        return False  # another target
    return base_name(words[0]) not in WRAPPERS or any(not word.startswith("-") for word in wanted[1:])


def speaks_of(rule: Rule, command: Command) -> Match:
    """Whether a rule that denies or asks speaks of a command; `maybe` if that is not known before it runs."""
    if rule.tool != "Bash":
        return "no"
    if rule.pattern is None:
        return "yes"
    wanted = rule.words or tuple(rule.pattern.removesuffix(":*").split())
    found = {_begins(values, wanted) for values in _readings(command.values)}
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _begins(values: Sequence[str | None], wanted: Sequence[str]) -> Match:
    if not values:
        return "no"
    for at, word in enumerate(wanted):
        if at >= len(values):
            return "no"
        value = values[at]
        if value is None:
            return "maybe"
        if value != word and (at or base_name(value) != word):
            return "no"
    return "yes"


def _readings(values: list[str | None]) -> Iterator[list[str | None]]:
    """The command, without its options too, and whatever it may run in turn."""
    yield values
    yield _without_options(values)
    if values and values[0] is not None and base_name(values[0]) in CARRIERS:
        for at in range(1, len(values)):
            yield values[at:]
            yield _without_options(values[at:])


def _without_options(values: list[str | None]) -> list[str | None]:
    kept: list[str | None] = []
    skip = False
    for value in values:
        if not skip and (value is None or not value.startswith("-")):
            kept.append(value)
        skip = not skip and value in ("-C", "-c") and kept[:1] == ["git"]
    return kept
