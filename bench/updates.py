"""What updates of tool calls cost and how much they save, beside whole objects and the Python SDK of the protocol."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from bench import update_runs
from bench.figure import Figure
from outrider.acp.updates.call_state import CallState, Diff, Item, Location, Terminal, Text, Update
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import Delivery, UpdateTarget

CALLS, UPDATES, ROUNDS = 5_000, 10_000, 3
LINES = [f"{number:>79}\n" for number in range(2_000)]
PEER = Path(__file__).parent / ".peers/acp/bin/python"
EDIT = CallState(
    "call_0001",
    title="Edit src/server.py",
    name="Edit",
    kind="edit",
    content=(Diff("/home/user/src/server.py", "    return a new line\n" * 30, "    return an old line\n" * 30),),
    locations=(Location("/home/user/src/server.py", 12),),
    raw_input={"path": "/home/user/src/server.py"},
)
READ = CallState(
    "call_0002",
    title="Read(src/server.py)",
    name="Read",
    kind="read",
    locations=(Location("/home/user/src/server.py"),),
    raw_input={"file_path": "src/server.py"},
)


def measure() -> Iterator[Figure]:
    """Times are of the CPU, the best of several rounds; bytes are those of whole lines of JSON-RPC."""
    yield from _detection()
    yield from _rate()
    yield from _sizes()
    yield from update_runs.measure()
    for appends, label, most in ((False, "replace", 1.6), (True, "meta", 1.3)):
        ratio, updates = _printed(appends=appends)
        name = f"2,000 lines of 80 characters, sent against printed ({label})"
        yield Figure(name, ratio, "x", most, f"{updates} updates")


class Sink:
    """Whoever reads the lines: how many there are, and how long. Time passes when it is told to."""

    def __init__(self, write: Callable[[bytes], object] = len) -> None:
        self.bytes = self.updates = 0
        self.now = 0.0
        self._write = write
        self._due: list[tuple[float, Callable[[], None]]] = []

    def send(self, update: Update) -> int:
        """Write one update as a line."""
        data = line(update)
        self._write(data)
        self.bytes += len(data)
        self.updates += 1
        return len(data)

    def engine(self, **options: Any) -> Engine:
        """An engine that writes here."""
        return Engine(UpdateTarget(self.send, clock=lambda: self.now, call_later=self._call_later), Delivery(**options))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        due, self._due = self._due, []
        for when, callback in due:
            if when <= self.now:
                callback()
            else:
                self._due.append((when, callback))

    def _call_later(self, delay: float, callback: Callable[[], None]) -> Sink:
        self._due.append((self.now + delay, callback))
        return self

    def cancel(self) -> None:
        """The timers of a sink are few, and all of them fire."""


class _Fields(msgspec.Struct, rename="camel", omit_defaults=True):
    session_update: str
    tool_call_id: str
    title: Any = UNSET
    name: Any = UNSET
    kind: Any = UNSET
    status: Any = UNSET
    content: Any = UNSET
    locations: Any = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    meta: Any = msgspec.field(default=UNSET, name="_meta")


_encoder = msgspec.json.Encoder()


def line(update: Update) -> bytes:
    """A notification as an editor gets it."""
    fields = _Fields(
        "tool_call" if update.is_new else "tool_call_update",
        update.id,
        update.title,
        update.name,
        update.kind,
        update.status,
        UNSET if update.content is UNSET else [_item(item) for item in update.content],
        update.locations,
        update.raw_input,
        update.raw_output,
        UNSET if update.output is UNSET else {"terminal_output": {"terminal_id": update.id, "data": update.output}},
    )
    params = {"sessionId": "sess_0123456789abcdef", "update": fields}
    return _encoder.encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) + b"\n"


def _item(item: Item) -> dict[str, Any]:
    if isinstance(item, Text):
        return {"type": "content", "content": {"type": "text", "text": item.text}}
    if isinstance(item, Diff):
        return {"type": "diff", "path": item.path, "oldText": item.old, "newText": item.new}
    assert isinstance(item, Terminal)
    return {"type": "terminal", "terminalId": item.id}


def _whole(state: CallState) -> int:
    return len(line(Update(**msgspec.structs.asdict(state))))


def _detection() -> Iterator[Figure]:
    found, all_of_it = min(_status_changes() for _ in range(ROUNDS))
    yield Figure(
        "a change of status, finding the difference", found * 1e6, "µs", 5, f"with its update {all_of_it * 1e6:.1f} µs"
    )
    engine = Sink().engine()
    engine.announce(CallState("call", content=(Text("x" * 100_000),)))
    contents = [(Text("x" * 100_000),) for _ in range(200)]
    started = time.process_time()
    for content in contents:
        engine.change("call", content=content)
    spent = (time.process_time() - started) / len(contents)
    assert engine.metrics.suppressed == len(contents)
    yield Figure("a change of nothing, with 100 KB of content", spent * 1e6, "µs", 50)


def _status_changes() -> tuple[float, float]:
    """Seconds a change, as the engine itself measures its detection, and in all with an update that goes nowhere."""
    names = [f"call_{number}" for number in range(CALLS)]
    engine = Engine(
        UpdateTarget(lambda update: 100, clock=time.monotonic, call_later=Sink()._call_later), Delivery(interval=0)
    )
    for name in names:
        engine.announce(CallState(name, title="Read", content=(Text("some text"),)))
    before, started = engine.metrics.detecting, time.process_time()
    for name in names:
        engine.change(name, status="in_progress")
    spent = time.process_time() - started
    return (engine.metrics.detecting - before) / CALLS, spent / CALLS


def _rate() -> Iterator[Figure]:
    name = f"{UPDATES:,} updates of one field, each written"
    python = os.environ.get("OUTRIDER_BENCH_ACP_PYTHON") or (str(PEER) if PEER.exists() else "")
    ours = min(asyncio.run(_written_updates()) for _ in range(ROUNDS))
    said = f"{UPDATES / ours:,.0f} a second"
    if not python:
        missing = "the Python SDK is missing: name its interpreter in OUTRIDER_BENCH_ACP_PYTHON"
        yield Figure(name, ours / UPDATES * 1e6, "µs", None, f"{said}; {missing}")
        return
    theirs = min(_of_the_sdk(python) for _ in range(ROUNDS))
    detail = f"{said} against {UPDATES / theirs:,.0f}"
    yield Figure(f"{name}, against the Python SDK", ours / theirs, "x", 1 / 3, detail)


async def _written_updates() -> float:
    """CPU seconds from the change to the write, through the stream that the SDK has too, and nothing coalesced."""
    loop = asyncio.get_running_loop()
    with open(os.devnull, "wb") as nowhere:  # noqa: ASYNC230 - nothing is read, and nothing waits
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, nowhere)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        engine = Sink(writer.write).engine()
        engine.announce(EDIT)
        engine.flush()
        started = time.process_time()
        for number in range(UPDATES):
            engine.change(EDIT.id, title=f"Step {number}")
            engine.flush()
            await writer.drain()
        spent = time.process_time() - started
        transport.close()
    assert engine.metrics.updates_sent == UPDATES + 1
    return spent


_SDK = """
import asyncio, os, sys, time
from acp.agent.connection import AgentSideConnection
from acp.contrib.tool_calls import ToolCallTracker

class Agent:
    pass

async def main(updates):
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, open(os.devnull, "wb"))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    connection = AgentSideConnection(Agent(), writer, asyncio.StreamReader(), listening=False)
    tracker = ToolCallTracker()
    await connection.session_update("sess_0123456789abcdef", tracker.start("call", title="Edit", kind="edit"))
    started = time.process_time()
    for number in range(updates):
        await connection.session_update("sess_0123456789abcdef", tracker.progress("call", title=f"Step {number}"))
    print(time.process_time() - started, flush=True)
    os._exit(0)

asyncio.run(main(int(sys.argv[1])))
"""


def _of_the_sdk(python: str) -> float:
    said = subprocess.run([python, "-c", _SDK, str(UPDATES)], capture_output=True, check=True, text=True)
    return float(said.stdout)


def _sizes() -> Iterator[Figure]:
    for name, state, most in (("an edit of 30 lines", EDIT, 15), ("a Read", READ, 60)):
        sink = Sink()
        engine = sink.engine(interval=0)
        engine.announce(state)
        before = sink.bytes
        engine.change(state.id, status="in_progress")
        share = 100 * (sink.bytes - before) / _whole(msgspec.structs.replace(state, status="in_progress"))
        yield Figure(
            f"a change of status of {name}, of the whole call", share, "%", most, f"{sink.bytes - before} bytes"
        )


def _printed(*, appends: bool) -> tuple[float, int]:
    """Bytes of all lines sent for a command that prints a line every 10 ms, against what it prints."""
    sink = Sink()
    engine = sink.engine(appends=appends)
    engine.announce(CallState("call", title="Run", kind="execute", content=(Terminal("t"),) if appends else ()))
    for text in LINES:
        engine.append("call", text)
        sink.wait(0.01)
    engine.finish("call", "completed", exit_code=0)
    return sink.bytes / len("".join(LINES)), sink.updates
