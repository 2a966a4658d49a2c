"""Writes lines to a client that may be slow or gone."""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import Callable
from contextlib import suppress

from outrider.tools.threads import Threads

SOFT_LIMIT = 256 * 1024
"""Buffered bytes above which the client is congested."""
HARD_LIMIT = 64 * 1024 * 1024
"""Buffered bytes above which the client counts as gone."""
STALL_SECONDS = 60.0
"""A congested client that reads nothing for so long counts as gone."""


class EditorWriter:
    """Buffers lines and writes them as fast as the client reads. Call it to write.

    A call raises BrokenPipeError once the client is gone. `on_gone` is called once when that is noticed.
    """

    def __init__(
        self,
        descriptor: int,
        on_gone: Callable[[], None],
        *,
        soft: int = SOFT_LIMIT,
        hard: int = HARD_LIMIT,
        stall: float = STALL_SECONDS,
    ) -> None:
        self.congested = False
        """Whether the client is slow: set above the soft limit, cleared at a quarter of it."""
        self._descriptor = descriptor
        self._on_gone = on_gone
        self._soft_limit, self._hard_limit, self._stall_seconds = soft, hard, stall
        self._buffer = bytearray()
        self._written = 0
        self._is_gone = False
        self._drained: asyncio.Event | None = None
        self._waiting: list[Callable[[], None]] = []
        """Callbacks for the end of congestion."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def buffered(self) -> int:
        """Bytes that are not written yet."""
        return len(self._buffer)

    def __call__(self, data: bytes) -> None:
        """Write the data now, or when the client reads."""
        if not self._is_gone:
            self._buffer += data
            self._start_writing()
            if len(self._buffer) > self._soft_limit:
                self._check_limits()
        if self._is_gone:
            raise BrokenPipeError("the client is gone")

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call back once, in the next iteration of the loop after congestion has ended, or in the next one."""
        if self.congested:
            self._waiting.append(callback)
        else:
            self._loop.call_soon(callback)

    async def flush(self, seconds: float) -> None:
        """Wait until everything is written, at most so many seconds."""
        if not self.buffered or self._is_gone:
            return
        self._drained = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._drained.wait()

    def close(self) -> None:
        """Stop writing. The descriptor stays open: it belongs to the caller."""
        self._is_gone = True
        self._buffer.clear()
        self._waiting.clear()
        self._stop_writing()
        if self._timer:
            self._timer.cancel()
        if self._drained:
            self._drained.set()

    def _start_writing(self) -> None:
        """Make sure that the buffer gets written."""
        raise NotImplementedError

    def _stop_writing(self) -> None:
        raise NotImplementedError

    def _check_limits(self) -> None:
        if self.buffered > self._hard_limit:
            self._handle_gone()
        elif not self.congested:
            self.congested = True
            self._watch_for_stall()

    def _mark_written(self, count: int) -> None:
        del self._buffer[:count]
        self._written += count
        if not self._buffer and self._drained:
            self._drained.set()
        if self.congested and self.buffered <= self._soft_limit // 4:
            self.congested = False
            if self._timer:
                self._timer.cancel()
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                self._loop.call_soon(callback)

    def _watch_for_stall(self) -> None:
        written = self._written

        def check() -> None:
            if self._written == written:
                self._handle_gone()
            else:
                self._watch_for_stall()

        self._timer = self._loop.call_later(self._stall_seconds, check)

    def _handle_gone(self) -> None:
        if not self._is_gone:
            self.close()
            self._on_gone()


class PipeWriter(EditorWriter):
    """For pipes and sockets, which can be polled.

    It does not use an asyncio transport: that closes itself when data arrives on its socket, and a client may use one
    socket for both directions.
    """

    def __init__(self, descriptor: int, on_gone: Callable[[], None], **limits: float) -> None:
        super().__init__(descriptor, on_gone, **limits)  # type: ignore[arg-type]
        os.set_blocking(descriptor, False)
        self._is_polling = False
        self._scheduled: asyncio.Handle | None = None
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        if self._is_pipe:  # the write end becomes readable when the read end is closed
            self._loop.add_reader(descriptor, self._handle_gone)

    def _start_writing(self) -> None:
        """Write now. Later data of the same iteration of the event loop is written together, at its end."""
        if not self._is_polling and self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._write_rest)
            self._write()

    def _write_rest(self) -> None:
        self._scheduled = None
        if self._buffer and not self._is_polling:
            self._write()

    def _write(self) -> None:
        try:
            count = os.write(self._descriptor, self._buffer)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError:
            self._handle_gone()
            return
        self._mark_written(count)
        if bool(self._buffer) != self._is_polling:
            self._poll(bool(self._buffer))

    def _poll(self, wanted: bool) -> None:
        if wanted != self._is_polling:
            self._is_polling = wanted
            if wanted:
                self._loop.add_writer(self._descriptor, self._write)
            else:
                self._loop.remove_writer(self._descriptor)

    def _stop_writing(self) -> None:
        if self._scheduled:
            self._scheduled.cancel()
            self._scheduled = None
        self._poll(False)
        if self._is_pipe:
            self._loop.remove_reader(self._descriptor)


class FileWriter(EditorWriter):
    """For files and terminals: a thread writes the buffer."""

    _writing: asyncio.Task[None] | None = None

    def _start_writing(self) -> None:
        if self._writing is None:
            self._writing = self._loop.create_task(self._write())

    async def _write(self) -> None:
        threads = Threads()
        try:
            while chunk := bytes(self._buffer[: self._soft_limit]):
                self._mark_written(await threads.run(_write, self._descriptor, chunk))
        except OSError:
            self._handle_gone()
        self._writing = None

    def _stop_writing(self) -> None:
        if self._writing and self._writing is not asyncio.current_task():
            self._writing.cancel()


def _write(descriptor: int, data: bytes) -> int:
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:  # another process that shares the terminal made it non-blocking
            select.select([], [descriptor], [])
