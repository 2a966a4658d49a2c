"""A thousand conversations at once in one process."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator

from bench.figure import Figure
from outrider import Agent, Session
from outrider.testing import ScriptedModel, call

SESSIONS, TURNS = 1_000, 10


async def answer(path: str) -> str:
    """Answer after the other sessions had their turn."""
    await asyncio.sleep(0)
    return path


def measure() -> Iterator[Figure]:
    """All sessions must end well; their cost is said, not judged."""
    cpu, wall, done = asyncio.run(_run_all())
    turns = SESSIONS * TURNS
    yield Figure(f"of {SESSIONS:,} concurrent sessions of {TURNS} turns, not done", float(SESSIONS - done), "", 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Figure("their CPU a turn", cpu / turns * 1e3, "ms", None, f"{turns / wall:,.0f} turns/s, peak {peak:.0f} MB")


async def _run_all() -> tuple[float, float, int]:
    cpu, wall = time.process_time(), time.perf_counter()
    results = await asyncio.gather(*(_session().run("go") for _ in range(SESSIONS)))
    done = sum(result.status == "done" and result.turns == TURNS for result in results)
    return time.process_time() - cpu, time.perf_counter() - wall, done


def _session() -> Session:
    steps = [call("answer", path="src/main.py") for _ in range(TURNS - 1)]
    return Session(Agent(model=ScriptedModel([*steps, "done"]), tools=[answer]))
