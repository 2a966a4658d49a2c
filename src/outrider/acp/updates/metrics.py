"""What updates cost and save: counted in the process, and written to a file."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from outrider.text import counted, human_size
from outrider.tools.threads import Threads

_ENVELOPE = 150
"""Estimated bytes around the fields of an update, before any was sent."""


class Metrics:
    """Counts of one engine. `bytes_sent` is exact; bytes by field and wanted bytes are estimates."""

    def __init__(self) -> None:
        self.updates_wanted = 0
        """Announcements, changes, pieces of output and ends."""
        self.updates_sent = 0
        self.bytes_sent = 0
        self.wanted: Counter[str] = Counter()
        """Bytes by field, if every change had sent the whole call."""
        self.sent: Counter[str] = Counter()
        """Bytes by field that were sent."""
        self.coalesced = 0
        """Changes that were sent together with an earlier one."""
        self.suppressed = 0
        """Changes without a difference."""
        self.refused = 0
        """Changes of a finished or unknown call, and changes of a status back to an earlier one."""
        self.failed = 0
        """Sends that failed and were retried."""
        self.patterns: Counter[str] = Counter()
        """Updates by their fields: `call` for an announcement, else names such as `status+content`."""
        self.detecting = 0.0
        """Seconds spent on finding differences."""
        self.busy_seconds = 0
        """Seconds of the clock in which an update was sent."""
        self.most_in_a_second = 0
        """Updates in the busiest second."""
        self._second = -1
        self._in_second = 0
        self._around = 0
        self._measured = 0

    def count_sent(self, sizes: Mapping[str, int], size: int, now: float, *, is_new: bool = False) -> None:
        """Count a sent update: the estimated sizes of its fields, and its exact size."""
        self.updates_sent += 1
        self.bytes_sent += size
        self.patterns["call" if is_new else "+".join(sizes)] += 1
        self._count_second(int(now))
        fields = 0
        for name, bytes_of_field in sizes.items():
            self.sent[name] += bytes_of_field
            fields += bytes_of_field
        if "content" not in sizes:  # the estimate of large content is too coarse to compute the envelope
            self._around += size - fields
            self._measured += 1

    def _count_second(self, second: int) -> None:
        if second != self._second:
            self._second, self._in_second = second, 0
            self.busy_seconds += 1
        self._in_second += 1
        self.most_in_a_second = max(self.most_in_a_second, self._in_second)

    @property
    def bytes_wanted(self) -> int:
        """The bytes that a whole call for every change would have taken."""
        around = self._around / self._measured if self._measured else _ENVELOPE
        return self.wanted.total() + round(self.updates_wanted * around)

    @property
    def bytes_saved(self) -> int:
        """The bytes that did not have to be sent."""
        return self.bytes_wanted - self.bytes_sent

    @property
    def share_saved(self) -> float:
        """The saved share of the wanted bytes."""
        return self.bytes_saved / self.bytes_wanted if self.bytes_wanted else 0.0

    def as_dict(self) -> dict[str, Any]:
        fields = sorted(self.wanted.keys() | self.sent.keys())
        return {
            "updates": {"wanted": self.updates_wanted, "sent": self.updates_sent},
            "rate": {
                "busy_seconds": self.busy_seconds,
                "mean": round(self.updates_sent / max(1, self.busy_seconds), 2),
                "most": self.most_in_a_second,
            },
            "patterns": dict(self.patterns.most_common()),
            "bytes": {"wanted": self.bytes_wanted, "sent": self.bytes_sent, "saved": self.bytes_saved},
            "fields": {name: self._field(name) for name in fields},
            "coalesced": self.coalesced,
            "suppressed": self.suppressed,
            "refused": self.refused,
            "failed": self.failed,
            "seconds_detecting": round(self.detecting, 6),
        }

    def _field(self, name: str) -> dict[str, int]:
        wanted, sent = self.wanted[name], self.sent[name]
        return {"wanted": wanted, "sent": sent, "saved": wanted - sent}

    def __str__(self) -> str:
        return (
            f"{counted(self.updates_sent, 'update')} for {counted(self.updates_wanted, 'change')} of tool calls: "
            f"{human_size(self.bytes_sent)} sent, {human_size(max(0, self.bytes_saved))} saved "
            f"({max(0.0, self.share_saved):.0%} of what whole calls would have taken). "
            f"{self.coalesced:,} coalesced, {self.suppressed:,} without a difference, {self.refused:,} refused, "
            f"{counted(self.failed, 'failed send')}. Finding differences took {self.detecting * 1e3:.1f} ms."
        )


class SizeLedger:
    """The sizes of one call's fields, and how often they would have been sent with whole calls.

    A change only increments a counter. Wanted bytes are computed when a size changes, or when they are read.
    """

    __slots__ = ("_counted", "_since", "changes", "sizes")

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.changes = self._counted = 0
        self.sizes = dict(sizes)
        self._since: dict[str, int] = {}

    def resize(self, field: str, size: int, metrics: Metrics) -> None:
        """Set the size of a field from the next change on."""
        before = self.sizes.get(field, 0)
        if before != size:
            metrics.wanted[field] += before * (self.changes - self._since.get(field, 0))
            self._since[field] = self.changes
            self.sizes[field] = size

    def settle(self, metrics: Metrics) -> None:
        """Add the wanted bytes up to now to the metrics."""
        metrics.updates_wanted += self.changes - self._counted
        self._counted = self.changes
        for field, size in self.sizes.items():
            metrics.wanted[field] += size * (self.changes - self._since.get(field, 0))
            self._since[field] = self.changes


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
