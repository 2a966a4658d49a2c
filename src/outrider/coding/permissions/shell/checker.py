"""Check a command line. Every command in it is checked on its own; the line is allowed if all of them are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from outrider.coding.permissions.files import PLAN_MODE, check_path
from outrider.coding.permissions.part_decision import ALLOWED, PartDecision, deny_part
from outrider.coding.permissions.paths import resolve_shell_path
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.shell.cwd import MAX_FOLDERS, ShellCwd
from outrider.coding.permissions.shell.parser import parse_script
from outrider.coding.permissions.shell.path_arguments import check_path_arguments
from outrider.coding.permissions.shell.read_only import folders_listed, paths_read
from outrider.coding.permissions.shell.rule_matching import rule_allows, rule_matches
from outrider.coding.permissions.shell.rule_suggestions import suggest_rule
from outrider.coding.permissions.shell.script import Assignment, Command, Redirection, Script, is_plain_variable
from outrider.coding.permissions.shell.stdin import runs_unseen_input
from outrider.coding.permissions.shell.words import Word
from outrider.coding.permissions.shell.wrappers import CWD_CHANGERS, inner_scripts, runs_unknown_code, unwrap
from outrider.coding.permissions.word_set import word_set

MAX_DEPTH = 4
"""Levels of command lines inside command lines that are checked."""

HARMLESS_VARIABLES = word_set(
    "CI NO_COLOR FORCE_COLOR LC_ALL LANG TZ TERM COLUMNS LINES NODE_ENV RUST_BACKTRACE RUST_LOG DEBUG VERBOSE "
    "PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE"
)
"""Variables that are harmless to set to a plain value."""

KNOWN_VARIABLES = word_set("PWD OLDPWD HOME USER RANDOM SECONDS LINENO UID HOSTNAME")
"""Variables of the shell that hold no secret."""

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.:@,=+-]*")


class CommandLineChecker:
    """Checks one command line, and tracks the folders that the shell may be in."""

    def __init__(self, policy: Policy, folders: Sequence[str], depth: int = 0) -> None:
        self._policy = policy
        self._cwd = ShellCwd(folders, str(policy.folder))
        self._depth = depth
        self._allows_all = policy.mode == "all" or any(
            rule.tool == "Bash" and rule.pattern is None and policy.mode != "plan" for rule in policy.allow
        )
        self._has_restrictions = any(
            rule.tool in ("Bash", "Read", "Edit", "Write") for rule in (*policy.deny, *policy.ask)
        )

    def check(self, text: str) -> list[PartDecision]:
        """Decide about each part of a command line."""
        script = parse_script(text)
        decisions = [*self._check_doubts(script), *self._check_variables(script), *self._check_loops(script)]
        parts: list[Command | Redirection] = [*script.commands, *script.redirections]
        for part in sorted(parts, key=lambda each: each.start):
            if isinstance(part, Command):
                decisions.extend(self._check_command(part, script))
            else:
                decisions.extend(self._check_redirection(part))
        if not parts and not script.assignments:
            decisions.append(self._ask("it has no command"))
        return decisions or [ALLOWED]

    def _ask(self, reason: str, always: str = "", *, opaque: bool = False) -> PartDecision:
        """Ask about a part, unless the mode or a rule for all of Bash allows it.

        An opaque part may hide something that a deny or ask rule covers, so it is asked about whenever there are such
        rules.
        """
        if self._policy.mode == "plan":
            return deny_part(f"{reason}; {PLAN_MODE}")
        if self._allows_all:
            return PartDecision("ask", reason, final=True) if opaque and self._has_restrictions else ALLOWED
        return PartDecision("ask", reason, (always,) if always else ())

    def _check_doubts(self, script: Script) -> Iterator[PartDecision]:
        for rule in self._policy.deny:
            if rule.tool == "Bash" and rule.pattern is None:
                yield deny_part("the rule Bash denies every command")
        for rule in self._policy.ask:
            if rule.tool == "Bash" and rule.pattern is None:
                yield PartDecision("ask", "a rule asks about every command", final=True)
        for doubt in script.doubts:
            yield self._ask(f"it cannot be checked: {doubt}", opaque=True)

    def _check_variables(self, script: Script) -> Iterator[PartDecision]:
        own = {each.name for each in script.assignments if is_plain_variable(each.name)}
        for each in script.assignments:
            if each.name not in own:
                yield self._ask(f"it sets {each.name or 'a variable'}, which other programs use")
        for name in sorted(script.variables - own - KNOWN_VARIABLES):
            if name[:1].isalpha() or name[:1] == "_" or not name:
                yield self._ask(f"it reads the variable {name}, which it does not set")

    def _check_loops(self, script: Script) -> Iterator[PartDecision]:
        """Check the words that loops iterate over."""
        paths = folders_listed(script.listed)
        if paths is None:
            yield self._ask("it is not known what its loop iterates over")
        yield from self._check_reads(paths or (), suggest=True)

    def _check_command(self, command: Command, script: Script) -> Iterator[PartDecision]:
        words = unwrap(command.words)
        paths = paths_read(words) if words else None
        yield from self._check_rules(command)
        if paths is None:
            yield from check_path_arguments(self._policy, command.words, self._cwd.folders)
        yield from self._check_inner(command)
        allowed = self._is_allowed(command, words, self._policy.allow)
        reads = paths is not None and all(_is_harmless(each) for each in command.assignments)
        if not allowed and not reads:
            reason = f"it runs {command.title}"
            yield self._ask(
                reason,
                self._suggest_rule(command, words),
                opaque=runs_unknown_code(command) or runs_unseen_input(command),
            )
        for decision in self._check_reads(paths or (), suggest=words[0].value != "cd" if words else False):
            if decision.final or not allowed:
                yield decision
        if words and words[0].value == "cd":
            yield from self._change_folder(command, words, script)
        elif words and words[0].value in CWD_CHANGERS:
            self._cwd.mark_unknown()

    def _check_rules(self, command: Command) -> Iterator[PartDecision]:
        """Apply deny and ask rules."""
        for rule in self._policy.deny:
            match rule_matches(rule, command):
                case "yes":
                    yield deny_part(f"the rule {rule.text} denies {command.title}")
                case "maybe":
                    yield PartDecision("ask", f"the rule {rule.text} may deny {command.title}", final=True)
        for rule in self._policy.ask:
            if rule_matches(rule, command) != "no":
                yield PartDecision("ask", f"the rule {rule.text} asks about {command.title}", final=True)

    def _check_inner(self, command: Command) -> Iterator[PartDecision]:
        """Check command lines inside arguments. Only their final decisions count."""
        for text in inner_scripts(command):
            if self._depth >= MAX_DEPTH:
                yield self._ask("it has command lines in command lines", opaque=True)
                continue
            inner = CommandLineChecker(self._policy, self._cwd.folders, self._depth + 1)
            yield from (each for each in inner.check(text) if each.final)

    def _is_allowed(self, command: Command, words: Sequence[Word], rules: Sequence[Rule]) -> bool:
        if self._policy.mode == "plan" or not command.is_literal or not words:
            return False
        if not all(_is_harmless(each) for each in command.assignments):
            return False
        in_project = self._cwd.is_project
        readings = [[word.value or "" for word in reading] for reading in (command.words, words)]
        return any(
            rule_allows(rule, values, self._policy, has_input=command.has_input, in_project=in_project)
            for values in readings
            for rule in rules
        )

    def _suggest_rule(self, command: Command, words: Sequence[Word]) -> str:
        """Return the rule to suggest for one command, or "" if none would allow it."""
        known = [word.value for word in words if word.value is not None]
        text = suggest_rule(known) if known and command.is_literal else ""
        return text if text and self._is_allowed(command, words, [Rule.parse(text)]) else ""

    def _check_reads(self, paths: Sequence[str], *, suggest: bool) -> Iterator[PartDecision]:
        for path in paths:
            for folder in self._cwd.folders:
                decision = self._relax(check_path(self._policy, "Bash", "read", resolve_shell_path(path, folder)))
                yield decision if suggest else msgspec.structs.replace(decision, always=())

    def _check_redirection(self, part: Redirection) -> Iterator[PartDecision]:
        if part.target.value is None:
            yield from check_path_arguments(self._policy, (part.target, part.target), self._cwd.folders)
            yield self._ask(f"it is not known which file {part.target.source} is", opaque=True)
            return
        found = [
            check_path(self._policy, "Bash", part.access, resolve_shell_path(part.target.value, folder))
            for folder in self._cwd.folders
        ]
        yield self._relax(max(found, key=lambda each: ("allow", "ask", "deny").index(each.verdict)))

    def _relax(self, decision: PartDecision) -> PartDecision:
        """Allow the files that commands open where every command is allowed."""
        return ALLOWED if self._allows_all and decision.verdict == "ask" and not decision.final else decision

    def _change_folder(self, command: Command, words: Sequence[Word], script: Script) -> Iterator[PartDecision]:
        for doubt in self._cwd.change(command, words, script):
            yield self._ask(doubt)
        if len(self._cwd.folders) > MAX_FOLDERS:
            yield self._ask("it changes the folder too often", opaque=True)
            self._cwd.folders = self._cwd.folders[:MAX_FOLDERS]


def _is_harmless(assignment: Assignment) -> bool:
    value = assignment.value.value
    return assignment.name in HARMLESS_VARIABLES and value is not None and bool(_PLAIN_VALUE.fullmatch(value))
