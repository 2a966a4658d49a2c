"""A process that asks its model until the budget of the day is used up: `python -m` with a log.

After the first request it waits for a line, so that several begin to spend together.
"""

from __future__ import annotations

import asyncio
import sys

from outrider import Agent, Log, Message, Session, Usage
from outrider.providers.base import Reply, Request, StopReason
from outrider.runtime.budget import Budget
from outrider.testing import Delay, ScriptedModel, Step

PRICE = 0.05


def step(request: Request) -> Step:
    print("asked", flush=True)
    return Delay(0.01, Reply(Message.assistant("Yes."), StopReason.END, Usage(1_000, 10, cost=PRICE)))


async def main(place: str, dollars: float) -> None:
    with Log(place) as log:
        agent = Agent(ScriptedModel(step), budget=Budget(day=dollars))
        async with Session.open(log, agent=agent) as session:
            status = (await session.run("Hi.")).status
            await asyncio.to_thread(sys.stdin.readline)
            while status == "done":
                status = (await session.run("Hi.")).status
        print(status, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
