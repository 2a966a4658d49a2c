"""Match rules with commands: allow rules narrowly, deny and ask rules widely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Match, Rule
from outrider.coding.permissions.shell.read_only import CUSTOM_PARSERS
from outrider.coding.permissions.shell.read_only_options import NON_FILE_COMMANDS, READERS
from outrider.coding.permissions.shell.script import Command
from outrider.coding.permissions.shell.stdin import applies_with_input
from outrider.coding.permissions.shell.unsafe_options import has_unsafe_options, leaves_folder
from outrider.coding.permissions.shell.wrappers import COMMAND_RUNNERS, STATE_CHANGERS, WRAPPERS, program_name

READ_ONLY = frozenset((*READERS, *NON_FILE_COMMANDS, *CUSTOM_PARSERS)) - {"cd"}


def rule_allows(rule: Rule, words: Sequence[str], policy: Policy, *, has_input: bool, in_project: bool) -> bool:
    """Return whether an allow rule matches a command whose words are all known.

    Programs obey files in their working folder. So a rule applies in the project's folder. Elsewhere only prefix rules
    for read-only commands apply.
    """
    if rule.tool != "Bash" or rule.pattern is None:
        return False
    if not in_project and not (rule.is_prefix and words[0] in READ_ONLY):
        return False
    if has_input and not applies_with_input(rule, words):
        return False
    return _matches_narrowly(rule, words) and not (
        rule.is_prefix and leaves_folder(words, str(policy.folder), policy.inside)
    )


def _matches_narrowly(rule: Rule, words: Sequence[str]) -> bool:
    wanted = rule.words
    if not rule.is_prefix:
        return bool(wanted) and wanted == tuple(words)
    if wanted != tuple(words[: len(wanted)]) or has_unsafe_options(words) or words[0] in STATE_CHANGERS:
        return False
    if words[0] == "make" and len(wanted) > 1 and any(not word.startswith("-") for word in words[len(wanted) :]):
        return False  # another target
    return program_name(words[0]) not in WRAPPERS or any(not word.startswith("-") for word in wanted[1:])


def rule_matches(rule: Rule, command: Command) -> Match:
    """Return whether a deny or ask rule matches a command; `maybe` if some words are unknown until it runs."""
    if rule.tool != "Bash":
        return "no"
    if rule.pattern is None:
        return "yes"
    wanted = rule.words or tuple(rule.pattern.removesuffix(":*").split())
    found = {_begins(values, wanted) for values in _possible_commands(command.values)}
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
        if value != word and (at or program_name(value) != word):
            return "no"
    return "yes"


def _possible_commands(values: list[str | None]) -> Iterator[list[str | None]]:
    """Yield the command, with and without its options, and each command that it may run."""
    yield values
    yield _without_options(values)
    if values and values[0] is not None and _runs_commands(program_name(values[0])):
        for at in range(1, len(values)):
            yield values[at:]
            yield _without_options(values[at:])


def _runs_commands(name: str) -> bool:
    return name in COMMAND_RUNNERS or name.startswith("ld-")  # the dynamic loader runs any program


def _without_options(values: list[str | None]) -> list[str | None]:
    kept: list[str | None] = []
    skip = False
    for value in values:
        if not skip and (value is None or not value.startswith("-")):
            kept.append(value)
        skip = not skip and value in ("-C", "-c") and kept[:1] == ["git"]
    return kept
