"""A program that refunds an order, waits for an answer on its way, and may be killed at a commit."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from outrider import Agent, Log, Session, ToolContext, tool
from outrider.log.journal import Journal
from outrider.testing import ScriptedModel, call
from outrider.tools.approval import Defer


async def refund_once(place: str, effects: Path, id: str, kind: str) -> None:
    """Run one session until it waits or ends, and print how."""

    @tool(effect="idempotent")
    async def refund(context: ToolContext[None], order: int) -> str:
        """Refund an order. The bank ignores a key that it knows."""
        if kind == "ask" and await context.ask("Refund?", ["yes", "no"]) != "yes":
            return "not refunded"
        with effects.open("a") as file:
            file.write(json.dumps([context.key, order]) + "\n")
        if kind == "result":
            raise Defer("the bank's receipt")
        return f"refunded {order}"

    def approve(use: Any, _tool: object) -> bool:
        if kind == "approval":
            raise Defer(f"Refund {use.input['order']}?")
        return True

    with Log(place) as log:
        has_called = log.has(id) and any(message.tool_calls for message in log.messages(id))
        agent = Agent(ScriptedModel(["Done."] if has_called else [call("refund", order=7), "Done."]), tools=[refund])
        async with Session.open(log, id, agent, create=True, approve=approve) as session:
            result = await session.run("" if session.messages else "Refund order 7")
            print(json.dumps([result.status, result.text, [question.id for question in result.questions]]))


async def ask_for(place: str, count: int) -> None:
    """Make sessions that wait for an approval."""

    @tool(effect="write")
    def refund(order: int) -> str:
        """Refund an order."""
        raise AssertionError(order)

    def approve(use: object, tool: object) -> bool:
        raise Defer("Refund?")

    with Log(place) as log:
        for number in range(count):
            agent = Agent(ScriptedModel([call("refund", order=number)]), tools=[refund])
            async with Session.open(log, f"case-{number}", agent, create=True, approve=approve) as session:
                assert (await session.run("Refund")).status == "waiting"


def die_at(commit: int) -> None:
    """Kill this process once it has committed so many times."""
    writes, write = 0, Journal.write

    def killing(self: Journal, *entries: Any) -> Any:
        nonlocal writes
        pending = write(self, *entries)
        writes += 1
        if writes == commit:
            pending.then(lambda: os.kill(os.getpid(), signal.SIGKILL))
        return pending

    Journal.write = killing  # type: ignore[method-assign]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask", place, count]:
            asyncio.run(ask_for(place, int(count)))
        case [place, effects, id, kind, commit]:
            die_at(int(commit))
            asyncio.run(refund_once(place, Path(effects), id, kind))
