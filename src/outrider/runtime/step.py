"""What comes next in a run: the only place that decides it. Pure: a state and the terms of the run give the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from outrider.conversation.messages import Message, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.log.run_state import RunState
from outrider.providers.base import StopReason
from outrider.runtime.events import RunStatus
from outrider.runtime.limits import WARNED_AT, Limits

if TYPE_CHECKING:
    from outrider.log.entries import MessageEntry
    from outrider.log.state import SessionState
    from outrider.runtime.answer_schema import AnswerSchema

MAX_PAUSES = 20
"""Requests of one turn, if the model pauses its reply again and again."""
SAME_CHECKS = 5
"""Failed checks of the goal in a row with the same output that end a run, if repetition is limited."""
Reminder: TypeAlias = Literal["", "final_turn", "repeating", "empty_reply", "on_task"]
_REFUSALS = (StopReason.REFUSAL, StopReason.CONTENT_FILTER)


class Terms(msgspec.Struct, frozen=True):
    """What a run must keep to."""

    limits: Limits
    answer: AnswerSchema | None = None
    """The schema that the answer must satisfy."""
    elsewhere: Usage = Usage()
    """What the sub-agents of the run have used."""
    outer: RunStatus | None = None
    """The limit on tokens or cost that the run of the parent session has reached, if this is a sub-agent."""
    is_attended: bool = False
    """Whether a person is there who can be asked."""
    has_goal: bool = False
    """Whether a goal has to be reached before the run is done."""
    keeps_on_task: bool = False
    """Whether the model reads the task again after each result, and is warned at the first repeat."""
    awaits: bool = False
    """Whether the run ends only when no sub-agent works in the background."""

    def used(self, run: RunState) -> Usage:
        """Return the usage of a run with that of its sub-agents."""
        return run.usage + self.elsewhere

    def budget_reached(self, run: RunState) -> RunStatus | None:
        """Return the limit on tokens or cost that is used up: of this run or of its parent."""
        limits = self.limits
        if limits.max_total_tokens is None and limits.max_cost is None:
            return self.outer
        used = self.used(run)
        if limits.max_total_tokens is not None and used.total_tokens >= limits.max_total_tokens:
            return "max_total_tokens"
        if limits.max_cost is not None and (used.cost or 0) >= limits.max_cost:
            return "max_cost"
        return self.outer

    def limit_reached(self, run: RunState) -> RunStatus | None:
        """Return the limit that is reached between two turns, if any."""
        limits = self.limits
        if limits.max_turns is not None and run.turns >= limits.max_turns:
            return "max_turns"
        if limits.max_repeats is not None and run.repeats >= limits.max_repeats:
            return "max_repeats"
        if limits.max_checks is not None and run.checks >= limits.max_checks:
            return "max_checks"
        if limits.max_repeats is not None and run.same_checks >= SAME_CHECKS:
            return "max_repeats"
        return self.budget_reached(run)

    def is_repeating(self, run: RunState) -> bool:
        """Return whether the model should be warned that it repeats itself, before it is stopped."""
        most = self.limits.max_repeats
        first = 1 if self.keeps_on_task else WARNED_AT
        return most is not None and run.repeats >= max(1, min(first, most - 1))


class Think(msgspec.Struct, frozen=True):
    """Request a reply."""

    turn: int
    is_new: bool = True
    """Whether a turn begins; else the reply goes on: the model paused, or said nothing."""
    is_last: bool = False
    """Whether it is the last turn that the limit allows."""
    reminder: Reminder = ""


class Act(msgspec.Struct, frozen=True):
    """Run calls."""

    calls: tuple[ToolUseBlock, ...]


class HandOver(msgspec.Struct, frozen=True):
    """Let another agent go on."""


class Deliver(msgspec.Struct, frozen=True):
    """Add the queued messages to the conversation, and the reports of sub-agents in the background."""


class Await(msgspec.Struct, frozen=True):
    """Wait until a sub-agent in the background ends, or a message is queued."""


class Correct(msgspec.Struct, frozen=True):
    """Tell the model what is wrong with its answer."""

    fault: str


class Check(msgspec.Struct, frozen=True):
    """Check the goal."""

    number: int


class Stop(msgspec.Struct, frozen=True):
    """End the run."""

    status: RunStatus
    error: str = ""
    """What the model did, if the status is `error`."""


Step: TypeAlias = Think | Act | HandOver | Deliver | Await | Correct | Check | Stop


def next_step(state: SessionState, terms: Terms) -> Step:
    """Return what a run does next."""
    run, last = state.run or RunState(), state.history.last
    if state.calls:
        return Stop("waiting") if state.is_waiting(is_attended=terms.is_attended) else Act(state.calls)
    if state.handoff:
        return HandOver()
    if last is not None and last is run.newest and run.replies:
        return _after_reply(run, state.history.tail, terms, _more(state, terms))
    limit, more = terms.limit_reached(run), _more(state, terms)
    if isinstance(more, Deliver) and not limit:
        return more
    if state.final:
        return _done(run, terms)
    if last is not None and last.role == "assistant":  # from before the run
        return more if more and not limit else _after_answer(run, state.history.tail, terms, limit)
    if limit:
        return Stop(limit)
    turn = run.turns + 1
    is_last = turn == terms.limits.max_turns
    return Think(turn, True, is_last, _reminder(run, terms, is_last, last))


def ends_with(reply: MessageEntry, state: SessionState, terms: Terms) -> bool:
    """Return whether the run is over once it has this reply: then the end is stored together with it."""
    if state.run is None or reply.message.has_tool_calls or terms.has_goal:
        return False
    run = state.run.with_reply(reply, state.history.last)
    messages = [*state.history.tail, reply.message] if terms.answer else [reply.message]
    return _after_reply(run, messages, terms, _more(state, terms)) == Stop("done")


def _more(state: SessionState, terms: Terms) -> Deliver | Await | None:
    """Return how the conversation goes on after an answer: something waits to be told, or will."""
    if state.queued or (state.background and state.reports):
        return Deliver()
    return Await() if terms.awaits and state.background and state.working else None


def _after_reply(run: RunState, messages: Sequence[Message], terms: Terms, more: Deliver | Await | None) -> Step:
    """Return what follows a reply of the run without calls, which is the last of the messages."""
    if same_turn := _rest_of_turn(run, terms):
        return same_turn
    limit = terms.limit_reached(run)
    return more if more and not limit else _after_answer(run, messages, terms, limit)


def _after_answer(run: RunState, messages: Sequence[Message], terms: Terms, limit: RunStatus | None) -> Step:
    """Return what follows an answer. One that does not satisfy its schema is corrected, unless it is a refusal."""
    fault = ""
    if terms.answer is not None and run.stop_reason not in _REFUSALS:
        fault = terms.answer.correction(messages)
    if not fault:
        return _done(run, terms)
    return Stop(limit) if limit else Correct(fault)


def _done(run: RunState, terms: Terms) -> Check | Stop:
    """Return the end of a run that has its answer. One that has a goal is done only once that is reached."""
    return Check(run.checks + 1) if terms.has_goal else Stop("done")


def _rest_of_turn(run: RunState, terms: Terms) -> Step | None:
    """Return how a reply that is not complete goes on: a pause, or silence after results. None if it is complete."""
    is_last = run.turns == terms.limits.max_turns
    if run.stop_reason is StopReason.PAUSE:
        if run.replies >= MAX_PAUSES:
            return Stop("error", f"paused its reply {MAX_PAUSES} times; send another prompt to go on")
        if reached := terms.budget_reached(run):
            return Stop(reached)
        return Think(run.turns, False, is_last, _reminder(run, terms, is_last, run.asked_after))
    results = run.asked_after.tool_results if run.asked_after else ()
    if not run.blanks or run.text or run.stop_reason is not StopReason.END or not results:
        return None
    if run.blanks == 1:
        return Think(run.turns, False, is_last, "empty_reply")
    has_failed = any(result.is_error for result in results)
    return Stop("error", "replied with nothing, twice, after a call had failed") if has_failed else None


def _reminder(run: RunState, terms: Terms, is_last: bool, last: Message | None) -> Reminder:
    if is_last:
        return "final_turn"
    if terms.is_repeating(run):
        return "repeating"
    return "on_task" if terms.keeps_on_task and last and last.tool_results else ""
