"""Contents of files in snapshots, and the states of a folder over a session."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from outrider.errors import LogError
from outrider.log.entries import Entry, Record, RewindEntry, SnapshotEntry
from outrider.log.snapshot_store import REFRESH_SECONDS, Changes, FileState, SnapshotStore
from outrider.log.working_folder import Timeline


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


def file(content: bytes, number: int = 0) -> FileState:
    return FileState((stat.S_IFREG | 0o644, len(content), number, number, number), content.rjust(32))


def test_a_content_that_was_cut_off_is_written_again_and_never_read(store: SnapshotStore) -> None:
    digest = store.put(b"content")
    path = next(path for path in store.folder.rglob("*") if path.is_file())
    path.write_bytes(b"cont")
    with pytest.raises(LogError, match="missing or damaged"):
        store.read(digest)
    assert store.put(b"content") == digest
    assert store.read(digest) == b"content"


def test_a_content_that_is_used_again_counts_as_new(store: SnapshotStore) -> None:
    store.put(b"content")
    path = next(path for path in store.folder.rglob("*") if path.is_file())
    old = time.time() - 2 * REFRESH_SECONDS
    os.utime(path, (old, old))
    store.put(b"content")
    assert path.stat().st_mtime > old + REFRESH_SECONDS


def test_states_are_those_of_the_folder_and_a_whole_list_is_no_change(store: SnapshotStore) -> None:
    def snapshot(changes: Changes, folder: str = "/a", **how: bool) -> SnapshotEntry:
        return SnapshotEntry(folder, store.put_changes(changes), len(changes), **how)

    one, two = file(b"one"), file(b"two")
    entries: list[Entry] = [
        snapshot({"kept": one, "gone": one}, is_whole=True, opens=True),
        snapshot({"elsewhere": two}, "/b"),
        snapshot({"gone": None, "made": two}),
        snapshot({"kept": two}),
        snapshot({"kept": two, "late": one}, is_whole=True, opens=True, restores=True),
        RewindEntry(1, 1, files=True),
    ]
    records = [Record(seq, 0.0, entry) for seq, entry in enumerate(entries, 1)]
    timeline = Timeline(records, "/a", store)
    assert timeline.state(0) == {"kept": one, "gone": one}
    assert timeline.state(1) == {"kept": one, "made": two}
    assert timeline.state() == {"kept": two, "late": one}
    assert timeline.changed_by_others(0) == {"kept"}  # the calls made the first change, and the last list is whole
    assert timeline.before_rewind == 3
    assert Timeline(records, "/c", store).has_snapshots is False
