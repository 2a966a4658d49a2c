"""`outrider worker`: run tasks of the batches in a log."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from outrider.cli.command_parser import add_tools_option, command_parser, reported
from outrider.cli.options import WRONG_INPUT
from outrider.environment import LOG_HELP
from outrider.processes.signals import on_signals

if TYPE_CHECKING:
    from outrider.batches.queue import Claim, Run
    from outrider.batches.task import TaskResult

DESCRIPTION = """\
Run tasks of the batches in a log, until Ctrl-C, SIGTERM or SIGHUP. The first signal lets the tasks that run finish, the
second puts them back: another worker resumes their sessions. Start as many workers as you like. A task brings its
prompt, model, permissions, limits and schema with it; tool files and API keys must be here.
"""
ORPHAN_SECONDS = 10.0
"""How long a worker may take to finish its tasks after the process that started it was killed."""
PUT_BACK_SECONDS = 5.0
"""How long it may take after that to put them back."""
EXAMPLES = """\
examples:
  outrider worker --log postgresql://db.example.com/outrider
  outrider worker --log postgresql://db.example.com/outrider --tools my_tools.py

exit codes: 0 stopped, 1 error, 2 wrong usage
"""


def worker(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    return reported("worker", lambda: asyncio.run(_work(options)), WRONG_INPUT)


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("worker", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("--log", metavar="PLACE", help=LOG_HELP)
    add_tools_option(parser, "FILE", "a Python file with @tool functions that tasks need; may be repeated")
    add("--batch", default="", metavar="BATCH", help="run tasks of this batch only")
    add("-q", "--quiet", action="store_true", help="print only errors on standard error, no progress")
    # A lifeline for `outrider batch`: when its process ends, standard input does.
    add("--until-eof", action="store_true", help=argparse.SUPPRESS)
    return parser


async def _work(options: argparse.Namespace) -> int:
    from outrider.batches.collector import open_queue
    from outrider.batches.running import TaskRunner
    from outrider.coding.batch_sessions import CodingSessions
    from outrider.coding.tool_files import load_tools
    from outrider.environment import workspaces_folder
    from outrider.sync import default_log

    tools = load_tools(options.tools)
    log = default_log()
    queue = open_queue(log)
    sessions = CodingSessions(log, tools)
    try:
        run: Run = TaskRunner(sessions, queue, workspaces_folder())
        if not options.quiet:
            print("outrider worker: ready", file=sys.stderr, flush=True)
            run = _reporting(run)
        stop = asyncio.Event()
        work = asyncio.ensure_future(queue.work(run, stop, batch=options.batch, tools=[tool.name for tool in tools]))
        if options.until_eof:
            _obey(stop, work)
        with (  # of a person, or of what runs the machine: the first stops the worker, the second cancels its tasks
            on_signals(lambda _: work.cancel() if stop.is_set() else stop.set()),
            suppress(asyncio.CancelledError),
        ):
            await work
        return 0
    finally:
        sessions.close()
        queue.close()
        log.close()


def _obey(stop: asyncio.Event, work: asyncio.Future[None]) -> None:
    """Do what the process that started this one says on standard input: it stops the worker, or cancels its tasks.

    When standard input ends, that process was killed, and nobody pays for long tasks any more. A thread reads it,
    because a pipe may block.
    """
    from outrider.batches.pool import CANCEL, DRAIN

    loop = asyncio.get_running_loop()
    orders: dict[bytes, Callable[[], object]] = {DRAIN: stop.set, CANCEL: work.cancel}

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended
            with suppress(OSError), open(0, "rb", buffering=0, closefd=False) as lifeline:
                for word in lifeline:
                    if word in orders:
                        loop.call_soon_threadsafe(orders[word])
            loop.call_soon_threadsafe(stop.set)
            time.sleep(ORPHAN_SECONDS)
            loop.call_soon_threadsafe(work.cancel)
            time.sleep(PUT_BACK_SECONDS)
            os._exit(1)  # something does not end; the log is as after a kill

    threading.Thread(target=read, name="outrider-lifeline", daemon=True).start()


def _reporting(run: Run) -> Run:
    """Return what runs a task, and prints a line about its result."""

    async def report(claim: Claim) -> TaskResult:
        result = await run(claim)
        with suppress(OSError):
            print(result_line(result), file=sys.stderr, flush=True)
        return result

    return report


def result_line(result: TaskResult) -> str:
    from outrider.text import dollars
    from outrider.text.visible import safe_line

    parts: Sequence[str] = [f"{result.seconds:.1f} s", dollars(result.usage.cost), result.error]
    return safe_line(f"{result.id}: {result.status} · {' · '.join(part for part in parts if part)}")
