"""The provider of the examples, against a real gateway: what the contract of a provider asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from outrider import Agent, Attachment, Message, Retry, Session, TextBlock
from outrider.events import Notice, ReplyDiscarded
from outrider.messages import ProviderState, RawBlock
from own_model import Gateway, add

END = {"end": "stop", "input": 10, "output": 2}
CALL = {"call": "c1", "name": "add", "arguments": '{"a": 2, "b": 3}'}
Reply = list[Any] | web.Response | Callable[[web.StreamResponse], Any]


class Server:
    """A gateway with replies in order, and what it was asked."""

    def __init__(self, replies: list[Reply]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._replies = iter(replies)
        self.ended = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        reply = next(self._replies)
        if isinstance(reply, web.Response):
            return reply
        response = web.StreamResponse()
        await response.prepare(request)
        if callable(reply):
            try:
                await reply(response)
            finally:
                self.ended.set()
        else:
            await response.write("".join(f"{json.dumps(line)}\n" for line in reply).encode())
        return response


@asynccontextmanager
async def gateway(*replies: Reply) -> AsyncIterator[tuple[Server, Gateway]]:
    server = Server(list(replies))
    app = web.Application()
    app.add_routes([web.post("/", server.answer)])
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield server, Gateway(f"http://127.0.0.1:{runner.addresses[0][1]}/", "small")
    finally:
        await runner.cleanup()


async def test_calls_and_results_travel_both_ways() -> None:
    async with gateway([{"text": "I'll "}, {"text": "add."}, CALL, END], [{"text": "It is 5."}, END]) as (
        server,
        model,
    ):
        result = await Agent(model, tools=[add], system="Be brief.").run("What is 2 and 3?")
    assert (result.status, result.text, result.usage.total_tokens) == ("done", "It is 5.", 24)
    assert result.messages[1].content[0] == TextBlock("I'll add.")
    first, second = server.bodies
    assert (first["system"], [each["name"] for each in first["tools"]]) == ("Be brief.", ["add"])
    assert second["messages"][1]["parts"] == [{"text": "I'll add."}, {**CALL, "arguments": '{"a": 2, "b": 3}'}]
    assert second["messages"][2]["parts"] == [{"result": "c1", "text": "5", "error": False}]


async def test_arguments_that_are_no_json_go_back_to_the_model() -> None:
    broken = {**CALL, "arguments": '{"a": 2'}
    async with gateway([broken, END], [{"text": "Sorry."}, END]) as (server, model):
        result = await Agent(model, tools=[add]).run("What is 2 and 3?")
    assert result.messages[2].tool_results[0].is_error
    assert server.bodies[1]["messages"][1]["parts"] == [broken]


async def test_what_is_unknown_goes_back_to_this_model_alone() -> None:
    memo = {"memo": [1, 2], "signature": "x"}
    async with gateway([memo, {"text": "Hello."}, END], [{"text": "Yes."}, END]) as (server, model):
        session = Session(Agent(model))
        await session.run("Hello")
        await session.run("Again?")
        assert server.bodies[1]["messages"][1]["parts"] == [memo, {"text": "Hello."}]
    foreign = Message.assistant(RawBlock("part", ProviderState("gateway", "large", memo)), "Hello.")
    async with gateway([{"text": "Yes."}, END]) as (server, model):
        await Session(Agent(model), [Message.user("Hello"), foreign]).run("Again?")
    assert server.bodies[0]["messages"][1]["parts"] == [{"text": "Hello."}]


async def test_files_are_named_and_the_user_is_told() -> None:
    seen: list[object] = []
    async with gateway([{"text": "A file."}, END]) as (server, model):
        await Agent(model).run(["Look:", Attachment(b"a", "text/plain", "a.txt")], observer=seen.append)
    assert "a.txt" in server.bodies[0]["messages"][0]["parts"][1]["text"]
    assert [each.text for each in seen if isinstance(each, Notice)] == [
        "gateway/small does not see files; it reads their names"
    ]


async def test_a_busy_gateway_is_asked_again_and_a_refusal_is_not() -> None:
    busy = web.Response(status=429, text="later", headers={"Retry-After": "0.01"})
    async with gateway(busy, [{"text": "Hello."}, END]) as (server, model):
        assert (await Agent(model).run("Hello")).text == "Hello."
        assert len(server.bodies) == 2
    async with gateway(web.Response(status=400, text="no such model")) as (_, model):
        result = await Agent(model).run("Hello")
    assert (result.status, result.error) == ("error", "the gateway answered 400: no such model")


@pytest.mark.parametrize("cut", [[{"text": "Hel"}], web.Response(text='{"text": "Hel"}\n{"te')])
async def test_a_stream_that_ends_early_is_discarded_and_tried_again(cut: Reply) -> None:
    seen: list[object] = []
    async with gateway(cut, [{"text": "Hello."}, END]) as (_, model):
        result = await Agent(model, retry=Retry(seconds=5)).run("Hello", observer=seen.append)
    assert result.text == "Hello."
    assert any(isinstance(each, ReplyDiscarded) for each in seen)


async def test_a_cancel_closes_the_connection() -> None:
    begun = asyncio.Event()

    async def hang(response: web.StreamResponse) -> None:
        await response.write(b'{"text": "Hel"}\n')
        begun.set()
        await asyncio.sleep(60)

    async with gateway(hang) as (server, model):
        session = Session(Agent(model))
        running = asyncio.create_task(session.run("Hello"))
        await begun.wait()
        session.cancel()
        assert (await running).status == "cancelled"
        async with asyncio.timeout(5):
            await server.ended.wait()
