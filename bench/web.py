"""The web page on a large log: its requests over HTTP, the memory of the server, live updates, and many watchers."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from bench.figure import Figure
from outrider import Log
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.log.entries import CallResult, Entry, Intent, MessageEntry, SessionSettings
from outrider.log.rows import encode

SESSIONS, MESSAGES, FOLDERS = 10_000, 100_000, 40
MODEL = "anthropic/claude-opus-5-5"
USAGE = Usage(1_200, 300, 800, cost=0.0125)
WORD = "zygomorphic"
"""It is in one result of the large session, and in one result of every hundredth other session."""
ROUNDS, APPENDS, WATCHERS = 7, 20, 200
MEGABYTES = 200
"""What the server may use: it holds pages of entries and sums, never a session or the list of all sessions' entries."""


def measure() -> Iterator[Figure]:
    """The medians of several rounds; what is read for the first time has a figure of its own."""
    with tempfile.TemporaryDirectory() as folder:
        with Log(folder) as log:
            large = _fill(log)
        yield from asyncio.run(_measure(Path(folder), large))


# The log


def _fill(log: Log) -> str:
    """Store the sessions, and return the large one."""
    day = 86_400.0
    for number in range(SESSIONS - 1):
        moment = time.time() - day * 90 * number / SESSIONS
        _add(log, f"/home/user/projects/p{number % FOLDERS}", _exchange(number, number % 100 == 0), moment)
    entries = [entry for number in range(MESSAGES // 4) for entry in _exchange(number, number == MESSAGES // 8)]
    return _add(log, "/home/user/projects/large", entries, time.time())


def _add(log: Log, folder: str, entries: list[Entry], moment: float) -> str:
    settings = SessionSettings(model=MODEL, cwd=folder, system="You are an agent.", tools=("Read",))
    bodies = [(seq, moment, *encode(entry)) for seq, entry in enumerate([settings, *entries], 2)]
    return log.add("", bodies, ())


def _exchange(number: int, has_word: bool) -> list[Entry]:
    use = ToolUseBlock(f"call_{number}", "Read", {"file_path": f"src/module_{number}.py"})
    text = f"def answer_{number}():\n    return {number}\n" * 8 + (WORD if has_word else "")
    return [
        MessageEntry(Message.user(f"Look at module {number}, please, and tell me what it does.")),
        MessageEntry(Message.assistant("I'll look.", use), model=MODEL, usage=USAGE),
        Intent(use.id, use.name, "read", use.id, use.input),
        CallResult(ToolResultBlock(use.id, (TextBlock(text),))),
        MessageEntry(Message.assistant(f"It answers question {number}. " * 5), model=MODEL, usage=USAGE),
    ]


# The server


class _Server:
    """The running program and a client that was let in."""

    def __init__(self, process: asyncio.subprocess.Process, client: aiohttp.ClientSession, api: str) -> None:
        self._process = process
        self.client = client
        self.api = api

    async def get(self, path: str, **query: str) -> Any:
        """Return the decoded answer to a request."""
        async with self.client.get(f"{self.api}/{path}", params=query) as response:
            response.raise_for_status()
            return await response.json()

    async def seconds(self, path: str, **query: str) -> float:
        """Return how long a request takes, with the whole answer."""
        started = time.perf_counter()
        async with self.client.get(f"{self.api}/{path}", params=query) as response:
            await response.read()
            response.raise_for_status()
        return time.perf_counter() - started

    async def milliseconds(self, path: str, **query: str) -> float:
        """Return the median of several requests."""
        return 1e3 * statistics.median([await self.seconds(path, **query) for _ in range(ROUNDS)])

    @asynccontextmanager
    async def events(self, session: str, after: int) -> AsyncIterator[aiohttp.StreamReader]:
        """Watch a session as a page does."""
        place = {"session": session, "after": str(after), "form": "view"}
        async with self.client.get(f"{self.api}/events", params=place) as response:
            response.raise_for_status()
            yield response.content

    @property
    def peak(self) -> float:
        """The most memory that the server had, in megabytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024


@asynccontextmanager
async def _serving(environment: dict[str, str]) -> AsyncIterator[_Server]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "outrider", "serve", "--port", "0"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    link = (await process.stdout.readline()).decode().strip()
    options = {"timeout": aiohttp.ClientTimeout(600), "cookie_jar": aiohttp.CookieJar(unsafe=True)}
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), **options) as client:  # type: ignore[arg-type]
            async with client.get(link) as response:
                response.raise_for_status()
                page = str(response.url)
            yield _Server(process, client, f"{page.rstrip('/')}/api/v1")
    finally:
        process.terminate()
        await process.wait()


# The figures


async def _measure(folder: Path, large: str) -> list[Figure]:
    environment = os.environ | {"OUTRIDER_LOG": str(folder), "OUTRIDER_HOME": str(folder)}
    async with _serving(environment) as server:
        figures = await _requests(server, large)
        figures.append(Figure("peak memory of the server after all of that", server.peak, "MB", MEGABYTES))
    async with _serving(environment) as server:
        figures += await _live(server, environment)
    return figures


async def _requests(server: _Server, large: str) -> list[Figure]:
    figures = [await _first(server, "the list, first request of all", "sessions")]
    indexing = await server.seconds("sessions", search=WORD)  # the first search of all indexes the log
    figures.append(Figure("first search, which indexes all of it", indexing, "s", 60))
    figures.append(await _first(server, "plots, read for the first time", "figures/day"))
    figures.append(Figure("until they cover the whole log", await _until_complete(server), "s", 10))
    last = (await server.get(f"sessions/{large}"))["last"]
    assert len((await server.get("sessions", search=WORD))["sessions"]) > 50
    for name, path, query in (
        (f"first page of {SESSIONS:,} sessions", "sessions", {}),
        ("search for a word in a tool result", "sessions", {"search": WORD}),
        ("sessions of one folder", "sessions", {"folder": "/home/user/projects/p7"}),
        ("folders and models to choose from", "facets", {}),
        (f"head of the session of {MESSAGES:,} messages", f"sessions/{large}", {}),
        ("its newest entries", f"sessions/{large}/entries", {}),
        ("its context by turn", f"sessions/{large}/context", {}),
        ("wire view of its newest reply", f"sessions/{large}/wire/{last}", {}),
        ("plots by day", "figures/day", {}),
        ("plots by folder", "figures/folder", {}),
    ):
        figures.append(Figure(name, await server.milliseconds(path, **query), "ms", 300))
    return figures


async def _first(server: _Server, name: str, path: str) -> Figure:
    return Figure(name, 1e3 * await server.seconds(path), "ms", 300)


async def _until_complete(server: _Server) -> float:
    """Return how long a page asks again until the plots are complete. The server adds up from its start on."""
    started = time.perf_counter()
    while not (await server.get("figures/day"))["complete"]:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.1)
    return time.perf_counter() - started


async def _live(server: _Server, environment: dict[str, str]) -> list[Figure]:
    async with _holding(environment) as holder:
        return [await _delay(server, holder), await _cost_of_watchers(server, holder)]


async def _delay(server: _Server, holder: _Holder) -> Figure:
    """From before the write of an entry in another process to the event at the client."""
    delays = []
    last = (await server.get(f"sessions/{holder.plain}"))["last"]
    async with server.events(holder.plain, last) as events:
        for number in range(APPENDS):
            await asyncio.sleep(0.037 * (number % 5))  # at any moment between two looks
            written = float(await holder.tell("append"))
            while not (line := await events.readline()).startswith(b"event: entry"):
                assert line
            delays.append(1e3 * (time.time() - written))
    worst = f"worst {max(delays):.0f} ms"
    return Figure("an entry of another process, until a page has it", statistics.median(delays), "ms", 100, worst)


async def _cost_of_watchers(server: _Server, holder: _Holder) -> Figure:
    alone, watched = [], []
    await holder.tell("turn")
    for _ in range(ROUNDS):
        alone.append(float(await holder.tell("turn")))
        async with _watching(server, holder.session):
            watched.append(float(await holder.tell("turn")))
    ratio = statistics.median(watched) / statistics.median(alone)
    detail = f"{1e3 * statistics.median(alone):.0f} ms a turn alone"
    return Figure(f"CPU of a session with {WATCHERS} watchers / without", ratio, "x", 1.05, detail)


@asynccontextmanager
async def _watching(server: _Server, session: str) -> AsyncIterator[None]:
    """Watch a session from many pages."""
    ready = [asyncio.Event() for _ in range(WATCHERS)]

    async def watch(seen: asyncio.Event) -> None:
        async with server.events(session, 0) as events:
            async for line in events:
                if line.startswith(b"event: draft"):
                    seen.set()

    tasks = [asyncio.ensure_future(watch(each)) for each in ready]
    try:
        await asyncio.gather(*(each.wait() for each in ready))
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


class _Holder:
    """The process that has a session open (`bench/web_holder.py`)."""

    def __init__(self, process: asyncio.subprocess.Process, session: str, plain: str) -> None:
        self._process = process
        self.session = session
        self.plain = plain
        """A session that is not shown live: only the log has its entries."""

    async def tell(self, line: str) -> str:
        """Give an order and return the answer."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{line}\n".encode())
        answer = (await self._process.stdout.readline()).decode().strip()
        assert answer
        return answer


@asynccontextmanager
async def _holding(environment: dict[str, str]) -> AsyncIterator[_Holder]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.web_holder"), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    try:
        yield _Holder(process, *(await process.stdout.readline()).decode().split())
    finally:
        process.terminate()
        await process.wait()
