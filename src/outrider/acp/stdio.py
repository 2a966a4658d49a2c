"""Serves a connection over standard input and output, which are reserved for the protocol.

Nothing here blocks the event loop. Pipes and sockets are polled; files and terminals cannot be, so threads read and
write them.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Literal

from outrider.acp.connection import Connection
from outrider.acp.writer import EditorWriter, FileWriter, PipeWriter
from outrider.descriptors import reserved_input, reserved_output
from outrider.processes.signals import ENDING, on_signals
from outrider.tools.threads import Threads

Ending = Literal["closed", "gone", "signal"]
"""How serving ended: the client closed its end; the client is gone or stalled; a signal arrived."""

GRACE_SECONDS = 0.5
FLUSH_SECONDS = 5.0
_CHUNK = 256 * 1024


async def serve(
    connection_factory: Callable[[EditorWriter], Connection],
    *,
    input: int | None = None,
    output: int | None = None,
    on_end: Callable[[], Awaitable[None]] | None = None,
    signals: Iterable[signal.Signals] = ENDING,
    grace: float = GRACE_SECONDS,
) -> Ending:
    """Serve one client over two descriptors, by default standard input and output, until the client ends it.

    When the client closes its end, running requests have `grace` seconds to finish. Then `on_end` runs, in which the
    caller can stop its work, and the connection is closed. The first of `signals` also ends serving; the second has its
    previous effect. Cancelling this coroutine closes in the same order.
    """
    with _descriptors(input, output) as (source, target):
        end: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        finish = partial(_finish, end)
        writer = (PipeWriter if _can_poll(target) else FileWriter)(target, partial(finish, "gone"))
        connection = connection_factory(writer)
        stop_reading = await _start_reading(source, connection, partial(finish, "closed"))
        ending: Ending = "signal"
        with ExitStack() as handling:

            def on_signal(_: signal.Signals) -> None:
                handling.close()
                finish("signal")

            handling.enter_context(on_signals(on_signal, signals))
            try:
                ending = await end
            finally:
                stop_reading()
                await _end(ending, connection, writer, on_end, grace)
    return ending


async def _end(
    ending: Ending,
    connection: Connection,
    writer: EditorWriter,
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
        await asyncio.sleep(0)  # let the reader close and cancelled handlers start their cleanup


def _finish(end: asyncio.Future[Ending], ending: Ending) -> None:
    if not end.done():
        end.set_result(ending)


def _can_poll(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _start_reading(source: int, connection: Connection, closed: Callable[[], None]) -> Callable[[], object]:
    """Start to feed the connection. Return the function that stops it."""
    loop = asyncio.get_running_loop()
    if _can_poll(source):
        pipe = os.fdopen(os.dup(source), "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: _Reader(connection.feed, closed), pipe)
        return transport.close
    return loop.create_task(_read_file(source, connection, closed)).cancel


async def _read_file(source: int, connection: Connection, closed: Callable[[], None]) -> None:
    threads = Threads()
    with suppress(OSError):  # the terminal was hung up
        while data := await threads.run(_read, source):
            connection.feed(data)
    connection.feed(b"\n")
    closed()


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, _CHUNK)
        except BlockingIOError:  # another process that shares the terminal made it non-blocking
            select.select([source], [], [])


class _Reader(asyncio.Protocol):
    def __init__(self, feed: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        self._feed = feed
        self._closed = closed

    def data_received(self, data: bytes) -> None:
        self._feed(data)

    def eof_received(self) -> None:
        self._feed(b"\n")  # the last line may have no line end

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed()


@contextmanager
def _descriptors(input: int | None, output: int | None) -> Iterator[tuple[int, int]]:
    """Provide the descriptors, reserved if they are the standard streams; restore their blocking mode at the end."""
    with (
        nullcontext(input) if input is not None else reserved_input() as source,
        nullcontext(output) if output is not None else reserved_output() as target,
    ):
        blocking = {each: os.get_blocking(each) for each in (source, target)}
        try:
            yield source, target
        finally:
            for each, was in blocking.items():
                os.set_blocking(each, was)
