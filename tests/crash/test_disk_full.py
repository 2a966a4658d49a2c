"""The disk is full for a while: the run says so, nothing is lost, and the same session goes on when there is room."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import AttachmentError, LogError
from outrider.log.log import Log
from outrider.runtime.events import Event, Notice, ReplyDiscarded, TextDelta
from outrider.runtime.session import Session
from tests.crash.judge import faults_at_the_end, faults_of_lives, faults_of_requests, state_of
from tests.crash.ledger import lines_of
from tests.crash.nursery import Ended, Nursery
from tests.crash.script import OUTCOMES, PROMPTS, agent, converse, ended, show
from tests.crash.trial import Trial
from tests.lengths import only_long

CANCELLED = "The call was cancelled before it finished"
"""What calls may be answered with that were under way when the disk was full."""
NO_FILE = ("could not be attached", "The whole could not be stored")
"""What stands in place of a file that there was no room for."""
WHOLE = 2**30


class Disk:
    """Where the databases are. It can become full: truly, by a limit on their pages, or by an error in its place."""

    def __init__(self) -> None:
        self.commits_left = WHOLE
        """How many commits will be written before an error comes instead."""
        self._connections: list[sqlite3.Connection] = []
        self._connect = sqlite3.connect

    def connect(self, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        kind = type("Connection", (_Connection,), {"disk": self})
        connection: sqlite3.Connection = self._connect(*args, **kwargs, factory=kind)
        self._connections.append(connection)
        return connection

    def leave(self, pages: int) -> None:
        """Let the databases grow by so many pages, and no more."""
        for connection in self._connections:
            try:
                (count,) = connection.execute("PRAGMA page_count").fetchone()
                connection.execute(f"PRAGMA max_page_count={count + pages}")
            except sqlite3.ProgrammingError:  # closed
                continue

    def make_room(self) -> None:
        self.commits_left = WHOLE
        self.leave(WHOLE)

    def use(self) -> None:
        """A commit wants to be written."""
        if self.commits_left <= 0:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        self.commits_left -= 1


class _Connection(sqlite3.Connection):
    disk: Disk

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            self.disk.use()
        return super().execute(sql, *args)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(sqlite3, "connect", disk.connect)
    return disk


def open_session(log: Log, folder: Path, id: str | None = None) -> Session:
    return Session.open(log, id, agent(folder), observer=show(folder)).now()


async def faults_of(session: Session, log: Log, folder: Path, make_room: Callable[[], None]) -> list[str]:
    """What is wrong with a session that met a full disk, tried once more in vain, and went on when there was room."""
    discarded: list[Event] = []
    session.observe(lambda event: discarded.append(event) if isinstance(event, ReplyDiscarded) else None)
    for _ in range(2):
        result = await converse(session)
        if result.status == "done":
            break
        assert result.status == "error"
        assert "the disk is full" in result.error
        assert "Free some space" in result.error
    found = faults_of_lives(folder, [state_of(folder)])
    make_room()
    result = await converse(session)
    session.close()
    log.close()
    found += faults_of_lives(folder, [state_of(folder)])
    found += faults_at_the_end(folder, ended(session, result), excuses=(CANCELLED, *NO_FILE), discarded=len(discarded))
    repeated = Counter(mark["call"] for mark in lines_of(folder, "marks"))
    found += [f"{call} ran {count} times" for call, count in repeated.items() if count > 1]
    return [*found, *refusals(folder, session.id)]


def refusals(folder: Path, id: str) -> list[str]:
    """What providers would refuse. The oracles do not know how a note in a second text block is joined to the first."""
    return [fault for fault in faults_of_requests(folder, id) if not fault.endswith("'c2' does not have its text")]


@pytest.mark.parametrize("commits", [0, 1, 7, 13, 19, 25, *only_long(*({*range(26)} - {0, 1, 7, 13, 19, 25}))])
async def test_a_session_goes_on_after_the_disk_was_full_at_any_commit(
    disk: Disk, quick_folder: Path, commits: int
) -> None:
    log = Log(quick_folder / "log")
    session = open_session(log, quick_folder)
    disk.commits_left = commits
    assert await faults_of(session, log, quick_folder, disk.make_room) == []


@pytest.mark.parametrize("pages", range(6))
async def test_a_session_goes_on_after_the_database_could_not_grow(disk: Disk, quick_folder: Path, pages: int) -> None:
    log = Log(quick_folder / "log")
    session = open_session(log, quick_folder)
    disk.leave(pages)
    assert await faults_of(session, log, quick_folder, disk.make_room) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes where the log is."""
    folder = tmp_path / "log"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk of our own needs the right to mount one")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("kilobytes", [0, 16, 80, 320, *only_long(4, 8, 28, 40, 60, 120, 160, 240)])
async def test_a_session_goes_on_after_a_real_disk_was_full(small_disk: Path, tmp_path: Path, kilobytes: int) -> None:
    log = Log(small_disk)
    session = open_session(log, tmp_path)
    await session.think(PROMPTS[0])
    filler = small_disk / "filler"
    fill(filler, but=kilobytes * 1024)
    assert await faults_of(session, log, tmp_path, filler.unlink) == []


def fill(path: Path, but: int) -> None:
    """Have the disk full, but for so many bytes."""
    handle = os.open(path, os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        while True:
            os.write(handle, bytes(4096))
    os.truncate(handle, max(0, os.fstat(handle).st_size - but))
    os.close(handle)


async def test_a_file_that_finds_no_room_is_named_and_the_turn_goes_on(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Log(quick_folder / "log") as log, open_session(log, quick_folder) as session:
        with monkeypatch.context() as full:
            full.setattr(os, "replace", no_room)
            with pytest.raises(AttachmentError, match="No space left on device"):
                await session.run(PROMPTS[0])
            assert session.messages == [], "what could not be said whole was not said at all"
        await session.think(PROMPTS[0])
        events: list[Event] = []
        session.observe(events.append)
        with monkeypatch.context() as full:
            full.setattr(os, "replace", no_room)
            assert (await session.run()).status == "done"
        notices = [event.text for event in events if isinstance(event, Notice)]
        assert len(notices) == 3
        assert all("No space left on device" in text for text in notices)
        result = await converse(session)
        assert not list((quick_folder / "log" / "attachments").glob("incoming-*"))
    assert faults_of_lives(quick_folder, [state_of(quick_folder)]) == []
    assert faults_at_the_end(quick_folder, ended(session, result), excuses=NO_FILE) == []
    assert refusals(quick_folder, session.id) == []


async def test_a_session_cannot_be_taken_over_on_a_full_disk_and_can_when_there_is_room(
    disk: Disk, nursery: Nursery, quick_folder: Path
) -> None:
    trial = Trial(nursery, quick_folder)
    assert trial.live(kill_at="put has acted:1").killed
    with Log(quick_folder / "log") as log:
        (summary,) = log.sessions()
        disk.commits_left = 0
        with pytest.raises(LogError, match="the disk is full"):
            open_session(log, quick_folder, summary.id)
        disk.make_room()
        with Session.open(log, summary.id, agent(quick_folder, 2), observer=show(quick_folder, 2)) as session:
            last = ended(session, await converse(session))
    trial.states.append(state_of(quick_folder))
    assert trial.verdict(Ended(0, 0, last)) == []


async def test_a_session_that_was_closed_on_a_full_disk_can_be_opened_when_there_is_room(
    disk: Disk, quick_folder: Path
) -> None:
    with Log(quick_folder / "log") as log:
        session = open_session(log, quick_folder)
        await session.think(PROMPTS[0])
        disk.commits_left = 0
        with contextlib.suppress(LogError):
            session.close()
        disk.make_room()
        with contextlib.suppress(LogError):
            session.close()
        open_session(log, quick_folder, session.id).close()


async def test_a_session_whose_take_over_failed_half_way_can_be_opened_when_there_is_room(
    disk: Disk, nursery: Nursery, quick_folder: Path
) -> None:
    Trial(nursery, quick_folder).live(kill_at="put has acted:1")
    with Log(quick_folder / "log") as log:
        (summary,) = log.sessions()
        disk.commits_left = 1  # enough to take it, not to settle what was going on
        with pytest.raises(LogError, match="the disk is full"):
            open_session(log, quick_folder, summary.id)
        disk.make_room()
        open_session(log, quick_folder, summary.id).close()


async def test_a_reply_that_was_shown_and_could_not_be_written_is_taken_back(disk: Disk, quick_folder: Path) -> None:
    with Log(quick_folder / "log") as log, open_session(log, quick_folder) as session:
        events: list[Event] = []
        session.observe(events.append)
        disk.commits_left = 1  # enough for the prompt, not for the reply
        assert (await session.run(PROMPTS[0])).status == "error"
        disk.make_room()
        assert any(isinstance(event, TextDelta) for event in events)
        assert any(isinstance(event, ReplyDiscarded) for event in events)


async def test_calls_that_were_not_begun_on_a_full_disk_are_carried_out_when_there_is_room(
    disk: Disk, quick_folder: Path
) -> None:
    with Log(quick_folder / "log") as log, open_session(log, quick_folder) as session:
        await session.think(PROMPTS[0])
        await session.act()
        await session.think()
        disk.commits_left = 1  # for the intent of the first of three calls that go one by one
        with pytest.raises(LogError):
            await session.act()
        disk.make_room()
        results = (await session.act()).message.tool_results
        assert [result.text for result in results] == [OUTCOMES[call_id] for call_id in ("b1", "b2", "b3")]
