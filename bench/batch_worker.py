"""A worker process for the measurements of batches: its model answers after a while.

python -m bench.batch_worker LOG BATCH SECONDS
"""

from __future__ import annotations

import asyncio
import sys

from outrider import Agent, Log
from outrider.batches.collector import open_queue
from outrider.batches.running import AgentSessions, TaskRunner
from outrider.testing import Delay, ScriptedModel


async def work(place: str, batch: str, seconds: float) -> None:
    """Run tasks until it is told to stop: by a line on standard input, or its end."""
    with Log(place) as log:
        queue = open_queue(log)
        stop = asyncio.Event()
        agent = Agent(ScriptedModel(lambda request: Delay(seconds, "done")))
        runner = TaskRunner(AgentSessions(agent, log), queue, log.folder / "workspaces")
        working = asyncio.ensure_future(queue.work(runner, stop, batch=batch))
        await asyncio.to_thread(sys.stdin.readline)
        stop.set()
        await working
        queue.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], float(sys.argv[3])))
