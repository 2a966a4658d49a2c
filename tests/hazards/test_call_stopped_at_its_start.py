"""A call that is stopped before its tool has run a line gets its result at once, not after the time to clean up."""

from __future__ import annotations

import asyncio

import pytest

from outrider import Agent, Session
from outrider.conversation.messages import ToolUseBlock
from outrider.runtime import calls
from outrider.testing import ScriptedModel
from outrider.tools.tool import make_tool


async def test_a_call_that_is_stopped_as_it_starts_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CANCEL_GRACE", 3600.0)
    ran: list[str] = []

    async def work(path: str) -> str:
        """Work."""
        ran.append(path)
        return path

    session = Session(Agent(ScriptedModel(["done"]), tools=[work]))
    call = calls.Call(ToolUseBlock("c1", "work", {"path": "a"}), make_tool(work), session._loop.environment)
    call.start(["work"])
    call.stop("It was stopped.")
    await asyncio.wait_for(call.wait(), 30)
    assert ran == []
    assert call.answer
    assert call.answer.result.text == "It was stopped."
