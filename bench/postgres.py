"""What an append to a log in Postgres costs, beside a bare INSERT with asyncpg on the same server."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator

import asyncpg
from tests.postgres import own_server

from bench.figure import Figure
from bench.log import APPENDS, _appends_of_turns
from outrider import Log
from outrider.conversation.messages import Message
from outrider.log.append import Append
from outrider.log.chain import Chain
from outrider.log.entries import MessageEntry
from outrider.log.journal import Journal
from outrider.log.key import LogKey
from outrider.log.postgres.connections import WRITER_SETTINGS
from outrider.log.postgres.schema import SCHEMA
from outrider.log.postgres.statements import Addition, add
from outrider.log.rows import row

ROUNDS = 21
SESSIONS = 100
"""How many write at once in the second figure."""


def measure() -> Iterator[Figure]:
    """Interleaved, on a server that flushes every commit to the disk."""
    with own_server(durable=True) as server:
        server.execute("CREATE DATABASE bench")
        yield from asyncio.run(_appends(server.url("bench")))


async def _appends(url: str) -> list[Figure]:
    with Log(url) as log:
        journals = [log.create() for _ in range(SESSIONS)]
        bare = await asyncpg.connect(url)
        await bare.execute("CREATE TABLE bare (LIKE outrider.event INCLUDING ALL)")
        alone = log.create()
        own = await asyncpg.connect(url, server_settings={"search_path": SCHEMA, **WRITER_SETTINGS})
        seconds = await _medians(
            {
                "bare": lambda: _bare(bare),
                "its statement": lambda: _statement(own, alone),
                "awaited": lambda: _awaited(journals[0]),
                "of a turn": lambda: _appends_of_turns(journals[0]),
                "many": lambda: _many(journals),
            }
        )
        await bare.close()
        await own.close()
    each = {name: spent / (SESSIONS if name == "many" else APPENDS) for name, spent in seconds.items()}
    detail = ", ".join(f"{name} {spent * 1e6:.0f} µs" for name, spent in each.items())
    ratio = {name: spent / each["bare"] for name, spent in each.items()}
    return [
        Figure("durable event in Postgres, awaited alone / bare INSERT", ratio["awaited"], "x", 1.5, detail),
        Figure("its statement alone, without the log / bare INSERT", ratio["its statement"], "x"),
        Figure("the same, as turns write them / bare INSERT", ratio["of a turn"], "x", 1.5),
        Figure("the same of 100 sessions at once / bare INSERT", ratio["many"], "x", 1.0),
    ]


async def _bare(connection: asyncpg.Connection) -> None:
    session = time.monotonic_ns()
    for seq in range(APPENDS):
        values = row(session, seq, 0.0, "message", b"x" * 2000)
        await connection.execute("INSERT INTO bare VALUES ($1, $2, $3, $4, $5, $6)", *values)


async def _statement(connection: asyncpg.Connection, journal: Journal) -> None:
    """Run what the log sends for an append, in this event loop. The rest is the way to the log's thread and back."""
    entry, number = MessageEntry(Message.user("x" * 1940)), journal.extent.session
    chain = Chain(LogKey(), journal.id)
    [(last, head)] = await connection.fetch("SELECT last, chain FROM session WHERE number = $1", number)
    for seq in range(last, last + APPENDS):
        addition = Addition.of(Append(number, 1, [entry], journal.settings, chain), seq, head)
        assert await add(connection, [addition])
        head = addition.head


async def _awaited(journal: Journal) -> None:
    entry = MessageEntry(Message.user("x" * 1940))
    for _ in range(APPENDS):
        await journal.write(entry).finished()


async def _many(journals: list[Journal]) -> None:
    entry = MessageEntry(Message.user("x" * 1940))
    await asyncio.gather(*(journal.write(entry).finished() for journal in journals))


async def _medians(works: dict[str, Callable[[], Awaitable[None]]]) -> dict[str, float]:
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            started = time.perf_counter()
            await work()
            spent[name].append(time.perf_counter() - started)
    return {name: statistics.median(each) for name, each in spent.items()}
