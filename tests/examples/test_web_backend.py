"""The web backend of the examples: a real server, browsers that watch, and a restart in the middle of a run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import aiohttp
import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "web_backend.py"


class Browser:
    """What a page of a user does."""

    def __init__(self, http: aiohttp.ClientSession, port: int, user: str) -> None:
        self._http, self._user, self._base = http, {"X-User": user}, f"http://127.0.0.1:{port}/chats"

    async def names(self) -> list[str]:
        async with self._http.get(self._base, headers=self._user) as response:
            return [each["name"] for each in await response.json()]

    async def say(self, chat: str, text: str) -> int:
        async with self._http.post(f"{self._base}/{chat}", data=text, headers=self._user) as response:
            return response.status

    async def watch(self, chat: str) -> AsyncGenerator[Any, None]:
        """Yield the history, and then each event."""
        async with self._http.get(f"{self._base}/{chat}/events", headers=self._user) as response:
            async for line in response.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


async def until(events: AsyncIterator[Any], kind: str) -> Any:
    """Return the next event of this type."""
    async with asyncio.timeout(30):
        async for event in events:
            if event["type"] == kind:
                return event
    raise AssertionError(f"the stream ended without {kind}")


@asynccontextmanager
async def server(folder: Path, port: int, end: signal.Signals) -> AsyncIterator[aiohttp.ClientSession]:
    """The program at work, which is ended with a signal."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, str(port), cwd=folder, env=os.environ | {"OUTRIDER_MODEL": "demo"}
    )
    try:
        async with aiohttp.ClientSession() as http:
            async with asyncio.timeout(30):
                while True:
                    try:
                        async with http.get(f"http://127.0.0.1:{port}/chats") as response:
                            assert response.status == 401
                            break
                    except aiohttp.ClientConnectorError:
                        await asyncio.sleep(0.05)
            yield http
    finally:
        process.send_signal(end)
        async with asyncio.timeout(10):
            await process.wait()


async def test_chats_belong_to_their_users(tmp_path: Path, unused_tcp_port: int) -> None:
    async with server(tmp_path, unused_tcp_port, signal.SIGTERM) as http:
        ada, bob = Browser(http, unused_tcp_port, "ada"), Browser(http, unused_tcp_port, "bob")
        events = ada.watch("first")
        assert await anext(events) == []
        assert await ada.say("first", "What is 2+2?") == 202
        assert (await until(events, "run_finished"))["text"] == "4"
        assert (await ada.names(), await bob.names()) == (["first"], [])
        assert await anext(bob.watch("first")) == []
        history = await anext(ada.watch("first"))
        assert [message["content"][0]["text"] for message in history] == ["What is 2+2?", "4"]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_run_goes_on_after_a_restart(tmp_path: Path, unused_tcp_port: int, end: signal.Signals) -> None:
    os.mkfifo(tmp_path / "slow.txt")  # reading it waits until someone writes
    async with server(tmp_path, unused_tcp_port, end) as http:
        ada = Browser(http, unused_tcp_port, "ada")
        events = ada.watch("first")
        assert await anext(events) == []
        assert await ada.say("first", "Read slow.txt") == 202
        await until(events, "tool_started")
        assert await ada.say("first", "What is 4+4?") == 202  # it joins the run
        await until(events, "steering_queued")
    async with server(tmp_path, unused_tcp_port, signal.SIGTERM) as http:
        events = Browser(http, unused_tcp_port, "ada").watch("first")
        history = await anext(events)
        assert history[0]["content"][0]["text"] == "Read slow.txt"
        Thread(target=(tmp_path / "slow.txt").write_text, args=["the note"], daemon=True).start()  # waits for a reader
        assert "the note" in (await until(events, "tool_finished"))["result"]["content"][0]["text"]
        assert (await until(events, "run_finished"))["text"] == "8"
