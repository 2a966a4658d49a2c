"""What a run does next: a table of states and steps, each state told by the entries that lead to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from outrider import Limits, Message, ToolResultBlock, ToolUseBlock, Usage
from outrider.log.entries import (
    Asked,
    CallResult,
    Decided,
    Entry,
    GoalChecked,
    Intent,
    MessageEntry,
    RunStarted,
    RunStopped,
    SteeringQueued,
)
from outrider.log.state import SessionState
from outrider.providers.base import StopReason
from outrider.runtime.answer_schema import AnswerSchema
from outrider.runtime.step import Act, Check, Correct, Deliver, Step, Stop, Terms, Think, ends_with, next_step
from outrider.runtime.structured_output import Report

A, B = ToolUseBlock("a", "look", {}), ToolUseBlock("b", "write", {})
RUN = RunStarted()
PROMPT = MessageEntry(Message.user("Go."))
QUEUED = SteeringQueued("q", Message.user("And this."))
CALL_A, CALLS = MessageEntry(Message.assistant(A)), MessageEntry(Message.assistant(A, B))
ANSWER = MessageEntry(Message.assistant("Done."), Usage(10, 5, cost=0.5), StopReason.END)
SILENT = MessageEntry(Message.assistant(""), Usage(), StopReason.END)
PAUSED = MessageEntry(Message.assistant("Wait"), Usage(10, 5), StopReason.PAUSE)
ALLOWED = Decided(True, "Ada", "a", "q1", "once")
REFUSED = MessageEntry(Message.assistant("No."), Usage(), StopReason.REFUSAL)


def started(use: ToolUseBlock) -> Intent:
    return Intent(use.id, use.name, "write", f"s/{use.id}", use.input)


def result(use: ToolUseBlock, text: str = "seen", *, failed: bool = False, final: bool = False) -> CallResult:
    return CallResult(ToolResultBlock(use.id, Message.user(text).content, is_error=failed), final)


def asked(use: ToolUseBlock, waits: str = "approval") -> Asked:
    return Asked("q1", use.id, {}, waits)


def schema() -> AnswerSchema:
    report = Report({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    return AnswerSchema(report.tool.parameters, report._parse)


NO_LIMITS = Terms(Limits(max_turns=None, max_repeats=None))
TWO_TURNS = Terms(Limits(max_turns=2))
ONE_TURN = Terms(Limits(max_turns=1))
ONE_REPEAT = Terms(Limits(max_repeats=1))
TWELVE_TOKENS = Terms(Limits(max_total_tokens=12))
CENTS = Terms(Limits(max_cost=0.4))
ELSEWHERE = Terms(Limits(max_total_tokens=12), elsewhere=Usage(10, 10))
OUTER = Terms(Limits(), outer="max_cost")
SMALL = Terms(Limits(), keeps_on_task=True)
ATTENDED = Terms(Limits(), is_attended=True)
GOAL, GOAL_IN_ONE = Terms(Limits(), has_goal=True), Terms(Limits(max_turns=1), has_goal=True)
TWO_CHECKS = Terms(Limits(max_checks=2), has_goal=True)
FAILED = [GoalChecked("make", False, "no", "ab"), PROMPT]
OTHERWISE = [GoalChecked("make", False, "no", "cd"), PROMPT]
TYPED, TYPED_IN_ONE = Terms(Limits(), schema()), Terms(Limits(max_turns=1), schema())

TABLE: list[tuple[str, Sequence[Entry], Terms, Step]] = [
    # the state                                 the entries                              the terms      the step
    ("a prompt waits", [RUN, PROMPT], NO_LIMITS, Think(1)),
    ("a prompt waits, and only one turn is left", [RUN, PROMPT], ONE_TURN, Think(1, True, True, "final_turn")),
    ("a reply has calls", [RUN, PROMPT, CALLS], NO_LIMITS, Act((A, B))),
    ("a call runs", [RUN, PROMPT, CALLS, started(A)], NO_LIMITS, Act((A, B))),
    ("one of two calls has its result", [RUN, PROMPT, CALLS, result(B)], NO_LIMITS, Act((A, B))),
    ("calls come before limits", [RUN, PROMPT, CALL_A], ONE_TURN, Act((A,))),
    ("calls come before what is queued", [RUN, PROMPT, CALL_A, QUEUED], NO_LIMITS, Act((A,))),
    ("all calls have results", [RUN, PROMPT, CALLS, result(A), result(B)], NO_LIMITS, Think(2)),
    ("the same, and it was the last turn", [RUN, PROMPT, CALL_A, result(A)], ONE_TURN, Stop("max_turns")),
    ("the same, and one turn is left", [RUN, PROMPT, CALL_A, result(A)], TWO_TURNS, Think(2, True, True, "final_turn")),
    ("the model repeats itself", [RUN, PROMPT, *[CALL_A, result(A)] * 2], ONE_REPEAT, Stop("max_repeats")),
    ("a result ends the run", [RUN, PROMPT, CALL_A, result(A, final=True)], NO_LIMITS, Stop("done")),
    ("it does so at the last turn, too", [RUN, PROMPT, CALL_A, result(A, final=True)], ONE_TURN, Stop("done")),
    ("the model answers", [RUN, PROMPT, ANSWER], NO_LIMITS, Stop("done")),
    ("it answers at the last turn", [RUN, PROMPT, ANSWER], ONE_TURN, Stop("done")),
    ("it answers, and a message is queued", [RUN, PROMPT, ANSWER, QUEUED], NO_LIMITS, Deliver()),
    ("a message is queued at the last turn", [RUN, PROMPT, ANSWER, QUEUED], ONE_TURN, Stop("done")),
    ("results are there, and a message is queued", [RUN, PROMPT, CALL_A, result(A), QUEUED], NO_LIMITS, Deliver()),
    ("the tokens are used up", [RUN, PROMPT, ANSWER, PROMPT], TWELVE_TOKENS, Stop("max_total_tokens")),
    ("the money is used up", [RUN, PROMPT, ANSWER, PROMPT], CENTS, Stop("max_cost")),
    ("sub-agents have used the tokens", [RUN, PROMPT], ELSEWHERE, Stop("max_total_tokens")),
    ("the run of the parent is over its limit", [RUN, PROMPT], OUTER, Stop("max_cost")),
    ("what an earlier run used does not count", [RUN, PROMPT, ANSWER, RUN, PROMPT], TWELVE_TOKENS, Think(1)),
    (
        "but it does for a run that continues it",
        [RUN, ANSWER, RunStarted({}, True), PROMPT],
        ONE_TURN,
        Stop("max_turns"),
    ),
    ("the model pauses", [RUN, PROMPT, PAUSED], NO_LIMITS, Think(1, False)),
    ("it pauses at the last turn", [RUN, PROMPT, PAUSED], ONE_TURN, Think(1, False, True, "final_turn")),
    ("it pauses, and the tokens are used up", [RUN, PROMPT, PAUSED], TWELVE_TOKENS, Stop("max_total_tokens")),
    ("it pauses before what is queued", [RUN, PROMPT, PAUSED, QUEUED], NO_LIMITS, Think(1, False)),
    ("it says nothing", [RUN, PROMPT, SILENT], NO_LIMITS, Stop("done")),
    (
        "it says nothing after a failure",
        [RUN, PROMPT, CALL_A, result(A, failed=True), SILENT],
        NO_LIMITS,
        Think(2, False, False, "empty_reply"),
    ),
    (
        "it says nothing after a result",
        [RUN, PROMPT, CALL_A, result(A), SILENT],
        NO_LIMITS,
        Think(2, False, False, "empty_reply"),
    ),
    (
        "it says nothing after a result, twice",
        [RUN, PROMPT, CALL_A, result(A), SILENT, SILENT],
        NO_LIMITS,
        Stop("done"),
    ),
    ("a small model has results", [RUN, PROMPT, CALL_A, result(A)], SMALL, Think(2, True, False, "on_task")),
    ("a small model has a prompt", [RUN, PROMPT], SMALL, Think(1)),
    (
        "a small model repeats itself",
        [RUN, PROMPT, *[CALL_A, result(A)] * 2],
        SMALL,
        Think(3, True, False, "repeating"),
    ),
    ("another model repeats itself once", [RUN, PROMPT, *[CALL_A, result(A)] * 2], ATTENDED, Think(3)),
    (
        "it says nothing again",
        [RUN, PROMPT, CALL_A, result(A, failed=True), SILENT, SILENT],
        NO_LIMITS,
        Stop("error", "replied with nothing, twice, after a call had failed"),
    ),
    ("an answer breaks its schema at the last turn", [RUN, PROMPT, ANSWER], TYPED_IN_ONE, Stop("max_turns")),
    ("a refusal is not corrected", [RUN, PROMPT, REFUSED], TYPED, Stop("done")),
    ("an answer from before the run is an answer", [PROMPT, ANSWER, RUN], NO_LIMITS, Stop("done")),
    ("a run that was killed goes on", [RUN, PROMPT, CALL_A, result(A)], NO_LIMITS, Think(2)),
    ("one of two calls waits for an answer", [RUN, PROMPT, CALLS, asked(A)], NO_LIMITS, Act((A, B))),
    ("it waits, and the other has its result", [RUN, PROMPT, CALLS, asked(A), result(B)], NO_LIMITS, Stop("waiting")),
    ("the same, and a person is there", [RUN, PROMPT, CALLS, asked(A), result(B)], ATTENDED, Act((A, B))),
    ("the person cannot give its result", [RUN, PROMPT, CALL_A, asked(A, "result")], ATTENDED, Stop("waiting")),
    ("a question of a process that is gone", [RUN, PROMPT, CALL_A, asked(A, "")], NO_LIMITS, Act((A,))),
    ("the answer has come", [RUN, PROMPT, CALL_A, asked(A), ALLOWED], NO_LIMITS, Act((A,))),
    ("a call that waits comes before limits", [RUN, PROMPT, CALL_A, asked(A)], ONE_TURN, Stop("waiting")),
    ("the model answers, and has a goal", [RUN, PROMPT, ANSWER], GOAL, Check(1)),
    ("a final result, and there is a goal", [RUN, PROMPT, CALL_A, result(A, final=True)], GOAL, Check(1)),
    ("a message comes before the check", [RUN, PROMPT, ANSWER, QUEUED], GOAL, Deliver()),
    ("calls come before the check", [RUN, PROMPT, CALL_A], GOAL, Act((A,))),
    ("the check failed", [RUN, PROMPT, ANSWER, *FAILED], GOAL, Think(2)),
    ("the model answers again", [RUN, PROMPT, ANSWER, *FAILED, ANSWER], GOAL, Check(2)),
    ("it was the last turn", [RUN, PROMPT, ANSWER, *FAILED], GOAL_IN_ONE, Stop("max_turns")),
    ("the last turn is checked as well", [RUN, PROMPT, ANSWER], GOAL_IN_ONE, Check(1)),
    ("the last check failed", [RUN, PROMPT, *[ANSWER, *FAILED] * 2], TWO_CHECKS, Stop("max_checks")),
    ("five failed alike", [RUN, PROMPT, *[ANSWER, *FAILED] * 5], GOAL, Stop("max_repeats")),
    ("one of them failed otherwise", [RUN, PROMPT, *[ANSWER, *FAILED] * 4, ANSWER, *OTHERWISE], GOAL, Think(6)),
    ("a new run counts its own checks", [RUN, *[ANSWER, *FAILED] * 5, RunStopped("max_repeats"), RUN], GOAL, Think(1)),
    (
        "what waited and goes on is the same run",
        [RUN, PROMPT, CALL_A, asked(A), RunStopped("waiting"), ALLOWED, RunStarted({}, True), result(A)],
        TWO_TURNS,
        Think(2, True, True, "final_turn"),
    ),
]


@pytest.mark.parametrize(("entries", "terms", "step"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_next_step(entries: Sequence[Entry], terms: Terms, step: Step) -> None:
    assert next_step(SessionState(entries), terms) == step


def test_an_answer_that_breaks_its_schema_is_corrected() -> None:
    found = next_step(SessionState([RUN, PROMPT, ANSWER]), TYPED)
    assert isinstance(found, Correct)
    assert "not JSON" in found.fault


def test_pauses_end() -> None:
    found = next_step(SessionState([RUN, PROMPT, *[PAUSED] * 20]), NO_LIMITS)
    assert found == Stop("error", "paused its reply 20 times; send another prompt to go on")


@pytest.mark.parametrize(("entries", "terms", "step"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_whether_a_reply_ends_the_run_is_what_the_next_step_says(
    entries: Sequence[Entry], terms: Terms, step: Step
) -> None:
    for count, entry in enumerate(entries):
        if isinstance(entry, MessageEntry) and entry.message.role == "assistant":
            before, after = SessionState(entries[:count]), SessionState(entries[: count + 1])
            is_over = before.run is not None and next_step(after, terms) == Stop("done")
            assert ends_with(entry, before, terms) == is_over


def test_asking_changes_nothing() -> None:
    state = SessionState([RUN, PROMPT, CALLS, started(A), result(A)])
    before: Any = {name: repr(value) for name, value in vars(state).items() if name != "history"}
    next_step(state, NO_LIMITS)
    ends_with(ANSWER, state, NO_LIMITS)
    assert {name: repr(value) for name, value in vars(state).items() if name != "history"} == before


def test_a_run_that_stopped_is_over() -> None:
    state = SessionState([RUN, PROMPT, ANSWER, RunStopped("done")])
    assert not state.is_running
    assert state.run
    assert state.run.status == "done"
