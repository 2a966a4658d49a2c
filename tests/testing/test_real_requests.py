"""The switch that refuses real requests: no request leaves, and the test fails with the name of the model."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from outrider import Agent, run
from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request, ToolSpec
from outrider.testing import ScriptedModel, no_real_requests
from tests.adapters import ALL, Case, each
from tests.modelserver import ModelServer
from tests.streams import Answer


@each(*ALL, Case("azure", "gpt"), Case("bedrock", "claude"), Case("vertex", "gemini"))
async def test_no_adapter_sends_a_request(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(*_: Any, **__: Any) -> None:
        raise ConnectionError("a request was sent")

    monkeypatch.setattr("outrider.providers.transport.http._Client.__init__", sent)
    provider = case.adapter("http://127.0.0.1:9", key="k")
    look = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
    with no_real_requests():
        for tools in ((), (look,)):
            request = Request([Message.user("hi")], MemoryStore(), tools=tools)
            with pytest.raises(AssertionError, match=f"a request to {provider.name} was refused: .*ScriptedModel"):
                _ = [item async for item in provider.stream(request)]


async def test_the_failure_reaches_the_test_and_the_end_of_the_block_ends_it() -> None:
    async with ModelServer([Answer("Hello.")]) as server:
        agent = Agent(Case("anthropic", "claude-sonnet-4-5").adapter(server.url, key="k"))
        with no_real_requests():
            with pytest.raises(AssertionError, match="anthropic/claude-sonnet-4-5 was refused"):
                await agent.run("hi")
            with no_real_requests():
                pass
            with pytest.raises(AssertionError):
                await agent.run("hi")
        assert not server.requests
        assert (await agent.run("hi")).text == "Hello."
    assert not hasattr(ApiProvider, "passes_assertions")


def test_a_loop_that_was_started_before_the_block_is_covered() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        agent = Agent(Case("openai", "gpt-5.6").adapter("http://127.0.0.1:9", key="k"))
        with no_real_requests(), pytest.raises(AssertionError, match=r"openai/gpt-5\.6"):
            asyncio.run_coroutine_threadsafe(agent.run("hi"), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_models_for_tests_and_the_demo_model_are_not_refused() -> None:
    with no_real_requests():
        assert run("What is 2+2?", model="demo").text == "4"
        assert run("hi", model=ScriptedModel(["Hello."])).text == "Hello."
