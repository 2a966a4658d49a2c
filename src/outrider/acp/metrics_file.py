"""The file of `outrider acp --metrics`: JSON lines with the counts of each session, written while it is open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from outrider.tools.threads import Threads

INTERVAL = 5.0
"""Seconds between two lines of a busy session. A killed process loses no more than this."""
CLOSE_TIMEOUT = 2.0
"""Seconds that `close` waits for a slow disk."""
Counts: TypeAlias = Callable[[], dict[str, Any]]


class MetricsFile:
    """Appends the counts of each session: every few seconds if they changed, on request, and when the session ends.

    A thread writes. If the disk is slow, a newer line of a session replaces its older one, so that the queue stays
    small. Write errors are ignored: metrics must not delay an editor.
    """

    def __init__(self, path: Path, interval: float = INTERVAL, close_timeout: float = CLOSE_TIMEOUT) -> None:
        self._path = path
        self._interval = interval
        self._close_timeout = close_timeout
        self._counts: dict[str, Counts] = {}
        self._last: dict[str, dict[str, Any]] = {}
        """The counts of the last line of each session."""
        self._pending: dict[tuple[str, bool], bytes] = {}
        self._threads = Threads()
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add_session(self, session: str, counts: Counts) -> None:
        """Start to write the counts of a session."""
        self._counts[session], self._last[session] = counts, counts()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._tick)

    def write(self, session: str) -> None:
        """Write the counts of a session now, if they have changed."""
        if session in self._counts:
            self._queue(session, is_ended=False)

    def end_session(self, session: str) -> None:
        """Write the last counts of a session."""
        if session in self._counts:
            self._queue(session, is_ended=True)
            del self._counts[session], self._last[session]

    async def close(self) -> None:
        """End every session, and wait a short time until all lines are written."""
        for session in list(self._counts):
            self.end_session(session)
        if self._timer:
            self._timer.cancel()
        if self._writing:
            await asyncio.wait([self._writing], timeout=self._close_timeout)

    def _tick(self) -> None:
        for session in self._counts:
            self._queue(session, is_ended=False)
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._tick) if self._counts else None

    def _queue(self, session: str, *, is_ended: bool) -> None:
        counts = self._counts[session]()
        if not is_ended and counts == self._last[session]:
            return
        self._last[session] = counts
        line = {"time": _now(), "session": session, "ended": is_ended, **counts}
        self._pending[session, is_ended] = msgspec.json.encode(line) + b"\n"
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._pending:
            lines, self._pending = b"".join(self._pending.values()), {}
            with suppress(OSError):
                await self._threads.run(append, self._path, lines)
        self._writing = None


def append(path: Path, data: bytes) -> None:
    """Append to a file, and create it readable by its owner only. Raises OSError, also for a pipe without a reader."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="milliseconds")
