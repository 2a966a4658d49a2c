"""Calls that run as tasks of a server, in the forms of 2025-11-25 and of 2026-07-28, with programs and over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outrider.errors import McpClosedError, McpError, McpTimeoutError
from outrider.mcp.channel import CallProgress
from outrider.mcp.client import Client
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.servers import HttpServer, McpServer, StdioServer
from tests.mcp.http_server import serving
from tests.mcp.starting import HERE, Pool, limited, text_of
from tests.mcp.task_server import EXTENSION, TaskBook

ERAS = ("modern", "legacy")
FOR_EVER = 10**9
Sent = Callable[[str], list[dict[str, Any]]]
"""Returns the messages of a method that the server has received."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.mcp.tasks._LEAST_PAUSE", 0.01)
    monkeypatch.setattr("outrider.mcp.tasks._FIRST_PAUSE", 0.01)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=("stdio", "http"))
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def program(era: str, timeout: float = 60, **options: Any) -> StdioServer:
    args = ["-S", "-E", str(HERE / "task_server.py"), json.dumps({"era": era, **options})]
    return StdioServer("tasks", sys.executable, args, timeout=timeout)


class Gateway:
    """Serves a book over HTTP. `faults` are statuses for the next polls; 0 drops the connection."""

    def __init__(self, book: TaskBook) -> None:
        self.book = book
        self.faults: list[int] = []
        self.headers: list[tuple[str, str]] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = json.loads(await request.read())
        self.headers.append((request.headers.get("mcp-method", ""), request.headers.get("mcp-name", "")))
        if message.get("method") == "tasks/get" and self.faults:
            status = self.faults.pop(0)
            if not status and request.transport:
                request.transport.close()
            return web.Response(status=status or 500)
        answers = [each for each in self.book.receive(message) if each.get("id") == message.get("id")]
        return web.json_response(answers[0]) if answers else web.Response(status=202)


@asynccontextmanager
async def serving_tasks(book: TaskBook) -> AsyncIterator[tuple[str, Gateway]]:
    gateway, application = Gateway(book), web.Application()
    application.router.add_route("*", "/mcp", gateway.serve)
    async with serving(application) as address:
        yield f"{address}/mcp", gateway


@asynccontextmanager
async def connected(server: McpServer, **options: Any) -> AsyncIterator[Client]:
    client = Client(server, **options)
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


def methods(record: Path, method: str) -> list[dict[str, Any]]:
    """Return the messages of a method that a program has recorded."""
    lines = record.read_text().splitlines() if record.exists() else []
    return [each for line in lines if (each := json.loads(line)).get("method") == method]


@asynccontextmanager
async def client_of(
    transport: str, era: str, record: Path, *, timeout: float = 60, server: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Sent]]:
    """Connect to a server of either transport."""
    if transport == "stdio":
        described = program(era, timeout, record=str(record), **(server or {}))

        async with connected(described, **options) as client:
            yield client, partial(methods, record)
        return
    book = TaskBook(era, **(server or {}))
    async with (
        serving_tasks(book) as (url, _),
        connected(HttpServer("tasks", url, timeout=timeout), **options) as client,
    ):
        yield client, book.sent


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record"


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_task_is_a_call_like_any_other(transport: str, era: str, record: Path) -> None:
    seen: list[CallProgress] = []
    async with client_of(transport, era, record) as (client, sent):
        result = await client.call_tool("work", {"polls": 3}, on_progress=seen.append)
        assert text_of(result) == '{"answers": null}'
        assert len(sent("tasks/get")) == 3
        assert len(sent("tasks/result")) == (1 if era == "legacy" else 0)
        assert not sent("tasks/cancel")
        asked = sent("tools/call")[0]["params"]
        assert asked.get("task") == ({"ttl": 24 * 3600 * 1000} if era == "legacy" else None)
    assert [each.message for each in seen if each.progress is None] == ["step 1", "step 2", "step 3"]
    if era == "legacy" and transport == "stdio":  # over HTTP the book has no stream for notifications
        assert [each.progress for each in seen if each.progress is not None] == [1, 2, 3]


async def test_the_extension_is_declared_in_each_request_and_not_in_the_handshake(record: Path) -> None:
    async with client_of("stdio", "modern", record) as (client, sent):
        await client.call_tool("plain", {})
        declared = sent("tools/call")[0]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert declared["extensions"] == {EXTENSION: {}}
    async with client_of("stdio", "legacy", record) as (client, sent):
        assert sent("initialize")[0]["params"]["capabilities"] == {}


async def test_tools_say_whether_they_run_as_tasks(era: str, record: Path) -> None:
    async with client_of("stdio", era, record) as (client, sent):
        assert text_of(await client.call_tool("either", {})) == '{"answers": null}'
        assert text_of(await client.call_tool("plain", {})) == "at once"
        assert text_of(await client.call_tool("work", {"at_once": True})) == "at once"
        assert [("task" in each["params"]) for each in sent("tools/call")] == [era == "legacy", False, era == "legacy"]


@pytest.mark.parametrize(
    "server",
    [
        {"capabilities": {"tasks": None}},
        {"capabilities": {"tasks": True}},
        {"capabilities": {"tasks": {"requests": []}}},
        {"version": "2025-06-18"},
    ],
    ids=str,
)
async def test_a_server_without_tasks_is_not_asked_for_one(server: dict[str, Any], record: Path) -> None:
    async with client_of("stdio", "legacy", record, server=server) as (client, sent):
        with pytest.raises(McpError, match="cannot be called so"):
            await client.call_tool("work", {})
        assert text_of(await client.call_tool("plain", {})) == "at once"
        assert not [each for each in sent("tools/call") if "task" in each["params"]]


async def test_cancelling_a_call_cancels_its_task(transport: str, era: str, record: Path) -> None:
    async with client_of(transport, era, record) as (client, sent):
        call = asyncio.create_task(client.call_tool("work", {"polls": FOR_EVER}))
        await until(lambda: sent("tasks/get"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert [each["params"]["taskId"] for each in sent("tasks/cancel")] == ["id-1"]


async def test_a_server_that_cannot_cancel_tasks_is_not_asked_to(record: Path) -> None:
    server = {"capabilities": {"tasks": {"requests": {"tools": {"call": {}}}}}}
    async with client_of("stdio", "legacy", record, server=server, timeout=0.2) as (client, sent):
        with pytest.raises(McpTimeoutError):
            await client.call_tool("work", {"polls": FOR_EVER, "silent": True})
        await client.list_tools()
        assert not sent("tasks/cancel")


async def test_a_task_may_ask_the_person(era: str, record: Path) -> None:
    questions: list[Elicitation] = []

    async def ada(question: Elicitation) -> ElicitationAnswer:
        questions.append(question)
        await asyncio.sleep(0.5)  # longer than the time limit, which does not count while the person thinks
        return ElicitationAnswer("accept", {"name": "Ada"})

    async with client_of("stdio", era, record, on_elicit=ada, timeout=0.4) as (client, _):
        result = await client.call_tool("work", {"ask": True, "silent": True})
    answer = {"action": "accept", "content": {"name": "Ada"}}
    related = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "id-1"}}}
    assert json.loads(text_of(result)) == {"answers": {"who": answer} if era == "modern" else {**answer, **related}}
    assert [question.message for question in questions] == ["Who?"]


async def test_a_task_that_asks_for_something_else_fails(era: str, record: Path) -> None:
    """Without someone to ask, the old form tells the server, and the new one ends the call."""
    async with client_of("stdio", era, record) as (client, sent):
        if era == "legacy":
            assert "does not support" in text_of(await client.call_tool("work", {"ask": True}))
            return
        with pytest.raises(McpError, match="does not support elicitation/create"):
            await client.call_tool("work", {"ask": True})
        await until(lambda: sent("tasks/cancel"))


async def test_a_task_that_asks_again_and_again_is_ended(record: Path) -> None:
    async def ada(question: Elicitation) -> ElicitationAnswer:
        return ElicitationAnswer("decline")

    async with client_of("http", "modern", record, on_elicit=ada, host=limited(rounds=0)) as (
        client,
        _,
    ):
        with pytest.raises(McpError, match="asked for input more than 0 times"):
            await client.call_tool("work", {"ask": True})


async def test_failed_and_cancelled_tasks_are_errors(transport: str, era: str, record: Path) -> None:
    async with client_of(transport, era, record) as (client, sent):
        with pytest.raises(McpError, match="the disk is full") as raised:
            await client.call_tool("work", {"end": "failed"})
        assert raised.value.code == -32603
        with pytest.raises(McpError, match=r"cancelled the task\. It said: step 2"):
            await client.call_tool("work", {"end": "cancelled"})
        assert not sent("tasks/cancel")


async def test_a_task_without_progress_ends_with_the_time_limit(transport: str, era: str, record: Path) -> None:
    async with client_of(transport, era, record, timeout=0.3) as (client, sent):
        with pytest.raises(McpTimeoutError, match=r"no progress within 0\.3 seconds.*set its timeout"):
            await client.call_tool("work", {"polls": FOR_EVER, "silent": True, "interval": 10**9})
        await until(lambda: sent("tasks/cancel"))
        assert len(sent("tasks/get")) == 1  # a last look, after the time


async def test_progress_prolongs_a_task_up_to_a_bound(era: str, record: Path) -> None:
    async with client_of("stdio", era, record, timeout=0.5, host=limited(task_seconds=1.5)) as (
        client,
        sent,
    ):
        with pytest.raises(McpTimeoutError, match=r"took longer than 1\.5 seconds"):
            await client.call_tool("work", {"polls": FOR_EVER, "interval": 100})
        await until(lambda: sent("tasks/cancel"))


async def test_a_task_is_not_followed_longer_than_it_is_kept(era: str, record: Path) -> None:
    async with client_of("stdio", era, record) as (client, _):
        with pytest.raises(McpTimeoutError, match=r"keeps the task for 0\.2 seconds"):
            await client.call_tool("work", {"polls": FOR_EVER, "ttl": 200})
        assert text_of(await client.call_tool("work", {"polls": 3, "ttl": 20_000}))


async def test_a_notification_is_looked_at_before_the_interval_is_over(record: Path) -> None:
    async with client_of("stdio", "legacy", record) as (client, _), asyncio.timeout(30):
        await client.call_tool("work", {"polls": 1, "interval": 60_000, "notify": True})


@pytest.mark.parametrize("interval", [0, -5, 1e300, None])
async def test_absurd_intervals_are_bounded(interval: float | None, era: str, record: Path) -> None:
    async with client_of("http", era, record, host=limited(poll_seconds=0.05)) as (client, _):
        assert text_of(await client.call_tool("work", {"interval": interval})) == '{"answers": null}'


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ({"get": {"status": "dancing"}}, "a task of an unknown status, 'dancing'"),
        ({"get": {"status": None}}, "invalid answer to tasks/get"),
        ({"get": {"taskId": "another"}}, "the state of another task"),
        ({"get": {"taskId": None}}, "invalid answer to tasks/get"),
        ({"get": {"pollInterval": "soon", "pollIntervalMs": "soon"}}, "invalid answer to tasks/get"),
        ({"create": {"status": "dancing"}}, "a task of an unknown status, 'dancing'"),
        ({"create": {"taskId": ""}}, "1 to 1000 characters"),
        ({"create": {"taskId": "x" * 2_000}}, "1 to 1000 characters"),
        ({"create": {"taskId": 7}}, "invalid answer to tools/call"),
        ({"create": {"taskId": "gone"}}, "Task not found"),
        ({"result": []}, "invalid answer to tools/call"),
        ({"result": {"resultType": "task", "taskId": "id-1"}}, "a result of the type 'task'"),
        ({"result": {"resultType": "input_required"}}, "a result of the type 'input_required'"),
        ({"result": {"content": "x" * 99_990}}, "a message of more than"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_lies_are_errors(lie: dict[str, Any], told: str, transport: str, era: str, record: Path) -> None:
    async with client_of(transport, era, record, host=limited(message_bytes=100_000)) as (
        client,
        sent,
    ):
        with pytest.raises(McpError, match=told):
            await client.call_tool("work", lie)
        assert len(sent("tools/call")) == 1
        assert text_of(await client.call_tool("plain", {})) == "at once"


async def test_a_lost_connection_is_resumed(era: str) -> None:
    async with serving_tasks(TaskBook(era)) as (url, gateway), connected(HttpServer("tasks", url)) as client:
        gateway.faults = [0, 503, 0, 502]
        assert text_of(await client.call_tool("work", {"polls": 3})) == '{"answers": null}'
        assert not gateway.faults
        assert len(gateway.book.sent("tools/call")) == 1


async def test_a_server_that_does_not_come_back_is_an_error_in_time(era: str) -> None:
    server = serving_tasks(TaskBook(era))
    async with server as (url, gateway), connected(HttpServer("tasks", url, timeout=0.5)) as client:
        gateway.faults = [503] * 1_000
        with pytest.raises(McpTimeoutError, match="so the result of the call is unknown"):
            await client.call_tool("work", {})


async def test_requests_about_a_task_name_it_in_a_header() -> None:
    async with serving_tasks(TaskBook("modern")) as (url, gateway), connected(HttpServer("tasks", url)) as client:
        await client.call_tool("work", {})
        assert ("tasks/get", "id-1") in gateway.headers


async def test_a_call_is_not_made_again_if_the_server_dies_during_its_task(era: str, record: Path) -> None:
    dying = program(era, record=str(record), dies_after="tasks/get")
    async with Pool(dying) as pool:
        result = await pool.call("mcp__tasks__work", polls=5)
        assert result.is_error
        assert len(methods(record, "tools/call")) == 1


async def test_a_poll_that_cannot_be_sent_does_not_look_like_a_call_that_was_not_sent(record: Path) -> None:
    async with client_of("stdio", "modern", record) as (client, sent):
        call = asyncio.create_task(client.call_tool("work", {"polls": FOR_EVER, "interval": 300}))
        await until(lambda: sent("tasks/get"))
        assert client._channel is not None
        await client._channel.close()
        with pytest.raises(McpClosedError) as raised:
            await call
        assert raised.value.sent


async def test_what_a_task_does_is_shown(record: Path) -> None:
    async with Pool(program("modern")) as pool:
        assert not (await pool.call("mcp__tasks__work", polls=2)).is_error
        assert pool.progress == ["step 1", "step 2"]
