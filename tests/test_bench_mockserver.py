"""The mock server of the benchmarks speaks the model APIs as our adapters understand them, and keeps to its script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from bench import mock_answers
from bench.mockserver import Connection, Model

from outrider import Agent, Limits, Session
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.api import ApiProvider

ADAPTERS: dict[type[ApiProvider], str] = {Anthropic: "", OpenAIChat: "/v1", OpenAIResponses: "/v1", Gemini: ""}


@pytest.fixture
async def url() -> AsyncIterator[str]:
    model = Model()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(model), "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("drip", ["", "/drip"])
async def test_a_session_makes_the_scripted_calls(url: str, adapter: type[ApiProvider], drip: str) -> None:
    asked: list[str] = []

    async def answer(path: str) -> str:
        """Answer at once."""
        asked.append(path)
        return "x" * 40_000

    provider = adapter("turns-3", base_url=f"{url}{drip}{ADAPTERS[adapter]}", api_key="k")
    session = Session(Agent(model=provider, tools=[answer], limits=Limits(max_turns=9)))
    result = await session.run("go")
    assert (result.status, result.text, result.turns) == ("done", "done", 4)
    assert asked == ["src/main.py"] * 3
    calls = [call for message in session.messages for call in message.tool_calls]
    assert len({call.id for call in calls}) == 3
    said = "".join(mock_answers.WORDS)
    assert said.strip() in [message.text.strip() for message in session.messages if message.role == "assistant"]


WHOLE: dict[str, tuple[dict[str, Any], Any]] = {
    "/v1/chat/completions": ({"role": "tool"}, lambda got: got["choices"][0]["message"]),
    "/v1/messages": ({"type": "tool_result"}, lambda got: got["content"]),
    "/v1/responses": ({"type": "function_call_output"}, lambda got: got["output"]),
    "/v1beta/models/turns-1:generateContent": ({"functionResponse": {}}, lambda got: got["candidates"]),
}


@pytest.mark.parametrize("path", WHOLE)
async def test_without_streaming_the_answer_is_one_object(url: str, path: str) -> None:
    result, part = WHOLE[path]
    async with aiohttp.ClientSession() as client:
        said = []
        for messages in ([], [result]):
            async with client.post(url + path, json={"messages": messages, "model": "turns-1"}) as response:
                said.append(str(part(await response.json())))
    assert "src/main.py" in said[0]
    assert "done" in said[1]
    assert "src/main.py" not in said[1]


@pytest.mark.parametrize("asked", [True, False])
async def test_usage_is_streamed_by_chat_only_if_asked_for(url: str, asked: bool) -> None:
    body = {"model": "turns-0", "stream": True} | ({"stream_options": {"include_usage": True}} if asked else {})
    async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/chat/completions", json=body) as response:
        assert (b'"usage"' in await response.read()) is asked


async def test_the_switches_are_found_behind_long_messages(url: str) -> None:
    body = {"messages": [{"role": "tool", "content": "x" * 99_000}], "model": "turns-2", "stream": True}
    async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/chat/completions", json=body) as response:
        assert response.content_type == "text/event-stream"
        assert b'"tool_calls"' in await response.read()


async def test_it_tells_what_it_has_answered(url: str) -> None:
    async with aiohttp.ClientSession() as client:
        async with client.post(f"{url}/v1/messages", json={"model": "turns-0"}) as response:
            await response.read()
        async with client.get(f"{url}/stats") as response:
            assert (await response.json())["requests"] == 1
        async with client.get(f"{url}/elsewhere") as response:
            assert response.status == 404
