"""LineSplitter on their way to a client that may be slow, or gone."""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import Callable
from contextlib import suppress

from outrider.tools.threads import Threads

SOFT_LIMIT = 256 * 1024
"""Above it the client is slow: what can wait should wait."""
HARD_LIMIT = 64 * 1024 * 1024
"""Above it the client counts as gone."""
STALL_SECONDS = 60.0
"""A slow client that takes nothing for so long counts as gone."""


class Writer:
    """Takes lines at once and writes them as the client takes them. It can be called, to write.

    Raises BrokenPipeError once the client is gone, which `gone` is told, once.
    """

    def __init__(
        self,
        descriptor: int,
        gone: Callable[[], None],
        *,
        soft: int = SOFT_LIMIT,
        hard: int = HARD_LIMIT,
        stall: float = STALL_SECONDS,
    ) -> None:
        self.drained: Callable[[], None] | None = None
        """Called when a client that was slow has caught up."""
        self.congested = False
        """Whether the client is slow: from more than 256 KiB that wait, until hardly anything does."""
        self._descriptor = descriptor
        self._gone = gone
        self._soft, self._hard, self._stall = soft, hard, stall
        self._buffer = bytearray()
        self._taken = 0
        self._is_gone = False
        self._emptied: asyncio.Event | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        return len(self._buffer)

    def __call__(self, data: bytes) -> None:
        """Write, now or when the client takes it."""
        if not self._is_gone:
            self._buffer += data
            self._push()
            self._measure()
        if self._is_gone:
            raise BrokenPipeError("the client is gone")

    async def flush(self, seconds: float) -> None:
        """Wait until all is written, or so long."""
        if not self.waiting or self._is_gone:
            return
        self._emptied = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._emptied.wait(), seconds)

    def close(self) -> None:
        """Write nothing more. The descriptor stays open: it belongs to whoever gave it."""
        self._is_gone = True
        self._buffer.clear()
        self._stop()
        if self._timer:
            self._timer.cancel()
        if self._emptied:
            self._emptied.set()

    def _push(self) -> None:
        """See to it that what waits is written."""
        raise NotImplementedError

    def _stop(self) -> None:
        """Do so no more."""
        raise NotImplementedError

    def _measure(self) -> None:
        if self.waiting > self._hard:
            self._lost()
        elif self.waiting > self._soft and not self.congested:
            self.congested = True
            self._watch()

    def _took(self, count: int) -> None:
        del self._buffer[:count]
        self._taken += count
        if not self._buffer and self._emptied:
            self._emptied.set()
        if self.congested and self.waiting <= self._soft // 4:
            self.congested = False
            if self._timer:
                self._timer.cancel()
            if self.drained:
                self.drained()

    def _watch(self) -> None:
        taken = self._taken

        def look() -> None:
            if self._taken == taken:
                self._lost()
            else:
                self._watch()

        self._timer = self._loop.call_later(self._stall, look)

    def _lost(self) -> None:
        if not self._is_gone:
            self.close()
            self._gone()


class PipeWriter(Writer):
    """For pipes and sockets, which tell when they take more.

    Not by a transport of asyncio: that closes itself as soon as something arrives on its socket, and a client may have
    one socket for both directions.
    """

    def __init__(self, descriptor: int, gone: Callable[[], None], **limits: float) -> None:
        super().__init__(descriptor, gone, **limits)  # type: ignore[arg-type]
        os.set_blocking(descriptor, False)
        self._waits = False
        self._due: asyncio.Handle | None = None
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        if self._is_pipe:  # the writing end is readable when nobody is at the other
            self._loop.add_reader(descriptor, self._lost)

    def _push(self) -> None:
        """At once; what comes in the same turn of the loop is written together at its end."""
        if not self._waits and self._due is None:
            self._due = self._loop.call_soon(self._write_rest)
            self._write()

    def _write_rest(self) -> None:
        self._due = None
        if self._buffer and not self._waits:
            self._write()

    def _write(self) -> None:
        try:
            count = os.write(self._descriptor, self._buffer)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError:
            self._lost()
            return
        self._took(count)
        self._wait(bool(self._buffer))

    def _wait(self, wanted: bool) -> None:
        if wanted != self._waits:
            self._waits = wanted
            if wanted:
                self._loop.add_writer(self._descriptor, self._write)
            else:
                self._loop.remove_writer(self._descriptor)

    def _stop(self) -> None:
        if self._due:
            self._due.cancel()
            self._due = None
        self._wait(False)
        if self._is_pipe:
            self._loop.remove_reader(self._descriptor)


class FileWriter(Writer):
    """For files and terminals: a thread writes what waits."""

    _writing: asyncio.Task[None] | None = None

    def _push(self) -> None:
        if self._writing is None:
            self._writing = self._loop.create_task(self._write())

    async def _write(self) -> None:
        threads = Threads()
        try:
            while piece := bytes(self._buffer[: self._soft]):
                self._took(await threads.run(_write, self._descriptor, piece))
        except OSError:
            self._lost()
        self._writing = None

    def _stop(self) -> None:
        if self._writing and self._writing is not asyncio.current_task():
            self._writing.cancel()


def _write(descriptor: int, data: bytes) -> int:
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:  # whoever shares the terminal has made it so
            select.select([], [descriptor], [])
