"""May this command line run? Every command in it is judged on its own; the whole may run if each may."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from outrider.coding.permissions.commands import listed_paths, read_paths
from outrider.coding.permissions.feeding import is_fed_a_program
from outrider.coding.permissions.files import PLAN, judge_path
from outrider.coding.permissions.finding import ALLOWED, Finding, denied
from outrider.coding.permissions.matching import allows, speaks_of
from outrider.coding.permissions.mentions import judge_mentions
from outrider.coding.permissions.naming import names
from outrider.coding.permissions.paths import shell_place
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.script import Assignment, Command, Redirection, Script, is_plain_variable
from outrider.coding.permissions.shell import read_script
from outrider.coding.permissions.standing import MOST, ShellCwd
from outrider.coding.permissions.suggestions import lasting_rule
from outrider.coding.permissions.words import Word
from outrider.coding.permissions.wrappers import MOVERS, inner_scripts, runs_the_unknown, unwrapped

DEEPEST = 4
"""As often as one command line is looked for inside another."""

HARMLESS_VARIABLES = names(
    "CI NO_COLOR FORCE_COLOR LC_ALL LANG TZ TERM COLUMNS LINES NODE_ENV RUST_BACKTRACE RUST_LOG DEBUG VERBOSE "
    "PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE"
)
"""Variables that lead no program astray, with a plain value."""

KNOWN_VARIABLES = names("PWD OLDPWD HOME USER RANDOM SECONDS LINENO UID HOSTNAME")
"""Variables that hold no secret."""

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.:@,=+-]*")


class ShellJudge:
    """Goes through a command line once. It keeps in mind where the shell may stand."""

    def __init__(self, policy: Policy, places: Sequence[str], depth: int = 0) -> None:
        self._policy = policy
        self._standing = ShellCwd(places, str(policy.folder))
        self._depth = depth
        self._free = policy.mode == "all" or any(
            rule.tool == "Bash" and rule.pattern is None and policy.mode != "plan" for rule in policy.allow
        )
        self._wary = any(rule.tool in ("Bash", "Read", "Edit", "Write") for rule in (*policy.deny, *policy.ask))

    def judge(self, text: str) -> list[Finding]:
        """What is found about each part."""
        script = read_script(text)
        findings = [*self._doubts(script), *self._variables(script), *self._lists(script)]
        parts: list[Command | Redirection] = [*script.commands, *script.redirections]
        for part in sorted(parts, key=lambda each: each.start):
            if isinstance(part, Command):
                findings.extend(self._command(part, script))
            else:
                findings.extend(self._redirection(part))
        if not parts and not script.assignments:
            findings.append(self._asked("there is no command in it"))
        return findings or [ALLOWED]

    def _asked(self, reason: str, always: str = "", *, wary: bool = False) -> Finding:
        """A part that the mode or a rule for the whole tool may allow, unless a rule might speak of it."""
        if self._policy.mode == "plan":
            return denied(f"{reason}; {PLAN}")
        if self._free:
            return Finding("ask", reason, firm=True) if wary and self._wary else ALLOWED
        return Finding("ask", reason, (always,) if always else ())

    def _doubts(self, script: Script) -> Iterator[Finding]:
        for rule in self._policy.deny:
            if rule.tool == "Bash" and rule.pattern is None:
                yield denied("the rule Bash denies every command")
        for rule in self._policy.ask:
            if rule.tool == "Bash" and rule.pattern is None:
                yield Finding("ask", "a rule asks about every command", firm=True)
        for doubt in script.doubts:
            yield self._asked(f"it cannot be judged: {doubt}", wary=True)

    def _variables(self, script: Script) -> Iterator[Finding]:
        own = {each.name for each in script.assignments if is_plain_variable(each.name)}
        for each in script.assignments:
            if each.name not in own:
                yield self._asked(f"it sets {each.name or 'a variable'}, which other programs heed")
        for name in sorted(script.variables - own - KNOWN_VARIABLES):
            if name[:1].isalpha() or name[:1] == "_" or not name:
                yield self._asked(f"it shows the variable {name}, which it has not set")

    def _lists(self, script: Script) -> Iterator[Finding]:
        """What loops go through."""
        paths = listed_paths(script.listed)
        if paths is None:
            yield self._asked("it is not known what its loop goes through")
        yield from self._reads(paths or (), lasting=True)

    def _command(self, command: Command, script: Script) -> Iterator[Finding]:
        words = unwrapped(command.words)
        paths = read_paths(words) if words else None
        yield from self._rules(command)
        if paths is None:
            yield from judge_mentions(self._policy, command.words, self._standing.places)
        yield from self._inner(command)
        allowed = self._is_allowed(command, words, self._policy.allow)
        reads = paths is not None and all(_is_harmless(each) for each in command.assignments)
        if not allowed and not reads:
            reason = f"it runs {command.title}"
            yield self._asked(
                reason, self._lasting(command, words), wary=runs_the_unknown(command) or is_fed_a_program(command)
            )
        for finding in self._reads(paths or (), lasting=words[0].value != "cd" if words else False):
            if finding.firm or not allowed:
                yield finding
        if words and words[0].value == "cd":
            yield from self._move(command, words, script)
        elif words and words[0].value in MOVERS:
            self._standing.lose()

    def _rules(self, command: Command) -> Iterator[Finding]:
        """What rules say that deny or ask."""
        for rule in self._policy.deny:
            match speaks_of(rule, command):
                case "yes":
                    yield denied(f"the rule {rule.text} denies {command.title}")
                case "maybe":
                    yield Finding("ask", f"the rule {rule.text} may deny {command.title}", firm=True)
        for rule in self._policy.ask:
            if speaks_of(rule, command) != "no":
                yield Finding("ask", f"the rule {rule.text} asks about {command.title}", firm=True)

    def _inner(self, command: Command) -> Iterator[Finding]:
        """Command lines in arguments: what is denied in them is denied."""
        for text in inner_scripts(command):
            if self._depth >= DEEPEST:
                yield self._asked("it has command lines in command lines", wary=True)
                continue
            inner = ShellJudge(self._policy, self._standing.places, self._depth + 1)
            yield from (each for each in inner.judge(text) if each.firm)

    def _is_allowed(self, command: Command, words: Sequence[Word], rules: Sequence[Rule]) -> bool:
        if self._policy.mode == "plan" or not command.is_literal or not words:
            return False
        if not all(_is_harmless(each) for each in command.assignments):
            return False
        home = self._standing.is_home
        readings = [[word.value or "" for word in reading] for reading in (command.words, words)]
        return any(
            allows(rule, values, self._policy, fed=command.fed, home=home) for values in readings for rule in rules
        )

    def _lasting(self, command: Command, words: Sequence[Word]) -> str:
        """The rule to offer for a command alone; empty if none would hold."""
        known = [word.value for word in words if word.value is not None]
        text = lasting_rule(known) if known and command.is_literal else ""
        return text if text and self._is_allowed(command, words, [Rule.parse(text)]) else ""

    def _reads(self, paths: Sequence[str], *, lasting: bool) -> Iterator[Finding]:
        for path in paths:
            for folder in self._standing.places:
                finding = self._relaxed(judge_path(self._policy, "Bash", "read", shell_place(path, folder)))
                yield finding if lasting else msgspec.structs.replace(finding, always=())

    def _redirection(self, part: Redirection) -> Iterator[Finding]:
        if part.target.value is None:
            yield from judge_mentions(self._policy, (part.target, part.target), self._standing.places)
            yield self._asked(f"it is not known which file {part.target.source} is", wary=True)
            return
        found = [
            judge_path(self._policy, "Bash", part.access, shell_place(part.target.value, folder))
            for folder in self._standing.places
        ]
        yield self._relaxed(max(found, key=lambda each: ("allow", "ask", "deny").index(each.verdict)))

    def _relaxed(self, finding: Finding) -> Finding:
        """A rule that allows every command also allows the files that they open."""
        return ALLOWED if self._free and finding.verdict == "ask" and not finding.firm else finding

    def _move(self, command: Command, words: Sequence[Word], script: Script) -> Iterator[Finding]:
        for doubt in self._standing.move(command, words, script):
            yield self._asked(doubt)
        if len(self._standing.places) > MOST:
            yield self._asked("it changes the folder too often", wary=True)
            self._standing.places = self._standing.places[:MOST]


def _is_harmless(assignment: Assignment) -> bool:
    value = assignment.value.value
    return assignment.name in HARMLESS_VARIABLES and value is not None and bool(_PLAIN_VALUE.fullmatch(value))
