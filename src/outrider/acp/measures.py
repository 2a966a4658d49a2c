"""A file in which it is written what was sent to an editor, while its sessions live: one line of JSON at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from outrider.tools.threads import Threads

EVERY_SECONDS = 5.0
"""Between two lines of a session in which something happens: at most this is lost when the process is killed."""
PATIENCE_SECONDS = 2.0
"""How long the end of the agent waits for a disk that does not answer."""
Counts: TypeAlias = Callable[[], dict[str, Any]]


class Measures:
    """The counts of each session: every few seconds if they have changed, when they are asked for, and at its end.

    A thread writes. If it is slow, a session's older line gives way to its newer one, so that nothing piles up. What
    cannot be written is left out: no disk is a reason to keep an editor waiting.
    """

    def __init__(self, path: Path, every: float = EVERY_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        self._path = path
        self._every = every
        self._patience = patience
        self._counts: dict[str, Counts] = {}
        self._written: dict[str, dict[str, Any]] = {}
        """The counts of the last line of each session."""
        self._waiting: dict[tuple[str, bool], bytes] = {}
        self._threads = Threads()
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, session: str, counts: Counts) -> None:
        """Write down from now on what the session counts."""
        self._counts[session], self._written[session] = counts, counts()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._every, self._tick)

    def write(self, session: str) -> None:
        """Write the counts of a session now, if they have changed."""
        if session in self._counts:
            self._put(session, is_ended=False)

    def end(self, session: str) -> None:
        """Write the last counts of a session."""
        if session in self._counts:
            self._put(session, is_ended=True)
            del self._counts[session], self._written[session]

    async def close(self) -> None:
        """End every session, and wait until all is written, but not for long."""
        for session in list(self._counts):
            self.end(session)
        if self._timer:
            self._timer.cancel()
        if self._writing:
            await asyncio.wait([self._writing], timeout=self._patience)

    def _tick(self) -> None:
        for session in self._counts:
            self._put(session, is_ended=False)
        self._timer = asyncio.get_running_loop().call_later(self._every, self._tick) if self._counts else None

    def _put(self, session: str, *, is_ended: bool) -> None:
        counts = self._counts[session]()
        if not is_ended and counts == self._written[session]:
            return
        self._written[session] = counts
        line = {"time": _now(), "session": session, "ended": is_ended, **counts}
        self._waiting[session, is_ended] = msgspec.json.encode(line) + b"\n"
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._waiting:
            lines, self._waiting = b"".join(self._waiting.values()), {}
            with suppress(OSError):
                await self._threads.run(append, self._path, lines)
        self._writing = None


def append(path: Path, data: bytes) -> None:
    """Add to a file, which is made for its owner alone. Raises OSError; a pipe that nobody reads is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="milliseconds")
