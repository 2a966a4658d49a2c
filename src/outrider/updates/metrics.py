"""What the update engine saved: how much was wanted, how much was sent, and what became of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from outrider.text import counted, human_size

_ENVELOPE = 150
"""Bytes around the fields of an update, as long as none was sent."""


class Metrics:
    """Counts of one engine, or of several together. Fields are told by estimate, what was sent in all exactly."""

    def __init__(self) -> None:
        self.updates_wanted = 0
        """One for each announcement, change, piece of output and end that an observer was to hear of."""
        self.updates_sent = 0
        self.bytes_sent = 0
        self.wanted: Counter[str] = Counter()
        """Bytes by field, had every change been told by sending the whole call."""
        self.sent: Counter[str] = Counter()
        """Bytes by field, as they were sent."""
        self.coalesced = 0
        """Changes that went out together with an earlier one."""
        self.suppressed = 0
        """Changes that changed nothing."""
        self.refused = 0
        """Changes that came after the end of their call, led back, or named a call that nobody announced."""
        self.failed = 0
        """Sends that failed; what they carried was sent again later."""
        self.detecting: float | None = None
        """Seconds spent finding differences, where that was asked for."""
        self._around = 0
        self._measured = 0

    def count_sent(self, sizes: Mapping[str, int], size: int) -> None:
        """One update that was written: the sizes of its fields as they were estimated, and the bytes that it took."""
        self.updates_sent += 1
        self.bytes_sent += size
        fields = 0
        for name, bytes_of_field in sizes.items():
            self.sent[name] += bytes_of_field
            fields += bytes_of_field
        if "content" not in sizes:  # the estimate of large content is too coarse to find the envelope by it
            self._around += size - fields
            self._measured += 1

    def count_detecting(self, seconds: float) -> None:
        """So long it took to find a difference, or that there is none."""
        self.detecting = (self.detecting or 0.0) + seconds

    @property
    def bytes_wanted(self) -> int:
        """What a whole call for every change would have taken."""
        around = self._around / self._measured if self._measured else _ENVELOPE
        return self.wanted.total() + round(self.updates_wanted * around)

    @property
    def bytes_saved(self) -> int:
        """What was wanted and did not have to be sent."""
        return self.bytes_wanted - self.bytes_sent

    @property
    def share_saved(self) -> float:
        """The part that was saved of what was wanted."""
        return self.bytes_saved / self.bytes_wanted if self.bytes_wanted else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        fields = sorted(self.wanted.keys() | self.sent.keys())
        return {
            "updates": {"wanted": self.updates_wanted, "sent": self.updates_sent},
            "bytes": {"wanted": self.bytes_wanted, "sent": self.bytes_sent, "saved": self.bytes_saved},
            "fields": {name: self._field(name) for name in fields},
            "coalesced": self.coalesced,
            "suppressed": self.suppressed,
            "refused": self.refused,
            "failed": self.failed,
            **({} if self.detecting is None else {"seconds_detecting": self.detecting}),
        }

    def _field(self, name: str) -> dict[str, int]:
        wanted, sent = self.wanted[name], self.sent[name]
        return {"wanted": wanted, "sent": sent, "saved": wanted - sent}

    @classmethod
    def merged(cls, several: Iterable[Metrics]) -> Metrics:
        """The counts of several engines together."""
        total = cls()
        for one in several:
            for name, value in vars(one).items():
                if name == "detecting":
                    total.detecting = value if total.detecting is None else total.detecting + (value or 0.0)
                else:
                    setattr(total, name, getattr(total, name) + value)
        return total

    def __str__(self) -> str:
        said = [
            f"{counted(self.updates_sent, 'update')} for {counted(self.updates_wanted, 'change')} of tool calls: "
            f"{human_size(self.bytes_sent)} sent, {human_size(max(0, self.bytes_saved))} saved "
            f"({max(0.0, self.share_saved):.0%} of what whole calls would have taken).",
            f"{self.coalesced:,} coalesced, {self.suppressed:,} without a difference, {self.refused:,} refused, "
            f"{counted(self.failed, 'failed send')}.",
        ]
        if self.detecting is not None:
            said.append(f"Finding differences took {self.detecting * 1e3:.1f} ms.")
        return " ".join(said)


class Ledger:
    """The sizes of one call's fields, and how often a whole call would have carried them.

    A change is one addition: what was wanted of a field is worked out when its size changes, or when it is asked for.
    """

    __slots__ = ("_counted", "_since", "changes", "sizes")

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.changes = self._counted = 0
        self.sizes = dict(sizes)
        self._since: dict[str, int] = {}

    def resize(self, field: str, size: int, metrics: Metrics) -> None:
        """The field has this size from the next change on."""
        before = self.sizes.get(field, 0)
        if before != size:
            metrics.wanted[field] += before * (self.changes - self._since.get(field, 0))
            self._since[field] = self.changes
            self.sizes[field] = size

    def settle(self, metrics: Metrics) -> None:
        """Count what was wanted up to now."""
        metrics.updates_wanted += self.changes - self._counted
        self._counted = self.changes
        for field, size in self.sizes.items():
            metrics.wanted[field] += size * (self.changes - self._since.get(field, 0))
            self._since[field] = self.changes
