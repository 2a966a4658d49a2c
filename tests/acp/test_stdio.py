"""The wire over real descriptors: pipes, sockets, files and terminals; clients that are slow, gone or closing."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from outrider.acp.connection import Connection
from outrider.acp.handlers import Method
from outrider.acp.stdio import Ending, serve
from outrider.acp.writer import EditorWriter, PipeWriter
from tests.acp.conftest import Anything

DEADLINE = 60
ASK = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"value":"hi"}}\n'
NOISY = b'{"jsonrpc":"2.0","id":%d,"method":"noisy","params":{"value":1}}'
WAIT = b'{"jsonrpc":"2.0","id":2,"method":"wait"}\n'

PROGRAM = """
import asyncio, os, subprocess, sys
from typing import Any
import msgspec
from outrider.acp.stdio import serve
from outrider.acp.connection import Connection
from outrider.acp.handlers import Method

class Anything(msgspec.Struct):
    value: Any = None

def noisy(params):
    print("stray print")
    os.write(1, b"stray bytes\\n")
    subprocess.run(["sh", "-c", "echo stray child"])
    return {"heard": params.value, "read": os.read(0, 100).decode()}

async def wait(params):
    print("waiting", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up", file=sys.stderr, flush=True)

async def on_end():
    print("on_end", file=sys.stderr, flush=True)

def connection(write):
    return Connection(write, {"noisy": Method(Anything, noisy), "wait": Method(Anything, wait)}, {})

ending = asyncio.run(serve(connection, on_end=on_end))
print("ended:", ending, file=sys.stderr)
print("again")
"""


class Served:
    """A connection over descriptors, in a task."""

    def __init__(self, source: int, target: int, **options: Any) -> None:
        self.writer: EditorWriter
        self.ended_with: list[str] = []
        self.task: asyncio.Task[Ending] = asyncio.ensure_future(
            serve(self._connection, input=source, output=target, signals=(), **options)
        )

    def _connection(self, write: EditorWriter) -> Connection:
        self.writer = write
        methods = {"echo": Method(Anything, lambda params: params), "wait": Method(Anything, self._wait)}
        self.connection = Connection(write, methods, {})
        return self.connection

    async def _wait(self, params: Anything) -> None:
        self.ended_with.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            self.ended_with.append("cancelled")

    async def end(self) -> Ending:
        async with asyncio.timeout(DEADLINE):
            return await self.task

    async def begun(self) -> None:
        await until(lambda: hasattr(self, "connection"))


@pytest.fixture
def ends() -> Iterator[Callable[[], tuple[int, int]]]:
    """Pipes, closed at the end if they are not yet: reading and writing ends."""
    made: list[int] = []

    def pipe() -> tuple[int, int]:
        made.extend(pair := os.pipe())
        return pair

    yield pipe
    for each in made:
        with suppress(OSError):
            os.close(each)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not true():
            await asyncio.sleep(0.001)


async def read_line(descriptor: int) -> Any:
    def read() -> bytes:
        with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
            return file.readline()

    return json.loads(await asyncio.to_thread(read))


async def test_requests_over_pipes_are_answered_until_the_client_closes(ends: Any) -> None:
    (source, client), (reader, target) = ends(), ends()
    served = Served(source, target)
    os.write(client, ASK)
    assert (await read_line(reader))["result"] == {"value": "hi"}
    os.close(client)
    assert await served.end() == "closed"
    assert os.get_blocking(target)


async def test_one_socket_may_serve_both_directions() -> None:
    ours, client = socket.socketpair()
    with ours, client:
        served = Served(ours.fileno(), ours.fileno())
        for _ in range(3):
            client.sendall(ASK)
            assert (await read_line(client.fileno()))["result"] == {"value": "hi"}
        client.shutdown(socket.SHUT_WR)
        assert await served.end() == "closed"


async def test_a_file_is_read_to_its_end_and_answered_into_another(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(ASK.replace(b"1,", b"7,") + ASK.rstrip(b"\n"))  # the last line has no end
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        assert await Served(source.fileno(), target.fileno()).end() == "closed"
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [each["id"] for each in answers] == [7, 1]


async def test_nothing_to_read_ends_at_once(ends: Any) -> None:
    _, target = ends()
    with Path(os.devnull).open("rb") as nothing:  # noqa: ASYNC230
        assert await Served(nothing.fileno(), target).end() == "closed"


async def test_a_terminal_is_served_too(ends: Any) -> None:
    screen, terminal = pty.openpty()
    try:
        served = Served(terminal, terminal)
        await served.begun()
        os.write(screen, ASK)
        shown = b""
        while b'"result":{"value":"hi"}' not in shown:
            shown += await asyncio.wait_for(asyncio.to_thread(os.read, screen, 4096), DEADLINE)
        os.write(screen, b"\x04")
        assert await served.end() == "closed"
    finally:
        os.close(screen)
        os.close(terminal)


async def test_what_runs_is_cancelled_and_answered_when_the_client_closes_its_end(ends: Any) -> None:
    (source, client), (reader, target) = ends(), ends()
    served = Served(source, target, grace=0.01)
    os.write(client, WAIT)
    await until(lambda: served.ended_with)
    os.close(client)
    assert await served.end() == "closed"
    assert served.ended_with == ["begun", "cancelled"]
    assert (await read_line(reader))["error"]["code"] == -32800


async def test_a_client_that_goes_away_is_noticed_without_a_word(ends: Any) -> None:
    (source, client), (reader, target) = ends(), ends()
    served = Served(source, target)
    os.write(client, WAIT)
    await until(lambda: served.ended_with)
    os.close(reader)
    assert await served.end() == "gone"
    assert served.ended_with == ["begun", "cancelled"]


async def test_a_client_whose_socket_is_closed_is_noticed_with_the_next_word() -> None:
    ours, client = socket.socketpair()
    (source, feeding) = os.pipe()
    with ours:
        served = Served(source, ours.fileno())
        await served.begun()
        client.close()
        assert served.connection.notify("a", {}) == 0
        assert await served.end() == "gone"
    os.close(source)
    os.close(feeding)


async def test_a_slow_client_is_known_until_it_has_caught_up(ends: Any) -> None:
    (source, _), (reader, target) = ends(), ends()
    served = Served(source, target)
    await served.begun()
    writer = served.writer
    sent = 0
    while not writer.congested:
        sent += served.connection.notify("update", {"text": "x" * 1000})
    assert writer.buffered > 256 * 1024
    drained: list[int] = []
    writer.when_drained(lambda: drained.append(writer.buffered))
    await asyncio.sleep(0)
    assert drained == []
    received = 0
    while writer.congested:
        received += len(await asyncio.to_thread(os.read, reader, 4096))
        await asyncio.sleep(0)
    assert writer.buffered <= 64 * 1024
    await asyncio.sleep(0)
    assert len(drained) == 1
    writer.when_drained(lambda: drained.append(0))
    await asyncio.sleep(0)
    assert len(drained) == 2, "at once where nothing waits"
    while received < sent:
        received += len(await asyncio.to_thread(os.read, reader, 65536))
        await asyncio.sleep(0)
    assert (received, writer.buffered) == (sent, 0)
    served.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await served.task


@pytest.mark.parametrize("limits", [{"hard": 300_000}, {"stall": 0.05}])
async def test_a_client_that_takes_nothing_counts_as_gone(ends: Any, limits: dict[str, Any]) -> None:
    _, target = ends()
    gone: list[bool] = []
    writer = PipeWriter(target, lambda: gone.append(True), **limits)
    with suppress(BrokenPipeError):
        for _ in range(100):
            writer(b"x" * 10_000)
    await until(lambda: gone)
    assert gone == [True]
    assert writer.buffered == 0
    with pytest.raises(BrokenPipeError):
        writer(b"x")


async def test_a_client_that_takes_a_little_is_not_gone_until_it_takes_nothing(ends: Any) -> None:
    reader, target = ends()
    gone: list[bool] = []
    writer = PipeWriter(target, lambda: gone.append(True), stall=1000)
    while not writer.congested:
        writer(b"x" * 10_000)
    for _ in range(3):
        before = writer.buffered
        os.read(reader, 10_000)
        await until(lambda before=before: writer.buffered < before)
        assert writer._timer
        writer._timer._run()  # a thousand seconds later
    assert gone == []
    writer._timer._run()
    assert gone == [True]


async def test_cancelling_it_ends_it_in_good_order(ends: Any) -> None:
    (source, client), (reader, target) = ends(), ends()
    ended: list[str] = []

    async def on_end() -> None:
        ended.append("on_end")

    served = Served(source, target, on_end=on_end)
    os.write(client, WAIT)
    await until(lambda: served.ended_with)
    served.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await served.task
    assert (ended, served.ended_with) == (["on_end"], ["begun", "cancelled"])
    assert (await read_line(reader))["error"]["code"] == -32800


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """The program above, as its own process."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    started: list[subprocess.Popen[bytes]] = []

    def start(**streams: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(process := subprocess.Popen([sys.executable, str(file)], **pipes | streams))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_only_protocol_reaches_standard_output_and_nothing_else_reads_its_input(program: Any) -> None:
    process = program()
    for number in (1, 2):
        process.stdin.write(NOISY % number + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer == {"jsonrpc": "2.0", "id": number, "result": {"heard": 1, "read": ""}}
    output, said = process.communicate(NOISY % 3, timeout=DEADLINE)  # the last line has no end
    last, after = output.splitlines()
    assert json.loads(last)["id"] == 3
    assert after == b"again"  # standard output is its own again
    assert said.count(b"stray") == 9
    assert b"ended: closed" in said


def test_without_input_it_ends(program: Any) -> None:
    process = program(stdin=subprocess.DEVNULL)
    assert process.wait(DEADLINE) == 0
    assert b"ended: closed" in process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_good_order(program: Any, number: signal.Signals) -> None:
    process = program()
    process.stdin.write(WAIT)
    process.stdin.flush()
    assert process.stderr.readline() == b"waiting\n"
    process.send_signal(number)
    assert [process.stderr.readline() for _ in range(3)] == [b"on_end\n", b"cleaned up\n", b"ended: signal\n"]
    output, _ = process.communicate(timeout=DEADLINE)
    assert json.loads(output.splitlines()[0])["error"]["code"] == -32800
    assert process.returncode == 0
