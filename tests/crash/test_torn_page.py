"""A commit that reached the disk in part, as when the power fails, never was; all that came before it is whole."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from outrider.errors import DamagedLogError
from outrider.log.entries import Record
from outrider.log.log import Log
from tests.crash.judge import state_of
from tests.crash.nursery import Nursery
from tests.crash.trial import Trial
from tests.lengths import only_long

HEADER, FRAME_HEADER = 32, 24


class Frame(NamedTuple):
    """A page in the write-ahead log."""

    start: int
    end: int
    page: int
    commits: bool
    """Whether it is the last of a transaction."""


def frames_of(log: bytes) -> list[Frame]:
    """The frames of the file, by SQLite's description of its format."""
    (page_size,) = struct.unpack(">I", log[8:12])
    size = FRAME_HEADER + page_size
    starts = range(HEADER, len(log) - size + 1, size)
    heads = (struct.unpack(">II", log[start : start + 8]) for start in starts)
    return [Frame(start, start + size, page, pages > 0) for start, (page, pages) in zip(starts, heads, strict=True)]


def last_commit(frames: list[Frame]) -> tuple[int, int]:
    """Where it begins and where it ends."""
    ends = [frame.end for frame in frames if frame.commits]
    return ([HEADER, *ends])[-2], ends[-1]


def wal_of(folder: Path) -> Path:
    return folder / "log" / "log.db-wal"


def cut(path: Path, at: int) -> None:
    path.write_bytes(path.read_bytes()[:at])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("commit", [2, 9, 16, 22, *only_long(*({*range(2, 23)} - {2, 9, 16, 22}))])
def test_a_commit_that_was_torn_before_it_was_acknowledged_never_was(
    nursery: Nursery, quick_folder: Path, commit: int
) -> None:
    """The process dies when the commit is on disk and nobody has been told: its tail may be missing as well.

    There are more commits than these, but not always: what waits at the same moment is committed together.
    """
    whole = Trial(nursery, quick_folder / "whole")
    assert whole.live(kill_at=f"after COMMIT:{commit}").killed
    start, end = last_commit(frames_of(wal_of(whole.folder).read_bytes()))
    somewhere = random.Random(commit)
    for number, damage in enumerate([cut, flip, cut]):
        trial = whole.copy(quick_folder / str(number))
        damage(wal_of(trial.folder), end - 1 if number == 2 else somewhere.randrange(start, end))
        trial.states[0] = state_of(trial.folder)
        assert trial.states[0] == whole.states[0][: len(trial.states[0])]
        assert trial.verdict(trial.live()) == []


@pytest.mark.long
def test_wherever_the_write_ahead_log_ends_the_session_stands_as_after_the_last_whole_commit(
    nursery: Nursery, quick_folder: Path
) -> None:
    trial = Trial(nursery, quick_folder / "trial")
    assert trial.live(kill_at="before RunFinished is shown:2").killed
    frames = frames_of(wal_of(trial.folder).read_bytes())
    ends = [HEADER, *(frame.end for frame in frames if frame.commits)]
    states = [state_after(trial.folder, end) for end in ends]
    assert [len(state) for state in states] == sorted(len(state) for state in states)
    assert states[-1] == trial.states[0]
    for frame in frames:
        for at in (frame.start + 1, frame.start + FRAME_HEADER, frame.end - 1):
            expected = states[max(number for number, end in enumerate(ends) if end <= at)]
            assert state_after(trial.folder, at) == expected, f"cut at {at} of {frame}"
            assert expected == trial.states[0][: len(expected)]


def state_after(folder: Path, at: int) -> list[Record]:
    """What the session would be if the write-ahead log ended there."""
    copy = folder / "cut"
    shutil.rmtree(copy, ignore_errors=True)
    (copy / "log").mkdir(parents=True)
    shutil.copyfile(folder / "log" / "log.db", copy / "log" / "log.db")
    shutil.copyfile(wal_of(folder), wal_of(copy))
    cut(wal_of(copy), at)
    return state_of(copy)


@pytest.mark.parametrize("commit", [8, 15, 22])
def test_pages_that_were_torn_on_their_way_into_the_database_are_still_in_the_write_ahead_log(
    nursery: Nursery, quick_folder: Path, commit: int
) -> None:
    trial = Trial(nursery, quick_folder / "trial")
    assert trial.live(kill_at=f"after COMMIT:{commit}").killed
    log = wal_of(trial.folder).read_bytes()
    with (trial.folder / "log" / "log.db").open("r+b") as database:
        for frame in frames_of(log):
            page = log[frame.start + FRAME_HEADER : frame.end]
            database.seek((frame.page - 1) * len(page))
            database.write(page[: len(page) // 2] + bytes(len(page) // 4))
    assert state_of(trial.folder) == trial.states[0]
    assert trial.verdict(trial.live()) == []


def test_a_database_without_its_end_says_that_it_is_damaged_and_never_shows_less(
    nursery: Nursery, quick_folder: Path
) -> None:
    trial = Trial(nursery, quick_folder / "trial")
    trial.live()
    path = trial.folder / "log" / "log.db"
    whole = path.read_bytes()
    said: list[str] = []
    for at in range(len(whole) - 1, len(whole) - 5 * 4096, -1000):
        path.write_bytes(whole[:at])
        log = Log(path.parent)
        try:
            assert list(log.records(log.sessions()[0].id)) == trial.states[0]
        except DamagedLogError as error:
            said.append(str(error))
    assert said
    assert all("outrider sessions recover" in text for text in said)
