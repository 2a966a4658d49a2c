"""AG-UI: each event is one of the protocol, in an order that its rules allow; questions are interrupts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter

from outrider import Agent
from outrider.testing import ScriptedModel, call
from tests.serve.clients import Client, client
from tests.serve.counting import counting, refund

EVENT: TypeAdapter[Event] = TypeAdapter(Event)


async def run(ada: Client, thread: str, text: str = "", resume: list[Any] | None = None) -> list[Any]:
    """Run as a client of the protocol does. Return the events, which must be valid and well nested."""
    messages = [{"id": "m1", "role": "user", "content": text}] if text else []
    given = {"threadId": thread, "runId": f"run-{text}", "messages": messages, "tools": [], "context": [], "state": {}}
    given |= {"forwardedProps": {}, **({"resume": resume} if resume else {})}
    RunAgentInput.model_validate(given)
    async with ada.http.post(f"{ada.origin}/ag-ui/run", json=given, headers=ada.headers) as response:
        assert response.status == 200, await response.text()
        found = [json.loads(line[6:]) async for line in response.content if line.startswith(b"data: ")]
    for each in found:
        EVENT.validate_python(each)
    check_nesting(found)
    return found


def check_nesting(events: list[Any]) -> None:
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    is_open: set[str] = set()
    for each in events:
        kind, _, end = each["type"].rpartition("_")
        name = f"{kind} {each.get('messageId') or each.get('toolCallId')}"
        if end == "START" and kind != "RUN":
            assert name not in is_open
            is_open.add(name)
        elif end in ("CONTENT", "ARGS"):
            assert name in is_open, each
        elif end == "END":
            is_open.remove(name)
    assert not is_open


async def test_a_thread_is_a_session_that_streams_text_and_calls() -> None:
    async with client(counting()) as ada:
        events = await run(ada, "one", "Count to 1")
        kinds = [each["type"] for each in events]
        assert kinds.count("TOOL_CALL_START") == kinds.count("TOOL_CALL_RESULT") == 1
        text = "".join(each["delta"] for each in events if each["type"] == "TEXT_MESSAGE_CONTENT")
        assert text.endswith("Counted to 1.")
        assert events[-1]["outcome"] == {"type": "success"}
        await run(ada, "one", "Count to 0")
        [found] = (await ada.get("sessions", metadata="thread=one"))["sessions"]
        assert found["turns"] == 3
        await run(ada.as_user("bob"), "one", "Count to 0")  # a thread of the same name is another session
        assert len((await ada.get("sessions"))["sessions"]) == 1


@pytest.mark.parametrize(
    ("payload", "result"), [(True, "refunded 17"), ({"approved": False}, "was not run"), (None, "was not run")]
)
async def test_a_question_is_an_interrupt_that_the_next_run_answers(payload: Any, result: str) -> None:
    script = ScriptedModel([call("refund", order=17), "Done."])
    async with client(Agent(script, tools=[refund])) as ada:
        events = await run(ada, "shop", "Refund order 17")
        outcome = events[-1]["outcome"]
        [asked] = outcome["interrupts"]
        assert (outcome["type"], asked["reason"], "refund" in asked["message"]) == ("interrupt", "tool_approval", True)
        status = "cancelled" if payload is None else "resolved"
        answer = {"interruptId": asked["id"], "status": status, "payload": payload}
        given = {"threadId": "other", "runId": "r", "messages": [], "resume": [answer]}
        assert (await ada.ask("POST", "/ag-ui/run", given))[0] == 404  # of another thread
        events = await run(ada, "shop", resume=[answer])
        [found] = [each["content"] for each in events if each["type"] == "TOOL_CALL_RESULT"]
        assert result in found
        assert events[-1]["result"] == "Done."


async def test_a_run_that_fails_says_why() -> None:
    async with client(Agent(ScriptedModel([]))) as ada:
        events = await run(ada, "one", "Hello")
        assert events[-1]["type"] == "RUN_ERROR"
        assert (await ada.ask("POST", "/ag-ui/run", {"threadId": "a", "runId": "b", "messages": []}))[0] == 422
