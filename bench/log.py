"""What it costs that nothing is lost: an append, and a turn with the log on."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench import loops, mockserver
from bench.figure import Figure
from outrider import Agent, Limits, Log, Session
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.log.entries import CallResult, Intent, MessageEntry
from outrider.log.journal import Journal
from outrider.log.rows import row
from outrider.log.sqlite.database import open_for_writing
from outrider.log.sqlite.session_table import INSERT
from outrider.providers.base import Provider, Request
from outrider.testing import ScriptedModel

APPENDS, ROUNDS = 100, 21
TURNS = 20
"""Of one run; each round has one with the log and one without, and the medians count."""


def measure() -> Iterator[Figure]:
    """Everything interleaved with what it is compared with."""
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_appends(Path(folder)))
        yield from asyncio.run(_streamed_turns(Path(folder)))
        yield from asyncio.run(_scripted_turns(Path(folder)))


async def _appends(folder: Path) -> list[Figure]:
    bare = open_for_writing(folder / "bare.db")
    with Log(folder / "appends") as log:
        journal = log.create()
        seconds = await _medians(
            {
                "bare": lambda: _bare_appends(bare),
                "awaited": lambda: _awaited_appends(journal),
                "of a turn": lambda: _appends_of_turns(journal),
            }
        )
    bare.close()
    each = {name: spent / APPENDS for name, spent in seconds.items()}
    detail = ", ".join(f"{name} {spent * 1e6:.0f} µs" for name, spent in each.items())
    return [
        Figure("durable event, as turns write them / bare INSERT, commit", each["of a turn"] / each["bare"], "x", 1.3),
        Figure("durable event, awaited alone / the same", each["awaited"] / each["bare"], "x", 1.8, detail),
    ]


async def _bare_appends(connection: sqlite3.Connection) -> None:
    session = time.monotonic_ns()
    for seq in range(APPENDS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, row(session, seq, 0.0, "message", b"x" * 260))
        connection.execute("COMMIT")


async def _awaited_appends(journal: Journal) -> None:
    entry = MessageEntry(Message.user("x" * 200))
    for _ in range(APPENDS):
        await journal.write(entry).finished()


async def _appends_of_turns(journal: Journal) -> None:
    """Turns of two calls: a reply with its two intents in one commit, both answers in another."""
    uses = [ToolUseBlock(f"c{number}", "answer", {"path": "src/main.py"}) for number in range(2)]
    reply = MessageEntry(Message.assistant("x" * 100, *uses))
    intents = [Intent(use.id, "answer", "write", "key", use.input) for use in uses]
    answers = [CallResult(ToolResultBlock(use.id, (TextBlock("x" * 200),))) for use in uses]
    for _ in range(APPENDS // 5):
        await journal.write(reply, *intents).finished()
        for write in [journal.write(answer) for answer in answers]:
            await write.finished()


async def _streamed_turns(folder: Path) -> list[Figure]:
    with mockserver.running() as url, Log(folder / "streamed") as log:
        provider = loops.adapter(url, "openai", f"turns-{TURNS}")
        return [await _on_and_off("CPU of a streamed turn with the log / without", 1.8, provider, loops.ANSWER, log)]


async def _scripted_turns(folder: Path) -> list[Figure]:
    async def answer(path: str) -> str:
        """Answer at once."""
        return path

    def reply(request: Request) -> ToolUseBlock | str:
        asked = sum(message.role == "assistant" for message in request.messages[-2 * TURNS :])
        return "done" if asked >= TURNS - 1 else ToolUseBlock("", "answer", {"path": "src/main.py"})

    with Log(folder / "scripted") as log:
        name = "the same on a model that costs nothing"
        return [await _on_and_off(name, None, ScriptedModel(reply), answer, log)]


async def _on_and_off(
    name: str, at_most: float | None, model: Provider, tool: Callable[..., object], log: Log
) -> Figure:
    agent = Agent(model=model, tools=[tool], limits=Limits(max_turns=TURNS, max_repeats=None))

    kept = [Session.open(log, agent=agent).now() for _ in range(ROUNDS)]

    async def without() -> None:
        assert (await Session(agent).run("Begin.")).turns == TURNS

    async def with_log() -> None:
        assert (await kept.pop().run("Begin.")).turns == TURNS

    seconds = await _medians({"without": without, "with": with_log}, time.process_time)
    turn = {each: spent / TURNS * 1e3 for each, spent in seconds.items()}
    detail = ", ".join(f"{each} {ms:.3f} ms" for each, ms in turn.items())
    return Figure(name, turn["with"] / turn["without"], "x", at_most, detail)


async def _medians(
    works: dict[str, Callable[[], Awaitable[None]]], clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            started = clock()
            await work()
            spent[name].append(clock() - started)
    return {name: statistics.median(each) for name, each in spent.items()}
