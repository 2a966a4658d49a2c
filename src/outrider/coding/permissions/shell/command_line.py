"""Decide about a command line and the access level that it asks for.

Deny and ask rules decide first. Then the mode decides about the level: with a sandbox, the sandbox enforces it. Without
one, every command runs as the user, so only plain commands from the short list count as reading.
"""

from __future__ import annotations

import functools
import glob
import itertools
import os.path
import re
import shlex
from collections.abc import Iterator, Sequence

from outrider.coding.access import ACCESS_LEVELS, Access
from outrider.coding.permissions.file_access import (
    PLAN_MODE,
    ResolvedPath,
    check_path,
    denial_reason,
    denying_rule,
    is_inside,
    resolve_shell_path,
    rule_asks,
)
from outrider.coding.permissions.policy import ALLOWED, READS, Decision, Policy, allowed_by, deny_part
from outrider.coding.permissions.question import LEVELS_THAT_RUN
from outrider.coding.permissions.rules import Rule, exact_rule
from outrider.coding.permissions.shell.command_rules import (
    STATE_CHANGERS,
    all_commands,
    allow_rule_covers,
    deny_rule_matches,
    prefix_of,
    program_name,
    runs_unseen_code,
)
from outrider.coding.permissions.shell.plain_line import Command, NotPlainError, read_plain_line
from outrider.coding.permissions.shell.short_list import files_read
from outrider.coding.protected_paths import is_secret, targets_secrets
from outrider.coding.wildcards import TooManyAlternativesError, alternatives
from outrider.processes.programs import Programs
from outrider.text import word_set

EXPANDS_PATTERNS = word_set("git find fd tar rsync zip unzip rg grep")
"""Programs that find files by patterns among their arguments."""


def check_command_line(policy: Policy, text: str, access: Access, cwd: str) -> list[Decision]:
    return _CommandLine(policy, text, access, cwd).check()


def check_typing(policy: Policy, keys: str, access: Access, cwd: str, command: str) -> list[Decision]:
    """Decide about keys for a running command: they can do whatever its level allows, so they need that level again.

    Deny and ask rules apply, as the program may be a shell. Allow rules for single commands do not: another program
    takes the same words for something else.
    """
    return _CommandLine(policy, keys, access, cwd).check_typing(command)


class _CommandLine:
    def __init__(self, policy: Policy, text: str, access: Access, cwd: str) -> None:
        self._policy = policy
        self._text = text
        self._asked_for = access
        self._access = policy.effective_access(access)
        self._cwd = cwd
        self._commands: Sequence[Command] = ()
        self._doubt = ""
        """Why the line is not plain."""
        try:
            self._commands = read_plain_line(text)
        except NotPlainError as error:
            self._doubt = str(error)

    def check(self) -> list[Decision]:
        return [*self._check_rules(), *self._check_names(), *self._check_access(), *self._check_doubts()]

    def check_typing(self, command: str) -> list[Decision]:
        rules = [*self._check_rules(), *self._check_names(), *self._check_doubts()]
        if self._access in LEVELS_THAT_RUN[self._policy.mode]:
            return [*rules, ALLOWED]
        reason = f"it types into the running command {command}"
        if self._policy.mode == "plan":
            return [*rules, deny_part(f"{reason}; {PLAN_MODE}")]
        allowing = next((rule for rule in self._allow_rules() if rule.pattern is None), None)
        return [*rules, allowed_by(allowing) if allowing else Decision("ask", reason)]

    # Deny and ask rules

    def _check_rules(self) -> Iterator[Decision]:
        denying, asking = (
            [rule for rule in rules if self._is_in_force(rule)] for rules in (self._policy.deny, self._policy.ask)
        )
        for rule in denying:
            if deny_rule_matches(rule, self._text):
                yield deny_part(f"the rule {rule.text} denies it")
        for rule in asking:
            if deny_rule_matches(rule, self._text):
                yield Decision("ask", f"the rule {rule.text} asks about it", final=True)
        if rules := [rule.text for rule in (*denying, *asking) if rule.pattern is not None]:
            if self._doubt:
                yield Decision("ask", f"{rules[0]} may apply to it ({self._doubt})", final=True)
            elif runs_unseen_code(self._commands):
                yield Decision("ask", f"{rules[0]} may apply to the commands that it reads", final=True)

    def _is_in_force(self, rule: Rule) -> bool:
        """Return whether a deny or ask rule for commands is about this access level."""
        return rule.tool == "Bash" and (rule.access is None or _rank(self._access) >= _rank(rule.access))

    def _check_names(self) -> Iterator[Decision]:
        """Check the paths that are written out. The sandbox masks secrets, so they matter only without it."""
        policy, masked, cwd = self._policy, self._access != "full", self._cwd
        for words in all_commands(self._text):
            paths = None if self._doubt else files_read(words)
            tools = ("Read",) if self._access == "read" or paths is not None else ("Read", "Edit", "Write")
            if paths is None:
                paths = words if self._doubt else words[1:]  # in a rough reading, the first word may be a file
            globs = bool(self._doubt)
            patterns = globs or program_name(words[0]) in EXPANDS_PATTERNS
            yield from check_named_paths(policy, paths, cwd, tools, secrets=not masked, patterns=patterns, globs=globs)
            if words[0] == "cd" and len(words) > 1:
                cwd = os.path.join(cwd, words[1])

    # The mode, and allow rules

    def _check_access(self) -> Iterator[Decision]:
        mode = self._policy.mode
        if mode == "plan" and self._asked_for != "read":
            yield deny_part(f"it asks for access {self._asked_for}; {PLAN_MODE}")
        elif self._access in LEVELS_THAT_RUN[mode]:
            yield ALLOWED
        elif mode != "plan" and (rule := self._rule_for_line()):
            yield allowed_by(rule)
        else:
            yield from self._check_commands()

    def _check_doubts(self) -> Iterator[Decision]:
        """Ask once where the sandbox cannot keep what the level promises."""
        if self._access != "full" and (doubts := self._policy.open_doubts(self._access)):
            reason = f"{'; '.join(doubts)}; a yes accepts this for the session"
            yield Decision("ask", reason, final=True, doubts=doubts)

    def _rule_for_line(self) -> Rule | None:
        """Return a rule that covers every command, or is exactly this line, which the user has seen as a whole.

        The rule for a line does not apply everywhere: elsewhere the same names mean other files.
        """
        for rule in self._allow_rules():
            if rule.pattern is None or (rule.pattern == self._text.strip() and self._applies(rule, self._cwd)):
                return rule
        return None

    def _allow_rules(self) -> Iterator[Rule]:
        for rule in self._policy.allow:
            if rule.tool == "Bash" and rule.allows_access(self._asked_for, sandboxed=self._policy.sandboxed):
                yield rule

    def _check_commands(self) -> Iterator[Decision]:
        """Allow each command by the short list or by a rule; ask about the others."""
        if self._doubt:
            # In the sandbox the level says all: whether the line is plain decides nothing.
            reason = "" if self._policy.sandboxed else f"it is not a plain command ({self._doubt})"
            yield self._ask(reason, exact_rule(self._text))
            return
        commands, cwd = self._after_cd()
        certain = len(commands) == 1 or all(command.words[0] not in STATE_CHANGERS for command in commands)
        found = [(command, self._rule_for(command, cwd, certain)) for command in commands]
        others = [command for command, rule in found if rule is None]
        unasked = len(others) == len(commands)
        open_commands = [command for command in others if not self._only_reads(command, cwd, unasked)]
        for command in open_commands:
            alone = len(open_commands) == 1 and certain and self._is_known(cwd) and command.operator != "|"
            rule = exact_rule(self._text if not alone else shlex.join(command.words))
            reads = self._check_reads(files_read(command.words) or (), cwd)
            refused = [part for part in reads if part.verdict != "allow"]
            yield from refused or [self._ask(f"it runs {command.title}", rule, prefix_of(command.words))]
        yield READS if unasked else allowed_by(*(rule for _, rule in found if rule))

    def _after_cd(self) -> tuple[Sequence[Command], str]:
        """Return the commands after a leading `cd folder &&`, if any, and the folder that they run in."""
        first, *rest = self._commands
        if first.words[0] != "cd" or len(first.words) != 2:
            return self._commands, self._cwd
        folder = os.path.normpath(os.path.join(self._cwd, first.words[1]))
        certain = all(os.path.realpath(each) == each for each in (folder, self._cwd))
        certain = certain and os.path.isdir(folder) and first.words[1][:1] not in ("-", "")
        certain = certain and is_inside(folder, self._policy.inside)  # `ls` alone would list it
        if not certain or [command.operator for command in rest[:1]] == ["|"]:  # then it runs in a shell of its own
            return self._commands, self._cwd
        if any(command.operator not in ("&&", "|") for command in rest):
            return self._commands, self._cwd
        return rest, folder

    def _only_reads(self, command: Command, cwd: str, unasked: bool) -> bool:
        """Return whether the short list allows a command. It is about names, so it never allows `full`.

        `unasked` lines run at `read`. Without a sandbox, nothing holds them there but the programs of the system. The
        other lines run with the user's PATH, in which another program may have the name.
        """
        paths = None if self._asked_for == "full" else files_read(command.words)
        if paths is None or any(part.verdict != "allow" for part in self._check_reads(paths, cwd)):
            return False
        if self._policy.sandboxed:
            return True
        programs = Programs(self._policy.inside)
        return not programs.is_shadowed(command.words[0], programs.path if unasked else None)

    def _rule_for(self, command: Command, cwd: str, certain: bool) -> Rule | None:
        """Return a rule that allows a command. `certain` is False after a builtin like `cd`."""
        if self._policy.mode == "plan" or not certain or command.operator == "|":
            return None  # a program runs what it is fed
        rules = (rule for rule in self._allow_rules() if self._applies(rule, cwd))
        return next((rule for rule in rules if allow_rule_covers(rule, command.words, self._policy)), None)

    def _check_reads(self, paths: Sequence[str], cwd: str) -> Iterator[Decision]:
        for path in paths:
            yield check_path(self._policy, "Bash", "read", resolve_shell_path(path, cwd))

    def _is_project(self, folder: str) -> bool:
        return os.path.realpath(folder) == str(self._policy.folder)

    def _is_known(self, folder: str) -> bool:
        return self._is_project(folder) or self._policy.is_in_repository(folder)

    def _applies(self, rule: Rule, folder: str) -> bool:
        """Return whether a rule applies where a command runs: a program obeys the files in its folder."""
        is_wide = rule.shared and "/" not in (rule.pattern or "")
        return self._is_project(folder) or (is_wide and self._policy.is_in_repository(folder))

    def _ask(self, reason: str, pattern: str, prefix: str = "") -> Decision:
        if self._policy.mode == "plan":
            return deny_part(f"{reason}; {PLAN_MODE}")
        always, begins = ((Rule("Bash", each, self._access).text,) if each else () for each in (pattern, prefix))
        return Decision("ask", reason, always, begins, resolved_paths=self._resolved_paths)

    @functools.cached_property
    def _resolved_paths(self) -> tuple[str, ...]:
        """Where all paths of the line lead now: links may change until the answer."""
        words = {word for command in all_commands(self._text) for word in command if "/" in word}
        return tuple(sorted(resolve_shell_path(word, self._cwd).resolved for word in words))


def _rank(access: Access) -> int:
    return ACCESS_LEVELS.index(access)


MAX_NAMES = 1_000
"""The most names that a glob is expanded to."""

_EXCLUDES = re.compile(r"--(?:exclude|ignore|skip)")
_CUT = re.compile(r"[=@:,!)]")
_GLOB = re.compile(r"[*?\[]")


def check_named_paths(
    policy: Policy,
    words: Sequence[str],
    cwd: str,
    tools: tuple[str, ...],
    *,
    secrets: bool,
    patterns: bool,
    globs: bool,
) -> Iterator[Decision]:
    """Check the words of a command against the rules of these tools, and against the secrets if nothing masks them.

    This covers names that are written out. What a program opens by itself, only the sandbox restricts.
    `patterns` says whether the command finds files by patterns, `globs` whether the shell expands them.
    """
    cwd = os.path.realpath(cwd)
    for word in dict.fromkeys(word for at, word in enumerate(words) if not _is_excluded(words, at)):
        for text in filter(None, dict.fromkeys(_possible_paths(word))):
            if patterns and secrets and _GLOB.search(text) and targets_secrets(text, policy.secrets):
                yield deny_part(f"{text} looks for secrets, which are never opened")
            yield from _check_path(policy, _resolved(text, cwd), tools, secrets=secrets)
            for path in _expanded(text, cwd) if globs else ():
                for part in _check_path(policy, resolve_shell_path(path, cwd), tools, secrets=secrets):
                    yield Decision("ask", f"{text} also matches {path}: {part.reason}", final=True)


def _resolved(text: str, cwd: str) -> ResolvedPath:
    """Resolve a word. Most words are no paths, and are not looked up component by component."""
    if "/" not in text and text not in (".", "..") and not os.path.lexists(f"{cwd}/{text}"):
        return ResolvedPath(text, f"{cwd}/{text}", (f"{cwd}/{text}",))
    return resolve_shell_path(text, cwd)


def _check_path(policy: Policy, found: ResolvedPath, tools: tuple[str, ...], *, secrets: bool) -> Iterator[Decision]:
    if found.problem:
        return
    if rule := denying_rule(policy, tools, found):
        yield deny_part(f"the rule {rule.text} denies {found.given}")
    elif secrets and _is_secret(policy, found):
        yield deny_part(denial_reason(policy, tools, "read", found))
    elif rule_asks(policy, tools, found):
        yield Decision("ask", f"a rule asks about {found.given}", final=True, resolved_paths=(found.resolved,))


def _is_secret(policy: Policy, found: ResolvedPath) -> bool:
    """Return whether it is a secret or Outrider's own.

    `.key` may be an expression of jq, so a match of `*.key` must exist.
    """
    folder = str(policy.folder)
    if any(policy.own.hides(path) for path in found.all_paths):
        return True
    if not any(is_secret(path, policy.secrets, folder) for path in found.all_paths):
        return False
    certain = tuple(pattern for pattern in policy.secrets if not pattern.startswith("*"))
    return os.path.lexists(found.resolved) or any(is_secret(path, certain, folder) for path in found.all_paths)


def _expanded(text: str, folder: str) -> Iterator[str]:
    """Return the names that a glob stands for now. The last name may be that of a new file."""
    if not _GLOB.search(text):
        return iter(())
    parent, slash, name = text.rpartition("/")
    new = (f"{each}/{name}" for each in glob.iglob(parent, root_dir=folder)) if slash and not _GLOB.search(name) else ()
    return itertools.islice(itertools.chain(glob.iglob(text, root_dir=folder), new), MAX_NAMES)


def _is_excluded(words: Sequence[str], at: int) -> bool:
    """Return whether the word excludes something: `--exclude=.git`, `! -path ./.git`."""
    before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
    if _EXCLUDES.match(words[at]) or (_EXCLUDES.match(before) and "=" not in before):
        return True
    return before in ("-path", "-name") and (after == "-prune" or (at > 1 and words[at - 2] in ("!", "-not")))


def _possible_paths(word: str) -> Iterator[str]:
    """Yield the word, and the parts that may be a path: `--opt=x`, `@x`, `if=x`, `-Tx`, `HEAD:x`, `~/x`."""
    try:
        texts = alternatives(word)
    except TooManyAlternativesError:
        texts = [word]
    for text in texts:
        home = os.path.expanduser(text.replace("$HOME/", "~/")) if text.startswith(("~/", "$HOME/")) else text
        yield from (home, *(home[cut.end() :] for cut in _CUT.finditer(home)), *_CUT.split(home)[:-1])
        if text.startswith("-") and not text.startswith("--"):
            yield text[2:]
