"""The seam between a session and the folder in which its tools work, for snapshots and rewinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from outrider.log.entries import SnapshotEntry
from outrider.log.timeline import Timeline


class FileChange(msgspec.Struct, frozen=True):
    """What a rewind does to one file."""

    path: str
    """The path from the working folder."""
    action: str
    """`create`, `change` or `delete`."""
    is_conflict: bool = False
    """Whether someone else changed the file since."""
    is_kept: bool = True
    """Whether the snapshots have its content. If not, the rewind leaves the file as it is."""
    diff: str = ""
    """A unified diff from the present content to the restored one, for text."""


class WorkingFolder(Protocol):
    """A folder whose state can be recorded and restored. Its methods block, and raise only LogError."""

    def snapshot(self, *, opens: bool = False) -> SnapshotEntry | None:
        """Record what changed, before calls that may write if `opens`. Return the entry; None for a large folder."""

    def forget(self) -> None:
        """Start the next snapshot from what the log has: the last one was not stored. Does not block."""

    def take_notices(self) -> list[str]:
        """Return sentences for the user that came up since the last call."""

    def timeline(self) -> Timeline:
        """Return the snapshots in the log."""

    def changes(self, timeline: Timeline, point: int, *, diffs: bool = False) -> Sequence[FileChange]:
        """Return what must change to bring the folder from its newest snapshot to a point."""

    def restore(self, timeline: Timeline, point: int, paths: Sequence[str]) -> dict[str, str]:
        """Bring these files to a point. Return those that could not be restored, with the reasons."""
