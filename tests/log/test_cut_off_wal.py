"""A write-ahead log that was cut off at its very end: the lost commits are noticed, and nothing else is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from outrider.errors import DamagedLogError
from outrider.log.sqlite.database import open_for_reading, open_for_writing
from outrider.log.sqlite.recovery import recover
from outrider.log.sqlite.wal import Tally, is_cut_off

FRAME = 24 + 4096

PROGRAM = """
import os, sys
from pathlib import Path
from outrider.log.sqlite.writer import Writer
writer = Writer(Path(sys.argv[1]), {}, lambda connection: None, 60)
writer.run(lambda c: c.execute("CREATE TABLE IF NOT EXISTS t (a)") and None)
for number in range(int(sys.argv[2])):
    writer.run(lambda c: c.execute("INSERT INTO t VALUES (?)", (number,)) and None)
"""


def written(path: Path, commits: int = 5, end: str = "os._exit(0)") -> None:
    """Write a log in another process, which ends without closing it."""
    subprocess.run([sys.executable, "-c", PROGRAM + end, str(path), str(commits)], check=True, timeout=60)


def count(path: Path) -> int:
    connection = open_for_reading(path)
    try:
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def wal(path: Path) -> Path:
    return path.with_name("log.db-wal")


def tally(path: Path) -> Path:
    return path.with_name("log.db-tally")


def test_a_log_that_was_killed_is_whole(path: Path) -> None:
    written(path)
    assert count(path) == 5
    assert tally(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("frames", [1, 2])
def test_commits_that_are_missing_at_the_end_are_noticed(path: Path, frames: int) -> None:
    written(path)
    os.truncate(wal(path), wal(path).stat().st_size - frames * FRAME)
    said = "the end of its write-ahead log is missing, with changes that were saved"
    with pytest.raises(DamagedLogError, match=said):
        open_for_reading(path)
    with pytest.raises(DamagedLogError, match=said):
        open_for_writing(path)


def test_recovery_goes_on_with_what_is_left(path: Path) -> None:
    written(path)
    os.truncate(wal(path), wal(path).stat().st_size - FRAME)
    recover(path.parent)
    assert count(path) == 4


def test_a_torn_commit_that_was_never_acknowledged_is_no_damage(path: Path) -> None:
    written(path)
    with wal(path).open("ab") as file:
        file.write(b"x" * 1000)
    assert count(path) == 5


def test_a_tally_that_lags_behind_is_no_damage(path: Path) -> None:
    written(path, 2)
    before = tally(path).read_bytes()
    written(path, 3)
    tally(path).write_bytes(before)  # killed between a commit and its tally
    assert count(path) == 5


@pytest.mark.parametrize("garbage", [b"", b"x", b"x" * 28, b"OTT1" + b"y" * 24])
def test_a_damaged_tally_says_nothing(path: Path, garbage: bytes) -> None:
    written(path)
    tally(path).write_bytes(garbage)
    assert count(path) == 5


def test_a_copy_with_an_older_log_is_no_damage(path: Path, tmp_path: Path) -> None:
    written(path, 2)
    folder = tmp_path / "copy"
    folder.mkdir()
    for each in (path, wal(path)):
        shutil.copy(each, folder)
    written(path, 3)  # while the copy is made
    shutil.copy(tally(path), folder)
    assert count(folder / "log.db") == 2


def test_a_new_round_of_the_log_is_no_damage(path: Path) -> None:
    written(path, 20)
    connection = open_for_writing(path)
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    assert not is_cut_off(path)
    connection.execute("INSERT INTO t VALUES (1)")  # an older version, which keeps no tally
    assert not is_cut_off(path)
    connection.close()
    assert count(path) == 21


def test_an_emptied_log_is_no_damage(path: Path) -> None:
    written(path)
    connection = open_for_writing(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert count(path) == 5


def test_a_log_that_was_closed_leaves_no_tally(path: Path) -> None:
    written(path, end="writer.close()")
    assert sorted(each.name for each in path.parent.iterdir()) == ["log.db"]


def test_a_reader_beside_writers_sees_no_damage(path: Path) -> None:
    written(path, 1)
    writer = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), "300"])
    looked = 0
    while writer.poll() is None or not looked:
        assert count(path) >= 1
        looked += 1
    assert writer.returncode == 0
    assert count(path) == 301


def test_a_folder_that_cannot_be_written_is_no_matter(tmp_path: Path) -> None:
    missing = Tally(tmp_path / "no/such/log.db")
    missing.record()
    missing.close()
    assert not is_cut_off(tmp_path / "no/such/log.db")


def commit_unseen(path: Path, folder: Path, size: int) -> None:
    """Leave a commit as a writer does that is killed before other connections hear of it: in the log alone.

    It goes where the commits end that connections see, over what an earlier such writer left there.
    """
    twin = folder / "log.db"
    shutil.copyfile(path, twin)
    seen = wal(path).read_bytes()[: 32 + _frames_seen(path) * FRAME]
    wal(twin).write_bytes(seen)
    with closing(sqlite3.connect(twin, isolation_level=None)) as connection:
        connection.execute("INSERT INTO t VALUES (zeroblob(?))", (size,))
        added = wal(twin).read_bytes()[len(seen) :]
        assert len(added) >= FRAME
    with wal(path).open("r+b") as file:
        file.seek(len(seen))
        file.write(added)


def _frames_seen(path: Path) -> int:
    frames: int = struct.unpack_from("=I", path.with_name("log.db-shm").read_bytes(), 16)[0]
    return frames


def test_writers_that_were_killed_one_after_the_other_leave_a_whole_log(path: Path, tmp_path: Path) -> None:
    with closing(open_for_writing(path)) as connection:  # keeps others from reading the log anew
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (1)")
        for number, pages in enumerate((9, 5, 1)):  # so each leaves the end of the one before
            (tmp_path / f"{number}").mkdir()
            commit_unseen(path, tmp_path / f"{number}", pages * 4096)
            assert count(path) == 1
        connection.execute("INSERT INTO t VALUES (2)")
        assert count(path) == 2


def test_commits_after_a_damaged_one_are_noticed(path: Path) -> None:
    written(path)
    first = wal(path).read_bytes()
    for frame in range(1, len(first) // FRAME - 2):
        data = bytearray(first)
        data[32 + frame * FRAME + 24 + 100] ^= 0xFF
        wal(path).write_bytes(data)
        tally(path).unlink(missing_ok=True)
        with pytest.raises(DamagedLogError, match="changes cannot be read"):
            count(path)
