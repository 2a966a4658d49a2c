"""What the drivers share: arguments, the scenarios, measuring and output. It needs nothing but Python.

A driver says what a user imports, and how one conversation is run. `opened` is called once; each call of the `run`
that it gives is one whole conversation of `options.turns` tool calls, and returns whatever keeps its history:

    import common

    IMPORTS = "from openai import AsyncOpenAI"

    async def opened(options):
        async def answer(path: str) -> str:
            return await options.answer()  # counts the call, and is a new text of the asked length each time

        async def run():
            ...  # base URL options.url (with /v1 for OpenAI), model options.model, streamed if options.stream
            return messages

        return run

    if __name__ == "__main__":
        common.main("openai-sdk", "openai", IMPORTS, opened)
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

Run = Callable[[], Awaitable[object]]
Opened = Callable[["Options"], Awaitable[Run]]

SCENARIOS = ("import", "loop", "many", "growth", "idle", "fan")
MARKS = (20, 200)
"""The turns whose cost `growth` tells, beside the last."""
NEAR = 10
"""Turns before a mark whose median counts."""
REPEATS = 5
"""Conversations of `loop`: one of 20 turns is too short to be measured alone."""
OPENAI_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "answer",
        "description": "Answer at once.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
"""The tool for loops by hand on OpenAI Chat."""
KEEP = 49
"""Tool calls of an idle conversation: with the question and the last answer it has 100 messages."""


@dataclass
class Options:
    """What one process is to measure."""

    scenario: str
    url: str
    turns: int
    agents: int
    result_bytes: int
    stream: bool
    api: str
    """openai (Chat), responses, anthropic or gemini: for drivers that speak more than one."""
    more: argparse.Namespace
    """All arguments, with those that the driver has added."""
    child: Run | None = None
    """The conversation that each call of the tool sends out, in `fan`: then the one reply has a call for each agent."""
    stamps: list[float] = field(default_factory=list)
    """CPU seconds of the process at each tool call."""
    at_end: list[Callable[[], Awaitable[object]]] = field(default_factory=list)
    """What a driver wants awaited before the process ends."""

    @property
    def model(self) -> str:
        """The model's name tells the server how many tool calls to make, one a reply or all at once."""
        return f"fan-{self.agents}" if self.child else f"turns-{self.turns}"

    async def answer(self) -> str:
        """What the tool does: answer at once, or send out a conversation and answer after it."""
        if self.child:
            await self.child()
        return self.result()

    def result(self) -> str:
        """What the tool answers: a text of its own for each call, since real results are not one object."""
        self.stamps.append(time.process_time())
        return f"{len(self.stamps):08d}".ljust(self.result_bytes, "x")


def main(
    peer: str,
    distribution: str,
    imports: str | Callable[[Options], str],
    opened: Opened,
    extend: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Measure what the arguments ask for, and print it as one line of JSON."""
    options = _options(peer, extend)
    if options.scenario == "import":
        measured = _import(imports if isinstance(imports, str) else imports(options))
    else:
        measured = asyncio.run(_measured(options, opened))
    head = {"peer": peer, "version": version(distribution), "scenario": options.scenario}
    print(json.dumps({**head, "peak_rss_bytes": peak_rss(), **measured}), flush=True)


def _options(peer: str, extend: Callable[[argparse.ArgumentParser], None] | None) -> Options:
    parser = argparse.ArgumentParser(description=f"Measure {peer}.")
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the mock model server")
    parser.add_argument("--turns", type=int, default=20, help="tool calls of a conversation")
    parser.add_argument("--agents", type=int, default=200, help="conversations at once, or held")
    parser.add_argument("--result-bytes", type=int, default=2000, help="length of a tool's answer")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--api", choices=("openai", "responses", "anthropic", "gemini"), default="openai")
    if extend is not None:
        extend(parser)
    args = parser.parse_args()
    turns = KEEP if args.scenario == "idle" else args.turns
    return Options(args.scenario, args.url, turns, args.agents, args.result_bytes, args.stream, args.api, args)


async def _measured(options: Options, opened: Opened) -> dict[str, Any]:
    measured = await _SCENARIOS[options.scenario](options, opened)
    for end in options.at_end:
        await end()
    return measured


async def _loop(options: Options, opened: Opened) -> dict[str, Any]:
    """One conversation after the other, after one to warm up."""
    run = await opened(options)
    await run()
    options.stamps.clear()

    async def in_turn() -> None:
        for _ in range(REPEATS):
            await run()

    return await _timed(options, in_turn, options.turns * REPEATS)


async def _many(options: Options, opened: Opened) -> dict[str, Any]:
    """All conversations at once, after one alone to warm up."""
    run = await opened(options)
    await run()
    options.stamps.clear()

    async def all_at_once() -> object:
        return await asyncio.gather(*(run() for _ in range(options.agents)))

    return await _timed(options, all_at_once, options.turns * options.agents)


async def _growth(options: Options, opened: Opened) -> dict[str, Any]:
    """One long conversation. The stamps of its tool calls tell what each turn has cost."""
    run = await opened(options)
    measured = await _timed(options, run, options.turns)
    costs = [after - before for before, after in zip(options.stamps, options.stamps[1:], strict=False)]
    marks = sorted({mark for mark in (*MARKS, options.turns) if NEAR < mark <= options.turns})
    measured["marks"] = {str(mark): statistics.median(costs[mark - 1 - NEAR : mark - 1]) for mark in marks}
    measured["every"] = [round(statistics.median(costs[at : at + NEAR]), 6) for at in range(0, len(costs), NEAR)]
    return measured


async def _idle(options: Options, opened: Opened) -> dict[str, Any]:
    """What each held conversation adds to the memory of the process."""
    run = await opened(options)
    for _ in range(3):
        await run()
    options.stamps.clear()
    held: list[object] = []
    before = _settled_rss()

    async def hold() -> None:
        for _ in range(options.agents):
            held.append(await run())

    measured = await _timed(options, hold, options.turns * options.agents)
    measured["marks"] = {"bytes": (_settled_rss() - before) / len(held)}
    return measured


async def _fan(options: Options, opened: Opened) -> dict[str, Any]:
    """One reply sends out all the others; after one such fan to warm up."""
    child = await opened(options)
    run = await opened(replace(options, child=child))
    await run()
    options.stamps.clear()
    measured = await _timed(options, run, (options.turns + 1) * options.agents)
    measured["marks"] = {clock: measured[f"{clock}_seconds"] / options.agents for clock in ("cpu", "wall")}
    return measured


_SCENARIOS = {"loop": _loop, "many": _many, "growth": _growth, "idle": _idle, "fan": _fan}


async def _timed(options: Options, work: Run, calls: int) -> dict[str, Any]:
    """What the work costs, which makes so many calls."""
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    measured = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    if len(options.stamps) != calls:
        raise SystemExit(f"The tool was called {len(options.stamps)} times, not {calls}.")
    return {**measured, "turns": calls, "marks": {}}


async def together(calls: Sequence[Coroutine[Any, Any, str]]) -> list[str]:
    """The results of the calls of one reply, for loops by hand."""
    return [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)


_IMPORT = """
import sys, time
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
before = rss(), time.process_time(), time.perf_counter()
exec(compile(sys.argv[1], "imports", "exec"), {})
print(time.process_time() - before[1], time.perf_counter() - before[2], rss() - before[0])
"""


def _import(imports: str) -> dict[str, Any]:
    """The imports in Pythons of their own, since this one has already imported much of what a peer needs."""
    runs = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(4):
        command = [sys.executable, "-c", _IMPORT, imports]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        runs.append([float(each) for each in printed.splitlines()[-1].split()])
    # The first one may have had to compile.
    cpu, wall, rss = (statistics.median(values) for values in zip(*runs[1:], strict=True))
    return {"cpu_seconds": cpu, "wall_seconds": wall, "turns": 0, "peak_rss_bytes": int(rss), "marks": {"rss": rss}}


def peak_rss() -> int:
    """The most memory this process has had. Not from getrusage: that counts what was there before the exec."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def _settled_rss() -> int:
    """Memory held now, without garbage and without what malloc keeps for later."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
