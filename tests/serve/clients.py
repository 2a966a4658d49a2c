"""The app of `outrider.serve` behind a client, without a socket; and the events of a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import uvicorn

from outrider.log.log import Log
from outrider.serve import App, app
from outrider.sync import default_log

Json = dict[str, Any]
API = "/api/v1"


class SentEvent(NamedTuple):
    id: str
    name: str
    data: Any


class Client:
    """Sends requests as one user."""

    def __init__(self, http: aiohttp.ClientSession, origin: str, **headers: str) -> None:
        self.http, self.origin, self.headers = http, origin, headers

    def as_user(self, user: str) -> Client:
        return Client(self.http, self.origin, **{**self.headers, "X-User": user})

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        async with self.http.request(
            method, f"{self.origin}{path}", json=body, params=query, headers=self.headers
        ) as response:
            data = await response.read()
            self.last = response
            is_json = response.headers.get("Content-Type", "").startswith("application/json")
            return response.status, json.loads(data) if is_json else data

    async def get(self, path: str, **query: Any) -> Any:
        status, found = await self.ask("GET", f"{API}/{path}", **query)
        assert status == 200, found
        return found

    async def post(self, path: str, body: Any = None) -> Any:
        status, found = await self.ask("POST", f"{API}/{path}", body)
        assert status < 300, found
        return found

    @asynccontextmanager
    async def events(self, path: str, last: str = "", **query: str) -> AsyncIterator[AsyncIterator[SentEvent]]:
        headers = self.headers | ({"Last-Event-ID": last} if last else {})
        async with self.http.get(f"{self.origin}{API}/{path}", params=query, headers=headers) as response:
            assert response.status == 200, await response.text()
            yield sent_events(response.content)

    async def until_text(self, session: str, text: str) -> list[SentEvent]:
        """Return the events of a session up to a message with a text."""
        found = []
        async with self.events(f"sessions/{session}/events") as events:
            async for event in events:
                found.append(event)
                if event.name == "entry" and event.data["kind"] == "message" and text in str(event.data["message"]):
                    return found
        raise AssertionError(f"the stream ended: {found}")

    async def until_done(self, session: str) -> list[SentEvent]:
        """Return the events of a session up to the end of its run."""
        found = []
        async with self.events(f"sessions/{session}/events") as events:
            async for event in events:
                found.append(event)
                if event.name == "entry" and event.data["kind"] == "run_stopped":
                    return found
        raise AssertionError(f"the stream ended: {found}")


async def sent_events(lines: aiohttp.StreamReader) -> AsyncIterator[SentEvent]:
    """Yield server-sent events."""
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            yield SentEvent(fields.get("id", ""), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}


async def first(events: AsyncIterator[SentEvent], name: str) -> SentEvent:
    """Return the next event of a name that has data."""
    async for event in events:
        if event.name == name and event.data:
            return event
    raise AssertionError("the stream ended")


async def until_released(client: Client, session: str) -> None:
    """Wait until no program has a session open."""
    while (await client.get(f"sessions/{session}"))["open"]:
        await asyncio.sleep(0.02)


def entries(events: Iterable[SentEvent], kind: str = "") -> list[Json]:
    return [each.data for each in events if each.name == "entry" and kind in ("", each.data["kind"])]


@asynccontextmanager
async def served(served_app: Any) -> AsyncIterator[str]:
    """Run an ASGI app on a real server, and yield its address."""
    config = uvicorn.Config(served_app, port=0, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server._serve())
    while not server.started:
        assert not running.done(), running.result()
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


def user_of(scope: Any) -> str:
    return dict(scope["headers"]).get(b"x-user", b"").decode()


@asynccontextmanager
async def client(agent: Any, **options: Any) -> AsyncIterator[Client]:
    """Serve an agent to users, who are named by a header."""
    with default_log() as log:
        async with served(made(log, agent, **options)) as origin, aiohttp.ClientSession() as http:
            yield Client(http, origin, **{"X-User": "ada"})


def made(log: Log, agent: Any, **options: Any) -> App:
    return app(log, agent, owner=user_of, **options)
