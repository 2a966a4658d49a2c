"""Events: each is plain data that another process can read again from JSON."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.runtime.events import (
    Compacted,
    CompactionStarted,
    Event,
    GoalChecked,
    GoalCheckStarted,
    HandedOff,
    MessageAdded,
    ModelSwitched,
    Notice,
    PartialOutput,
    QuestionAnswered,
    QuestionAsked,
    ReplyDiscarded,
    ResultsCleared,
    Retrying,
    RunFinished,
    RunStatus,
    ServerToolFinished,
    ServerToolStarted,
    SteeringQueued,
    SteeringWithdrawn,
    SubagentEvent,
    SubagentFinished,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    TitleMade,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)

FILE = AttachmentBlock("a" * 64, "image/png", 3, "a.png")
RESULT = ToolResultBlock("c1", (TextBlock("x"), FILE), is_error=True, whole=FILE)
PLAIN_FILE = {"type": "attachment", "sha256": "a" * 64, "mime_type": "image/png", "size": 3, "name": "a.png"}
PLAIN_RESULT = {
    "type": "tool_result",
    "tool_use_id": "c1",
    "content": [{"type": "text", "text": "x"}, PLAIN_FILE],
    "is_error": True,
    "whole": PLAIN_FILE,
}

EXAMPLES: list[tuple[Event, dict[str, Any]]] = [
    (TurnStarted(1), {"type": "turn_started", "turn": 1, "last": False}),
    (TurnStarted(50, last=True), {"type": "turn_started", "turn": 50, "last": True}),
    (TextDelta("é"), {"type": "text_delta", "text": "é"}),
    (ThinkingDelta("hm"), {"type": "thinking_delta", "text": "hm"}),
    (
        ToolCallDelta("c1", "Read", '{"pa'),
        {"type": "tool_call_delta", "call_id": "c1", "name": "Read", "arguments": '{"pa'},
    ),
    (ReplyDiscarded("torn"), {"type": "reply_discarded", "reason": "torn"}),
    (
        ReplyDiscarded("torn", Usage(3)),
        {"type": "reply_discarded", "reason": "torn", "usage": {"input_tokens": 3}},
    ),
    (CompactionStarted("threshold", 9000), {"type": "compaction_started", "reason": "threshold", "tokens": 9000}),
    (
        Compacted("manual", 9000, 800, "## Goal"),
        {"type": "compacted", "reason": "manual", "tokens_before": 9000, "tokens_after": 800, "summary": "## Goal"},
    ),
    (PartialOutput({"name": "Ad"}), {"type": "partial_output", "data": {"name": "Ad"}}),
    (TitleMade("Sums"), {"type": "title_made", "title": "Sums"}),
    (GoalCheckStarted("pytest -q", 2), {"type": "goal_check_started", "goal": "pytest -q", "check": 2}),
    (
        GoalChecked("pytest -q", False, 2, "1 failed", 9),
        {
            "type": "goal_checked",
            "goal": "pytest -q",
            "passed": False,
            "check": 2,
            "last_line": "1 failed",
            "entry": 9,
        },
    ),
    (ResultsCleared(3, 5000), {"type": "results_cleared", "count": 3, "tokens": 5000}),
    (Retrying(2, 0.5, "torn"), {"type": "retrying", "attempt": 2, "delay": 0.5, "reason": "torn"}),
    (
        ModelSwitched("a/x", "b/y", "down"),
        {"type": "model_switched", "former": "a/x", "model": "b/y", "reason": "down"},
    ),
    (HandedOff("triage", "billing"), {"type": "handed_off", "former": "triage", "agent": "billing"}),
    (
        MessageAdded(Message.user("hi")),
        {"type": "message_added", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}},
    ),
    (
        MessageAdded(Message.user("hi"), steering="q1", entry=7),
        {
            "type": "message_added",
            "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            "steering": "q1",
            "entry": 7,
        },
    ),
    (
        SteeringQueued("q1", Message.user("hi")),
        {
            "type": "steering_queued",
            "id": "q1",
            "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        },
    ),
    (SteeringWithdrawn("q1"), {"type": "steering_withdrawn", "id": "q1"}),
    (
        QuestionAsked("q2", "c1", {"kind": "permission"}),
        {"type": "question_asked", "id": "q2", "call_id": "c1", "question": {"kind": "permission"}},
    ),
    (
        QuestionAnswered("q2", True, "once", "in the chat"),
        {"type": "question_answered", "id": "q2", "allowed": True, "answer": "once", "by": "in the chat"},
    ),
    (
        MessageAdded(Message.assistant(ToolUseBlock("c1", "Read", {"path": "a"})), Usage(3, 2, cost=0.5)),
        {
            "type": "message_added",
            "message": {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}}],
            },
            "usage": {"input_tokens": 3, "output_tokens": 2, "cost": 0.5},
        },
    ),
    (
        ToolStarted("c1", "Read", {"path": "a", "deep": [1, None]}, "read"),
        {
            "type": "tool_started",
            "call_id": "c1",
            "name": "Read",
            "input": {"path": "a", "deep": [1, None]},
            "effect": "read",
        },
    ),
    (ToolProgress("c1", "half"), {"type": "tool_progress", "call_id": "c1", "content": "half"}),
    (
        ToolProgress("c1", {"done": [1, 2.5, None]}),
        {"type": "tool_progress", "call_id": "c1", "content": {"done": [1, 2.5, None]}},
    ),
    (
        ToolFinished("c1", "Read", RESULT),
        {"type": "tool_finished", "call_id": "c1", "name": "Read", "result": PLAIN_RESULT},
    ),
    (
        ToolFinished("c1", "Read", RESULT, {"lines": [1, 2]}),
        {
            "type": "tool_finished",
            "call_id": "c1",
            "name": "Read",
            "result": PLAIN_RESULT,
            "details": {"lines": [1, 2]},
        },
    ),
    (
        ServerToolStarted("s1", "web_search", {"query": "tides"}),
        {"type": "server_tool_started", "call_id": "s1", "name": "web_search", "input": {"query": "tides"}},
    ),
    (
        ServerToolFinished("s1", "web_search", "two pages"),
        {"type": "server_tool_finished", "call_id": "s1", "name": "web_search", "text": "two pages"},
    ),
    (Notice("a.png was left out"), {"type": "notice", "text": "a.png was left out"}),
    (
        RunFinished("done", 2, Usage(3), "bye"),
        {"type": "run_finished", "status": "done", "turns": 2, "usage": {"input_tokens": 3}, "text": "bye"},
    ),
    (
        RunFinished("error", 1, Usage(), error="overloaded"),
        {"type": "run_finished", "status": "error", "turns": 1, "usage": {}, "error": "overloaded"},
    ),
    (
        SubagentStarted("c1", "s2", "Explore", "find it"),
        {"type": "subagent_started", "call_id": "c1", "session": "s2", "name": "Explore", "title": "find it"},
    ),
    (
        SubagentFinished("c1", "s2", "Explore", "find it", "done", "", {"age": 3}, True),
        {
            "type": "subagent_finished",
            "call_id": "c1",
            "session": "s2",
            "name": "Explore",
            "title": "find it",
            "status": "done",
            "note": "",
            "structured_output": {"age": 3},
            "has_structured_output": True,
        },
    ),
    (
        SubagentEvent("c1", "s2", TextDelta("x")),
        {"type": "subagent_event", "call_id": "c1", "session": "s2", "event": {"type": "text_delta", "text": "x"}},
    ),
]
EXAMPLE_IDS = [f"{plain['type']}-{number}" for number, (_, plain) in enumerate(EXAMPLES)]


def test_every_event_has_an_example() -> None:
    assert {type(event) for event, _ in EXAMPLES} == set(get_args(Event))


@pytest.mark.parametrize(("event", "plain"), EXAMPLES, ids=EXAMPLE_IDS)
def test_an_event_comes_back_from_json_as_it_was(event: Event, plain: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


@pytest.mark.parametrize(("event", "plain"), EXAMPLES, ids=EXAMPLE_IDS)
def test_an_event_in_json_is_its_type_and_its_fields(event: Event, plain: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event)) == plain


@pytest.mark.parametrize("status", get_args(RunStatus))
def test_every_way_to_finish_comes_back_from_json(status: RunStatus) -> None:
    event = RunFinished(status, 1, Usage())
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


@pytest.mark.parametrize(
    "plain",
    [
        {"type": "run_finished", "status": "finished", "turns": 1, "usage": {}},
        {"type": "run_started"},
        {"type": "text_delta"},
        {"text": "x"},
    ],
)
def test_what_is_no_event_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain, Event)


@pytest.mark.parametrize("event", [event for event, _ in EXAMPLES], ids=EXAMPLE_IDS)
def test_an_observer_cannot_change_an_event(event: Event) -> None:
    with pytest.raises(AttributeError):
        setattr(event, event.__struct_fields__[0], "other")
