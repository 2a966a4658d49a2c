"""A worker process with a scripted model and one tool whose effects count: it appends the task's id to a ledger.

python -m tests.batches.scripted_worker LOG BATCH LEDGER [--seconds SECONDS] [--asking]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path

from outrider import Agent, Log, tool
from outrider.batches.collector import open_queue
from outrider.batches.dbos_queue import DbosQueue
from outrider.batches.running import AgentSessions, TaskRunner
from outrider.cli.worker import _obey
from outrider.conversation.messages import ToolUseBlock
from outrider.processes.signals import on_signals
from outrider.providers.base import Request
from outrider.testing import Delay, ScriptedModel, Step, call
from outrider.tools.approval import Defer
from outrider.tools.tool import Tool


def ledger_tool(ledger: Path) -> Tool:
    @tool(effect="write")
    def append(name: str) -> str:
        """Append a name to the ledger, which must happen once."""
        time.sleep(0.002)  # a kill may come before, in and after the write
        handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{name}\n".encode())
        os.close(handle)
        time.sleep(0.002)
        return "appended"

    return append


def approve_later(use: ToolUseBlock, tool: Tool) -> bool:
    """Leave every third task to whoever answers."""
    if asks(use.input["name"]):
        raise Defer(f"Append {use.input['name']}?")
    return True


def asks(task: str) -> bool:
    return int(task.partition("-")[2]) % 3 == 0


def agent(ledger: Path, seconds: float = 0.0) -> Agent:
    def step(request: Request) -> Step:
        last = request.messages[-1]
        if last.tool_results:
            return Delay(seconds, f"result: {last.tool_results[0].text[:40]}")
        return Delay(seconds, call("append", name=last.text))

    return Agent(ScriptedModel(step), tools=[ledger_tool(ledger)])


async def work(options: argparse.Namespace) -> None:
    log = Log(options.log)
    queue = DbosQueue(options.queue, lease=options.lease) if options.queue else open_queue(log)
    stop = asyncio.Event()
    approve = approve_later if options.asking else None
    sessions = AgentSessions(agent(Path(options.ledger), options.seconds), log, approve)
    runner = TaskRunner(sessions, queue, log.folder / "workspaces")
    working = asyncio.ensure_future(queue.work(runner, stop, batch=options.batch, tools=["append"]))
    _obey(stop, working)
    try:
        with on_signals(lambda _: working.cancel() if stop.is_set() else stop.set()):
            await working
    except asyncio.CancelledError:
        pass
    finally:
        queue.close()
        log.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("batch")
    parser.add_argument("ledger")
    parser.add_argument("--queue", default="")
    parser.add_argument("--lease", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--asking", action="store_true")
    asyncio.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
