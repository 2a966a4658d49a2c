"""Simulate 10 to 10,000 workers on one Postgres: how busy it is, and how long tasks wait for it.

python -m bench.scale_simulation

The costs of single operations are assumptions (bench/README.md); the rest follows from how often each happens.
It is a queue with a few servers, the cores of the database, and the requests of all workers in front of it.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from typing import NamedTuple

SECONDS = 30.0
"""The simulated time. The first third does not count."""
APPEND, CLAIM, OUTCOME, POLL, BEAT = 0.0004, 0.004, 0.004, 0.0004, 0.0006
"""Seconds of one core of the database: for a durable append, for DBOS to hand out a task, to store its result and to
look for work, and for the heartbeats of a process."""
BEAT_SECONDS = 3.0
CONNECTIONS = 7
"""Connections of one process: three of DBOS, one for leases and budgets, three of the log."""


class Setup(NamedTuple):
    """A number of tasks at once, and how they are spread."""

    workers: int
    """Tasks that run at once."""
    concurrency: int
    """Tasks of one process."""
    poll: float
    """Seconds between two looks for work."""
    cores: int = 4
    """Cores of the database."""

    @property
    def processes(self) -> int:
        """The number of worker processes."""
        return -(-self.workers // self.concurrency)


class Outcome(NamedTuple):
    """What came out of a simulation."""

    busy: float
    """The share of the database's time that is used; about 1 is too much."""
    wait: float
    """The 99th percentile of what a request waits for the database, in seconds."""
    rate: float
    """Tasks a second."""


class Database:
    """Cores that serve requests in the order in which they come."""

    def __init__(self, cores: int) -> None:
        self._free = [0.0] * cores
        self.used = 0.0
        self.waits: list[float] = []

    def serve(self, now: float, seconds: float) -> float:
        """Take a request, and return when it is answered."""
        start = max(now, heapq.heappop(self._free))
        heapq.heappush(self._free, start + seconds)
        if now > SECONDS / 3:
            self.used += seconds
            self.waits.append(start - now)
        return start + seconds


def simulate(setup: Setup, *, turns: int = 10, thinking: float = 6.0, seed: int = 1) -> Outcome:
    """Run workers whose tasks have so many turns, for each of which the model takes some seconds."""
    chance = random.Random(seed)
    database = Database(setup.cores)
    finished = 0

    def task() -> Iterator[tuple[str, float]]:
        """Yield what one worker does: a request to the database, or a wait."""
        nonlocal finished
        left = chance.randrange(turns)  # the workers are not in step
        while True:
            for _ in range(left):
                yield "wait", chance.expovariate(1 / thinking)
                yield "database", 2 * APPEND  # the reply with its calls, and their results
            yield "database", OUTCOME
            finished += 1
            left = turns
            yield "database", CLAIM
            yield "database", 2 * APPEND  # create the session, store the prompt

    def every(pause: float, seconds: float) -> Iterator[tuple[str, float]]:
        yield "wait", chance.uniform(0, pause)
        while True:
            yield "database", seconds
            yield "wait", pause

    actors = [task() for _ in range(setup.workers)]
    for _ in range(setup.processes):
        actors += [every(setup.poll, POLL), every(BEAT_SECONDS, BEAT)]
    queue = [(0.0, number) for number in range(len(actors))]
    before = 0
    while queue and queue[0][0] < SECONDS:
        now, number = heapq.heappop(queue)
        before = finished if now <= SECONDS / 3 else before
        kind, seconds = next(actors[number])
        heapq.heappush(queue, (database.serve(now, seconds) if kind == "database" else now + seconds, number))
    counted = SECONDS * 2 / 3
    waits = sorted(database.waits) or [0.0]
    share = database.used / (counted * setup.cores)
    return Outcome(share, waits[int(len(waits) * 0.99)], (finished - before) / counted)


SETUPS = (
    Setup(10, 1, 0.1),
    Setup(100, 1, 0.1),
    Setup(1_000, 1, 0.1),
    Setup(1_000, 20, 0.1),
    Setup(10_000, 1, 0.1),
    Setup(10_000, 50, 0.1),
    Setup(10_000, 50, 1.0),
    Setup(10_000, 50, 1.0, 8),
)


def main() -> None:
    """Print a table."""
    print("| tasks at once | processes | connections | poll | cores | database busy | 99 % wait less than | tasks/s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for setup in SETUPS:
        result = simulate(setup)
        wait = f"{result.wait * 1e3:.1f} ms" if result.wait < 1 else f"{result.wait:.0f} s"
        print(
            f"| {setup.workers:,} | {setup.processes:,} | {setup.processes * CONNECTIONS:,} | {setup.poll:g} s "
            f"| {setup.cores} | {result.busy:.0%} | {wait} | {result.rate:.1f} |"
        )


if __name__ == "__main__":
    main()
