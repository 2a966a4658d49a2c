"""The goal of a run: a command, or a function, that must succeed before the run is done."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from outrider.conversation.messages import Message
from outrider.errors import ConversationError
from outrider.log.entries import Entry, GoalChecked, MessageEntry, SessionSettings
from outrider.prompts import prompt as prompt_text
from outrider.runtime.events import GoalCheckStarted
from outrider.runtime.limits import WARNED_AT
from outrider.text import clean, shorten

if TYPE_CHECKING:
    from outrider.runtime.folder_watch import FolderWatch
    from outrider.runtime.record import SessionRecord

LONGEST_LINE = 200
_CHANGING = re.compile(
    r"\d[\d.:,]*\s?(?:µs|ms|s|secs?|seconds?|m|min|minutes?)\b|0x[0-9a-f]+|\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?", re.I
)
"""What differs in the output of two runs of the same command: durations, times of day and addresses."""


class CheckResult(msgspec.Struct, frozen=True):
    """How a check of a goal ended."""

    passed: bool
    output: str = ""
    """What the model reads if it failed."""
    last_line: str = ""
    """What people read of it; by default its last line."""


Until: TypeAlias = str | Callable[[], Awaitable[bool | str | CheckResult]]
"""What `run(until=…)` takes: a command, or an async function, which returns True once the goal is reached, and until
then False or a text for the model that says what is missing."""
CheckCommand: TypeAlias = Callable[[str], Awaitable[CheckResult | None]]
"""Runs the command of a goal. None if it cannot be checked now."""


class GoalKeeper:
    """Checks the goal of a session's runs. The log has its command, so that a resumed session goes on with it."""

    def __init__(self, record: SessionRecord) -> None:
        self._record = record
        self.check_command: CheckCommand | None = None
        """Runs commands; None in a session without a workbench."""
        self._until: Callable[[], Awaitable[bool | str | CheckResult]] | None = None
        """The function that checks the run under way."""
        self._is_put_off = False

    @property
    def name(self) -> str:
        """The goal that is checked in runs: the command, or the name of the function; empty if there is none."""
        if self._until:
            return getattr(self._until, "__name__", "") or type(self._until).__name__
        return "" if self._is_put_off or not self.check_command else self._record.state.settings.goal or ""

    def begin(self, until: Until | None) -> tuple[Entry, ...]:
        """Take the goal of the run that begins. Return the entries that store it."""
        self._until, self._is_put_off = None, False
        if until is None:
            return ()
        if not isinstance(until, str):
            if not callable(until):
                raise TypeError(f"until must be a command or an async function, not {type(until).__name__}")
            self._until = until
            return ()
        if self.check_command is None:
            raise ConversationError(
                "until is a command, which only the coding agent runs; pass an async function that returns whether the "
                "goal is reached"
            )
        return (SessionSettings(goal=as_goal(until)),)

    async def check(self, number: int, watch: FolderWatch | None) -> None:
        """Check the goal, and store how that ended. If it is not reached, the model is told in the same commit."""
        goal = self.name
        self._record.emit(GoalCheckStarted(goal, number))
        if watch and (snapshot := await watch.begin()):  # a command may write: a rewind must not take it for another's
            await self._record.append(snapshot)
        try:
            result = await self._checked(goal)
        finally:
            if watch:
                watch.end()
        if result is None:
            self._is_put_off = True
            return
        output = clean(result.output).strip()
        last_line = shorten(clean(result.last_line or output.rpartition("\n")[2]).strip(), LONGEST_LINE, "…")
        if result.passed:
            ends = () if self._until else (SessionSettings(goal=""),)
            await self._record.append(GoalChecked(goal, True, last_line), *ends)
            self._until = None
            return
        checked = GoalChecked(goal, False, last_line, digest_of(output))
        run = self._record.state.run
        times = run.same_after(checked) if run else 1
        await self._record.append(checked, MessageEntry(Message.user(failure_text(goal, number, output, times))))

    async def _checked(self, goal: str) -> CheckResult | None:
        if not self._until:
            return await self.check_command(goal) if self.check_command else None
        found = self._until()
        told = await found if inspect.isawaitable(found) else found
        if isinstance(told, CheckResult):
            return told
        return CheckResult(told is True, told if isinstance(told, str) else "")


def with_goal(said: list[Message], until: Until | None) -> list[Message]:
    """Return the messages of a prompt with what tells the model the command of its goal."""
    if not isinstance(until, str):
        return said
    told = goal_message(until)
    *before, last = said or [Message.user()]
    if last.role != "user":
        return [*said, Message.user(told)]
    return [*before, Message.user(*last.content, f"\n\n{told}" if last.text else told)]


def goal_message(command: str) -> str:
    """Return what tells the model the command of its goal. Raises ConversationError if there is none."""
    return prompt_text("goal_set").format(goal=as_goal(command))


def as_goal(command: str) -> str:
    """Return a command in the form that is stored. Raises ConversationError if there is none."""
    if not (command := clean(command).strip()) or "\0" in command:
        raise ConversationError('a goal is a command that succeeds once it is reached, as in "pytest -q"')
    return command


def failure_text(goal: str, number: int, output: str, times: int) -> str:
    """Return what the model reads after a failed check, the `times`-th in a row with this output."""
    text = prompt_text("goal_failed").format(goal=goal, check=number, output=output or "There was no output.")
    return text if times < WARNED_AT else f"{text}\n\n{prompt_text('goal_repeated').format(times=times)}"


def digest_of(output: str) -> str:
    """Return a digest of what a check printed, the same if only times differ.

    >>> digest_of("1 failed in 0.12s") == digest_of("1 failed in 3.4s") != digest_of("2 failed in 0.12s")
    True
    """
    from hashlib import sha256

    return sha256(_CHANGING.sub("", output).encode()).hexdigest()[:16]
