"""The seam between a session and the folder in which its tools work, and the folder's states, from its snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from outrider.log.entries import Record, RewindEntry, SnapshotEntry

if TYPE_CHECKING:
    from outrider.log.snapshot_store import Changes, FileState, SnapshotStore


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


class Timeline:
    """The snapshots of one folder, in order. A point is the index of a snapshot. Methods may raise LogError."""

    def __init__(self, records: Iterable[Record], folder: str, store: SnapshotStore) -> None:
        self._store = store
        self._snapshots: list[tuple[int, SnapshotEntry]] = []
        self._before_rewinds: list[int | None] = []
        """The point before each rewind that was not taken back; None for one that left the files alone."""
        restoring: int | None = None
        # The point before the first rewind since the last call. If there are several, all but the last were killed.
        for record in records:
            match record.entry:
                case SnapshotEntry(folder=name, opens=opens, restores=restores) if name == folder:
                    if opens and not (restores and restoring is not None):
                        restoring = len(self._snapshots) if restores else None
                    self._snapshots.append((record.seq, record.entry))
                case RewindEntry(undo=undo, files=files):
                    if undo:
                        del self._before_rewinds[-1:]
                    else:
                        self._before_rewinds.append(restoring if files else None)
                    restoring = None

    @property
    def has_snapshots(self) -> bool:
        """Whether there is any."""
        return bool(self._snapshots)

    @property
    def is_open(self) -> bool:
        """Whether calls were running after the newest snapshot, or the process stopped while they were."""
        return bool(self._snapshots) and self._snapshots[-1][1].opens

    @property
    def before_rewind(self) -> int | None:
        """The point before the newest rewind, if it restored files of this folder."""
        return self._before_rewinds[-1] if self._before_rewinds else None

    def after(self, seq: int) -> int | None:
        """Return the point before the first call that may have written after an entry; None if there was no call."""
        return next((point for point, (at, entry) in enumerate(self._snapshots) if at > seq and entry.opens), None)

    def state(self, point: int | None = None) -> dict[str, FileState]:
        """Return the files at a point, or at the newest one."""
        files: dict[str, FileState] = {}
        for _, entry in self._snapshots[: len(self._snapshots) if point is None else point + 1]:
            if entry.is_whole:
                files = {}
            for path, state in self._store.changes(entry.changes).items():
                if state is None:
                    files.pop(path, None)
                else:
                    files[path] = state
        return files

    def changed_by_others(self, point: int) -> set[str]:
        """Return the paths that changed after a point while no call was running."""
        return {path for changes, by_calls in self._changes_after(point) if not by_calls for path in changes}

    def versions(self, name: str) -> Iterator[dict[str, FileState]]:
        """Yield all files with a name, by their paths, after each snapshot in which one of them changed."""
        files: dict[str, FileState] = {}
        for _, entry in self._snapshots:
            changes = self._store.changes(entry.changes)
            named = {path: state for path, state in changes.items() if path.rpartition("/")[2] == name}
            before = {} if entry.is_whole else files
            files = {path: state for path, state in {**before, **named}.items() if state}
            if named:
                yield files

    def _changes_after(self, point: int) -> Iterable[tuple[Changes, bool]]:
        opened = self._snapshots[point][1].opens
        for _, entry in self._snapshots[point + 1 :]:
            if not entry.is_whole:  # such a list has files that did not change as well
                yield self._store.changes(entry.changes), opened
            opened = entry.opens
