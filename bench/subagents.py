"""What a sub-agent costs beyond its turns: sent out by Task, beside a session of its own that is run directly."""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from bench.figure import Figure
from outrider import Agent, Limits, Log, Profile, Session, with_subagents
from outrider.providers.base import Request
from outrider.testing import ScriptedModel, Step, call

CHILDREN, ROUNDS = 50, 7
PARALLEL = 200
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
WORKER = Profile(name="Worker", description="Works.")


def measure() -> Iterator[Figure]:
    """CPU of a child's start and end, alone and in a log; memory of many at once."""
    alone, delegated, reporting = asyncio.run(_cpu(None))
    beyond = f"a session of one turn {alone:.3f} ms, with a schema {reporting - alone:.3f} ms beyond it"
    yield Figure("a sub-agent's start and end, CPU beyond its turn", delegated - alone, "ms", 1.0, beyond)
    with tempfile.TemporaryDirectory() as folder, Log(folder) as log:
        alone, delegated, reporting = asyncio.run(_cpu(log))
    detail = f"a session of one turn {alone:.3f} ms, with a schema {reporting - alone:.3f} ms beyond it"
    yield Figure("the same in the durable log", delegated - alone, "ms", None, detail)
    program = "import asyncio, bench.subagents as b; print(asyncio.run(b.memory()))"  # where nothing was freed before
    bytes_each = float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    yield Figure(f"memory of each of {PARALLEL} at once", bytes_each / 1024, "KB", 200)


async def _cpu(log: Log | None) -> tuple[float, float, float]:
    """Milliseconds a child: run directly, sent out, sent out with a schema; each the median of interleaved rounds."""
    kinds: list[Callable[[], Awaitable[None]]] = [
        lambda: _directly(log),
        lambda: _sent_out(log, {}),
        lambda: _sent_out(log, {"output_schema": SCHEMA}),
    ]
    taken: list[list[float]] = [[], [], []]
    for kind in kinds:
        await kind()
    for _ in range(ROUNDS):
        for kind, times in zip(kinds, taken, strict=True):
            gc.collect()
            began = time.process_time()
            await kind()
            times.append((time.process_time() - began) / CHILDREN * 1e3)
    medians = [statistics.median(times) for times in taken]
    return medians[0], medians[1], medians[2]


async def _directly(log: Log | None) -> None:
    """As many sessions of one turn, as many at once."""
    agent = Agent(model=ScriptedModel(lambda request: "done"))
    sessions = [_session(agent, log) for _ in range(CHILDREN)]
    await asyncio.gather(*(session.run("go") for session in sessions))
    for session in sessions:
        session.close()


async def _sent_out(log: Log | None, more: dict[str, object]) -> None:
    asked = [call("Task", description="work", prompt="go", subagent_type="Worker", **more) for _ in range(CHILDREN)]
    with _session(_team(asked, "done"), log) as session:
        result = await session.run("go")
    assert result.status == "done", result


def _team(asked: Sequence[Step], said: Step) -> Agent:
    """Sends out those who are asked for, each of whom says one thing; a report if it is to give one."""

    def answer(request: Request) -> Step:
        if not any(tool.name == "Task" for tool in request.tools):
            return call("report_back", answer=1) if request.tools else said
        return asked if len(request.messages) == 1 else "all back"  # type: ignore[return-value]

    return with_subagents(Agent(model=ScriptedModel(answer)), [WORKER], at_once=1_000)


def _session(agent: Agent, log: Log | None) -> Session:
    return Session(agent) if log is None else Session.open(log, agent=agent).now()


async def memory() -> float:
    """Bytes a child, while all of them wait for their model."""
    arrived, free = asyncio.Semaphore(0), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        arrived.release()
        await free.wait()
        return "on"

    asked = [call("Task", description="work", prompt="go", subagent_type="Worker", output_schema=SCHEMA)] * 50

    def answer(request: Request) -> Step:
        if any(tool.name == "Task" for tool in request.tools):
            return asked if len(request.messages) == 1 else "all back"
        return call("wait") if len(request.messages) == 1 else call("report_back", answer=1)

    agent = Agent(model=ScriptedModel(answer), tools=[wait], limits=Limits(tool_seconds=None))
    sessions = [Session(with_subagents(agent, [WORKER], at_once=1_000)) for _ in range(PARALLEL // 50)]
    gc.collect()
    before = _resident()
    runs = [asyncio.ensure_future(session.run("go")) for session in sessions]
    for _ in range(PARALLEL):
        await arrived.acquire()
    grown = _resident() - before
    free.set()
    assert all(result.status == "done" for result in await asyncio.gather(*runs))
    return grown / PARALLEL


def _resident() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024
