"""The counts of the update engine: changes and updates, bytes, rates and patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from outrider.text import counted, human_size

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
        """Return the counts as JSON."""
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
