"""The wire of an editor agent: standard input and output, set aside for the protocol and nothing else.

Nothing here blocks the loop. Pipes and sockets are waited for; files and terminals, which cannot be, have threads.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from types import FrameType
from typing import Any, Literal

from outrider.acp.connection import Connection
from outrider.acp.writer import FileWriter, PipeWriter, Writer
from outrider.descriptors import fill_closed_streams
from outrider.tools.threads import Threads

__all__ = ["Ending", "Writer", "serve"]

Ending = Literal["closed", "gone", "signal"]
"""The client closed its end; it went away, or takes nothing any more; or somebody wants this process to end."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_SECONDS = 0.5
FLUSH_SECONDS = 5.0
_PIECE = 256 * 1024


async def serve(
    connection_factory: Callable[[Writer], Connection],
    *,
    input: int | None = None,
    output: int | None = None,
    on_end: Callable[[], Awaitable[None]] | None = None,
    signals: Iterable[signal.Signals] = SIGNALS,
    grace: float = GRACE_SECONDS,
) -> Ending:
    """Serve one client over two descriptors, standard input and output if none are given, until it closes or goes away.

    What was asked just before the client closed its end has `grace` seconds to be answered. Then `on_end` runs, for
    whoever wants to stop in its own way what still goes on; then the connection is closed. The first of `signals` ends
    it, too, and the second means what it meant before. To cancel it is to end it in the same good order.
    """
    with _set_aside(input, output) as (source, target):
        end: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        finish = partial(_finish, end)
        writer = (PipeWriter if _can_wait(target) else FileWriter)(target, partial(finish, "gone"))
        connection = connection_factory(writer)
        stop_reading = await _start_reading(source, connection, partial(finish, "closed"))
        ending: Ending = "signal"
        with _signals(signals, partial(finish, "signal")):
            try:
                ending = await end
            finally:
                stop_reading()
                await _end(ending, connection, writer, on_end, grace)
    return ending


async def _end(
    ending: Ending,
    connection: Connection,
    writer: Writer,
    on_end: Callable[[], Awaitable[None]] | None,
    grace: float,
) -> None:
    try:
        if ending == "gone":
            connection.close()
        elif ending == "closed":
            await connection.finish(grace)
        if on_end:
            await on_end()
        await connection.aclose()
        await writer.flush(FLUSH_SECONDS)
    finally:
        connection.close()
        writer.close()
        await asyncio.sleep(0)  # for the reader to close, and the handlers that were cancelled to begin to end


def _finish(end: asyncio.Future[Ending], ending: Ending) -> None:
    if not end.done():
        end.set_result(ending)


def _can_wait(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _start_reading(source: int, connection: Connection, closed: Callable[[], None]) -> Callable[[], object]:
    """Feed the connection from now on; the function that stops it."""
    loop = asyncio.get_running_loop()
    if _can_wait(source):
        pipe = os.fdopen(os.dup(source), "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: _Reader(connection.feed, closed), pipe)
        return transport.close
    return loop.create_task(_read_file(source, connection, closed)).cancel


async def _read_file(source: int, connection: Connection, closed: Callable[[], None]) -> None:
    threads = Threads()
    with suppress(OSError):  # a terminal that was hung up
        while data := await threads.run(_read, source):
            connection.feed(data)
    connection.feed(b"\n")
    closed()


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, _PIECE)
        except BlockingIOError:  # whoever shares the terminal has made it so
            select.select([source], [], [])


class _Reader(asyncio.Protocol):
    def __init__(self, feed: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        self._feed = feed
        self._closed = closed

    def data_received(self, data: bytes) -> None:
        self._feed(data)

    def eof_received(self) -> None:
        self._feed(b"\n")  # a last line may have no end

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed()


@contextmanager
def _signals(wanted: Iterable[signal.Signals], caught: Callable[[], None]) -> Iterator[None]:
    """Hear of signals, but of those that are ignored, as in the background of a shell."""
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def hear(number: int, frame: FrameType | None) -> None:
        restore()
        loop.call_soon_threadsafe(caught)

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    try:
        if threading.current_thread() is threading.main_thread():
            for number in wanted:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, hear)
        yield
    finally:
        restore()


@contextmanager
def _set_aside(input: int | None, output: int | None) -> Iterator[tuple[int, int]]:
    """The descriptors to use, which block again at the end as they did before.

    Standard input and output are taken away from everything else in this process and below it: stray prints go to
    standard error, and whoever reads finds nothing.
    """
    with _own_input(input) as source, _own_output(output) as target:
        blocking = {each: os.get_blocking(each) for each in (source, target)}
        try:
            yield source, target
        finally:
            for each, was in blocking.items():
                os.set_blocking(each, was)


@contextmanager
def _own_input(given: int | None) -> Iterator[int]:
    if given is not None:
        yield given
        return
    fill_closed_streams()
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield own
    finally:
        os.dup2(own, 0)
        os.close(own)


@contextmanager
def _own_output(given: int | None) -> Iterator[int]:
    if given is not None:
        yield given
        return
    fill_closed_streams()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it is there until the end
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield own
    finally:
        os.dup2(own, 1)
        os.close(own)
