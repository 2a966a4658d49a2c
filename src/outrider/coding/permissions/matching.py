"""Whether a rule speaks of a command: narrowly if it allows, widely if it denies or asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.coding.permissions.commands import SPECIAL
from outrider.coding.permissions.feeding import holds_while_fed
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.reading import READERS, SPEAKERS
from outrider.coding.permissions.rules import Match, Rule
from outrider.coding.permissions.script import Command
from outrider.coding.permissions.traps import is_trapped, strays
from outrider.coding.permissions.wrappers import CARRIERS, CHANGERS, WRAPPERS, base_name

READ_ONLY = frozenset((*READERS, *SPEAKERS, *SPECIAL)) - {"cd"}


def allows(rule: Rule, words: Sequence[str], policy: Policy, *, fed: bool, home: bool) -> bool:
    """Whether a rule allows a command of which every word is known: fed with something, in the folder of the project.

    Programs obey the files of the folder in which they stand. So a rule holds in the folder for which it was agreed;
    elsewhere only a rule for how a command begins that is known to read just what it is told to.
    """
    if rule.tool != "Bash" or rule.pattern is None:
        return False
    if not home and not (rule.is_prefix and words[0] in READ_ONLY):
        return False
    if fed and not holds_while_fed(rule, words):
        return False
    return _speaks_for(rule, words) and not (rule.is_prefix and strays(words, str(policy.folder), policy.inside))


def _speaks_for(rule: Rule, words: Sequence[str]) -> bool:
    wanted = rule.words
    if not rule.is_prefix:
        return bool(wanted) and wanted == tuple(words)
    if wanted != tuple(words[: len(wanted)]) or is_trapped(words) or words[0] in CHANGERS:
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
    if values and values[0] is not None and _carries(base_name(values[0])):
        for at in range(1, len(values)):
            yield values[at:]
            yield _without_options(values[at:])


def _carries(name: str) -> bool:
    return name in CARRIERS or name.startswith("ld-")  # the loader of programs runs whatever it is given


def _without_options(values: list[str | None]) -> list[str | None]:
    kept: list[str | None] = []
    skip = False
    for value in values:
        if not skip and (value is None or not value.startswith("-")):
            kept.append(value)
        skip = not skip and value in ("-C", "-c") and kept[:1] == ["git"]
    return kept
