"""Streams that are cut, and servers that are killed: no entry is lost, and none comes twice."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec
import pytest

from outrider import Log
from outrider.web.entry_view import entry_data
from tests.serve.clients import Client, SentEvent, entries
from tests.web.pages import started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Watcher:
    """A client that comes back with the last id that it has, as a browser does."""

    def __init__(self, client: Client, session: str) -> None:
        self._client, self._session = client, session
        self.events: list[SentEvent] = []
        self.last = ""
        self.connections = 0

    async def run(self) -> None:
        while not self.is_done:
            with suppress(aiohttp.ClientError, ConnectionError, AssertionError):
                async with self._client.events(f"sessions/{self._session}/events", self.last) as events:
                    self.connections += 1
                    async for event in events:
                        self.events.append(event)
                        self.last = event.id or self.last
                        if self.is_done:
                            return
            await asyncio.sleep(0.02)

    @property
    def is_done(self) -> bool:
        newest = self.events[-1].data if self.events else None
        return isinstance(newest, dict) and newest.get("kind") == "run_stopped"

    def check(self, log: Log) -> None:
        """Every entry has come once, in order; each reply is what its pieces say, unless they were made void."""
        shown = filter(None, map(entry_data, log.records(self._session)))
        stored = json.loads(msgspec.json.encode(list(shown)))
        assert [each["seq"] for each in entries(self.events)] == [each["seq"] for each in stored]
        assert entries(self.events) == stored
        ids = [each.id for each in self.events if each.id]
        assert len(set(ids)) == len(ids)
        text = ""
        for place, event in enumerate(self.events):
            if event.name == "text_delta":
                text += event.data["text"]
            elif event.name == "reply_discarded":
                text = ""
            elif (
                event.name == "entry"
                and event.data["kind"] == "message"
                and event.data["message"]["role"] == "assistant"
            ):
                whole = event.data["message"]["content"][0]["text"]
                before = [(each.id, each.name) for each in self.events[max(0, place - 30) : place + 1]]
                assert whole.startswith(text), " ".join(f"{number}={name}" for number, name in before)
                text = ""


@asynccontextmanager
async def user(port: int) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as http:
        yield Client(http, f"http://127.0.0.1:{port}", **{"X-User": "ada"})


async def until_up(client: Client) -> None:
    while True:
        with suppress(aiohttp.ClientError):
            await client.ask("GET", "/openapi.json")
            return
        await asyncio.sleep(0.02)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.long)])
async def test_no_entry_is_lost_or_doubled_whatever_is_killed_or_cut(tmp_path: Path, kills: int) -> None:
    port, chance = free_port(), random.Random(7)
    async with user(port) as ada:
        session, watchers = "", []
        for number in range(kills + 1):
            async with started("tests.serve.kill_server", str(tmp_path), str(port)) as program:
                await until_up(ada)
                if not session:
                    count = kills * 8
                    session = (await ada.post("sessions", {"text": f"Count to {count}"}))["id"]
                    watchers = [Watcher(ada, session) for _ in range(2)]
                    running = [asyncio.create_task(each.run()) for each in watchers]
                if number == kills:
                    await asyncio.gather(*running)
                    break
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                if chance.random() < 0.5:  # one of the clients is cut, and comes back
                    running[0].cancel()
                    running[0] = asyncio.create_task(watchers[0].run())
                    await asyncio.sleep(chance.uniform(0, 0.2))
                program.kill(signal.SIGKILL)
        with Log(tmp_path) as log:
            for each in watchers:
                each.check(log)
            replies = [
                each for each in entries(watchers[1].events, "message") if each["message"]["role"] == "assistant"
            ]
            assert len(replies) == count + 1
        assert watchers[1].connections > kills // 2
