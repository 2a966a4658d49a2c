"""The working folder of a session elsewhere, which can be rewound: snapshots are taken and kept there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from outrider.coding.hands.connection import HandsConnection
from outrider.coding.hands.requests import PlanRestore, Restore, SnapshotRecord, SnapshotTaken, TakeSnapshot
from outrider.errors import HandsError, LogError
from outrider.log.entries import RewindEntry, SnapshotEntry
from outrider.log.log import Log
from outrider.log.working_folder import FileChange, Timeline
from outrider.text.visible import safe_line

T = TypeVar("T")


class FolderElsewhere:
    """A `WorkingFolder` in the hands. The log here has the names of snapshots, the store there their contents."""

    def __init__(self, connection: HandsConnection, log: Log, session: str) -> None:
        self._connection = connection
        self._log = log
        self._session = session
        self._is_stale = False
        self._notices: list[str] = []

    def snapshot(self, *, opens: bool = False) -> SnapshotEntry | None:
        """Record what changed, and return the entry to write; None if the hands cannot."""
        request = TakeSnapshot(self._session, self._records(), opens, self._is_stale)
        try:
            taken = self._connection.ask_now(request, SnapshotTaken)
        except HandsError as error:
            self._is_stale = True
            self._notices.append(f"The files were not recorded for a rewind: {error}")
            return None
        self._is_stale = False
        self._notices += [safe_line(each[:1_000]) for each in taken.notices[:5]]
        entry = taken.entry
        if entry is None or not re.fullmatch("([0-9a-f]{64})?", entry.changes):
            return None
        return msgspec.structs.replace(entry, folder=self._label, opens=opens, restores=False)

    def forget(self) -> None:
        """Start the next snapshot from what the log has."""
        self._is_stale = True

    def take_notices(self) -> list[str]:
        """Return sentences for the user that came up since the last call."""
        taken, self._notices = self._notices, []
        return taken

    def timeline(self) -> Timeline:
        """Return the snapshots in the log. Their contents cannot be read here."""
        return Timeline(self._log.snapshots(self._session), self._label, self._log.snapshot_store)

    def changes(self, timeline: Timeline, point: int, *, diffs: bool = False) -> Sequence[FileChange]:
        """Return what must change to bring the folder from its newest snapshot to a point."""
        return self._asked(PlanRestore(self._session, self._records(), point, diffs), list[FileChange])

    def restore(self, timeline: Timeline, point: int, paths: Sequence[str]) -> dict[str, str]:
        """Bring these files to a point. Return those that could not be restored, with the reasons."""
        request = Restore(self._session, self._records(), point, tuple(paths))
        return self._asked(request, dict[str, str], repeats=False)

    def _asked(self, request: PlanRestore | Restore, kind: type[T], *, repeats: bool = True) -> T:
        try:
            return self._connection.ask_now(request, kind, repeats=repeats)
        except HandsError as error:
            raise LogError(f"the files cannot be restored: {error}") from None

    @property
    def _label(self) -> str:
        """The name of the folder in the log. It is no path of this machine, whatever the hands call it."""
        return f"{self._connection.place} {self._connection.open().folder}"

    def _records(self) -> tuple[SnapshotRecord, ...]:
        """Return the snapshots of this folder, and the rewinds, as the hands know them."""
        records, folder, label = [], self._connection.open().folder, self._label
        for record in self._log.snapshots(self._session):
            match record.entry:
                case SnapshotEntry(folder=name) as entry if name == label:
                    records.append(SnapshotRecord(record.seq, msgspec.structs.replace(entry, folder=folder)))
                case RewindEntry() as rewind:
                    records.append(SnapshotRecord(record.seq, rewind=rewind))
        return tuple(records)
