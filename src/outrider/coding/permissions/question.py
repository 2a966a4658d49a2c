"""The modes, what runs in each, a call that waits for a decision, and the question to the user with its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from outrider.coding.access import ACCESS_LEVELS, ACCESS_WORDS, Access
from outrider.coding.toolbox import WEB_SEARCH
from outrider.conversation.messages import ToolUseBlock

Mode: TypeAlias = Literal["ask", "edits", "all", "plan"]
"""`ask` before anything changes; allow `edits` in the folder; allow `all` calls; `plan` only reads."""

MODES: tuple[Mode, ...] = ("ask", "edits", "all", "plan")
MODE_WORDS: Mapping[Mode, str] = {
    "ask": "You are asked before anything is changed.",
    "edits": "Files in the folder are changed without asking, also by commands in the sandbox.",
    "all": "You are asked only about what rules name; secrets stay closed.",
    "plan": "Nothing is changed: the model reads and plans.",
}


WIDTH: tuple[Mode, ...] = ("plan", "ask", "edits", "all")
"""The modes, from the one that allows the least."""


def parse_mode(name: str | None) -> Mode | None:
    return next((mode for mode in MODES if mode == name), None)


def modes_within(most: Mode) -> tuple[Mode, ...]:
    """Return the modes that allow no more than one.

    >>> modes_within("edits")
    ('ask', 'edits', 'plan')
    """
    return tuple(mode for mode in MODES if WIDTH.index(mode) <= WIDTH.index(most))


def narrower(one: Mode, other: Mode) -> Mode:
    """Return the mode that allows less.

    >>> narrower("edits", "ask")
    'ask'
    """
    return min(one, other, key=WIDTH.index)


Lasting: TypeAlias = Literal["always", "prefix"]
PlanVerdict: TypeAlias = Literal["go", "edits", "change", "no"]
ALL_EDITS = "yes, and all edits in this session (permissions: edits)"


_SAID_ELSEWHERE = ("command", "description")
"""Arguments of a command that a question shows whole, or that change nothing."""


PLAN_ANSWERS: Mapping[PlanVerdict, str] = {
    "go": "Go: ask before each change",
    "edits": "Go, with all edits in this session",
    "change": "Change it: keep planning",
    "no": "No: stop here",
}
"""The answers to a plan, in words."""
APPROVING = ("go", "edits")
"""Those that approve it."""


def plan_verdict(option: str) -> PlanVerdict:
    """Return the answer to a plan of that name. Another name says no."""
    return next((verdict for verdict in PLAN_ANSWERS if verdict == option), "no")


def mode_after(verdict: str, mode: Mode) -> Mode:
    """Return the mode after an answer to a plan. A user may have left plan mode before it.

    >>> mode_after("go", "plan"), mode_after("edits", "plan"), mode_after("no", "plan"), mode_after("go", "edits")
    ('ask', 'edits', 'plan', 'edits')
    """
    return "edits" if verdict == "edits" else "ask" if verdict == "go" and mode == "plan" else mode


class Question(msgspec.Struct, frozen=True):
    """A call that needs approval, or a plan."""

    call_id: str
    tool: str
    input: dict[str, Any]
    reason: str
    """Why the call needs approval, in a few words."""
    always: tuple[str, ...] = ()
    """The rules that "always" would store for this project; none if no rule can allow the call."""
    asker: str = ""
    """The caller, if it is a sub-agent: its profile and its task.

    Or the tool that attaches a file: that question is about a Read of the file, while the call of the tool goes on.
    """
    folder: str = ""
    """Where a command runs, if that is not the project folder."""
    changes: str = ""
    """What an edit changes: how many lines in how many places."""
    is_plan: bool = False
    """Whether it asks about a plan: the answers are those of `PLAN_ANSWERS`."""
    prefix: tuple[str, ...] = ()
    """The rules for commands that begin as this one does; none if they would allow anything."""
    where: str = "in this project"
    """Where rules apply that an answer stores, in words."""
    diff: str = ""
    """What an edit changes in the file as it is, as a unified diff without file names; "" if that cannot be told."""
    in_background: bool = False
    """Whether the caller works in the background: a plain "no" ends it, and the turn goes on."""

    @property
    def is_for_session(self) -> bool:
        """Whether yes and no hold for the session, and the turn goes on after either."""
        return self.tool == WEB_SEARCH

    @property
    def lasting(self) -> dict[Lasting, str]:
        """The answers that store rules, each with what it allows from now on. Not revealed yet."""
        from outrider.coding.permissions.rules import meaning_of  # the settings name modes, and need no rules

        offered: dict[Lasting, tuple[str, ...]] = {"always": self.always, "prefix": self.prefix}
        return {name: f"always {self.where}: {meaning_of(rules)}" for name, rules in offered.items() if rules}

    @property
    def facts(self) -> tuple[str, ...]:
        """What a call changes; what a command may do and how it runs, if its text does not say it. Not revealed yet."""
        if self.tool != "Bash":
            return tuple(filter(None, (self.changes, self.input.get("replace_all") and "all occurrences are replaced")))
        given = {name: value for name, value in self.input.items() if name not in _SAID_ELSEWHERE and value}
        facts = [f"access: {given.pop('access')}"] if given.get("access") not in (None, "read") else []
        if given.pop("run_in_background", False):
            facts.append("runs in the background, also after this call")
        if given.pop("terminal", False):
            facts.append("has a terminal, and goes on after this call")
        if (limit := given.pop("timeout", None)) is not None:
            facts.append(f"time limit: {limit / 1000:g} s" if isinstance(limit, int | float) else f"timeout: {limit}")
        if self.folder:
            facts.append(f"in the folder {self.folder}")
        return (*facts, *(f"{name}: {value}" for name, value in given.items() if name != "access"))


class Answer(msgspec.Struct, frozen=True):
    """The user's answer."""

    verdict: Literal["once", "edits", "always", "prefix", "no", "never", "go", "change"]
    """`edits` allows the call, and all edits in this session. `always` and `prefix` allow it, and store rules. `never`
    denies calls like this one in this session."""
    words: str = ""
    """What the model reads with a denial, or what it should change in a plan."""
    ends_run: bool = False
    """Whether a denial ends the run: the user says next what to do instead."""


Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]


LEVELS_THAT_RUN: Mapping[Mode, tuple[Access, ...]] = {
    "plan": ("read",),
    "ask": ("read",),
    "edits": ("read", "write"),
    "all": ACCESS_LEVELS,
}
"""The levels at which commands run without asking where a sandbox enforces them."""


def access_table(mode: Mode, *, sandboxed: bool) -> dict[Access, tuple[str, str]]:
    """Return what happens to a command at each level, and what it may touch, both in words."""
    if sandboxed:
        return {level: (_verdict(mode, level), ACCESS_WORDS[level]) for level in ACCESS_LEVELS}
    unconfined = _verdict(mode, "full")
    words = "a few plain commands that only read run" if unconfined != "runs" else ""
    others = dict.fromkeys(ACCESS_LEVELS, (unconfined, ACCESS_WORDS["full"]))
    return {**others, "read": (unconfined, "; ".join(filter(None, (ACCESS_WORDS["full"], words))))}


def _verdict(mode: Mode, level: Access) -> str:
    if level in LEVELS_THAT_RUN[mode]:
        return "runs"
    return "refused" if mode == "plan" else "asks"


class PendingCall(msgspec.Struct, frozen=True):
    """A call to decide about."""

    use: ToolUseBlock
    effect: str
    cwd: Callable[[], Path]
    """Returns the folder of the caller's shell."""
    asker: str = ""
    """The caller, if it is a sub-agent or a tool that attaches a file."""
    built_in: bool = True
    folder: Path | None = None
    """The worktree in which the caller works; None for the project's folder."""
    workspace: str = ""
    """The workspace of a sub-agent elsewhere; empty for that of the session."""


class Preview(msgspec.Struct, frozen=True):
    """What a question shows of a call beside its arguments."""

    folder: str = ""
    """Where a command runs, if that is not the project folder."""
    changes: str = ""
    """What an edit changes: how many lines in how many places."""
    diff: str = ""


class Grant(NamedTuple):
    """How a call was allowed, for tools that run in another process."""

    paths: tuple[str, ...] = ()
    """The resolved paths that the user agreed to."""
    unasked: bool = False
    """Whether a command is allowed by the names of its programs alone."""
