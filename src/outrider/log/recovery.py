"""A damaged log made whole again: every entry that is still as it was written goes into a new file.

All looking is done on a copy, and the damaged files are put aside as they were, for those who want to look again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

import msgspec

from outrider.conversation.messages import Usage
from outrider.errors import DamagedLogError, LogError, NewerLogError
from outrider.filesystem import sync_folder
from outrider.log.database import MIGRATIONS, in_words, open_for_reading, open_for_writing, refuse_folder
from outrider.log.entries import SessionRecovered, SessionStarted, encode
from outrider.log.holder import STALE_SECONDS
from outrider.log.rows import INSERT, Extent, Row, is_whole, known_records, read_rows, row
from outrider.log.salvage import salvage
from outrider.log.summary import SessionRow, find
from outrider.log.tally import Tally, references

NAMED = 100
"""How many lost entries are named one by one."""
MOST_LOST = 100_000
"""How many entries may be gone from the end of a session; a claim of more is itself damage."""
MOST_VERSIONS = 1_000
"""A file format beyond that is not a newer one, but a flipped bit."""


class Recovery(msgspec.Struct, frozen=True):
    """What was saved, and what was not."""

    sessions: int
    entries: int
    lost: dict[str, int]
    """How many entries are gone, for each session that lost any."""
    aside: Path | None
    """Where the damaged file is now; None if nothing was wrong."""


def recover(folder: Path) -> Recovery:
    """Look at every entry of the log in a folder; if any is not whole, make a new log of those that are."""
    path = folder / "log.db"
    with in_words(path, "read"):
        if not path.exists():
            raise LogError(f"there is no log in {folder}")
        refuse_folder(path)
        with tempfile.TemporaryDirectory(prefix="recover-", dir=folder) as scratch:
            copy = Path(scratch, "log.db")
            for each in _files(path):
                shutil.copy2(each, scratch)
            copy.with_name("log.db-shm").unlink(missing_ok=True)  # made anew out of the others
            return _recover(path, copy)


def _recover(path: Path, copy: Path) -> Recovery:
    before = _Before(copy, path)
    before.check_unused()
    if before.count is not None:
        return Recovery(len(before.sessions or ()), before.count, {}, None)
    fresh = copy.with_name("new.db")
    with closing(open_for_writing(fresh)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        rebuilding = _Rebuilding(connection, before)
        rebuilding.save(copy)
        found = rebuilding.finish()
        if not found.entries and before.is_foreign:
            assert before.error
            raise before.error
        connection.execute("COMMIT")
    return msgspec.structs.replace(found, aside=_swap(path, fresh))


class _Before:
    """What can be known of the log as it is."""

    def __init__(self, copy: Path, path: Path) -> None:
        self.sessions: dict[int, SessionRow] | None = None
        """The table of sessions; None if it cannot be read."""
        self.references: dict[int, set[str]] = {}
        self.knows_references = False
        self.knows_what_was_deleted = False
        """Whether the table of sessions is whole: one that is not there was deleted then."""
        self.count: int | None = None
        """How many entries there are, if each of them and the file around them is whole."""
        self.error: LogError | None = None
        try:
            with closing(open_for_reading(copy)) as connection, in_words(path, "read"):
                self.sessions = {found.number: found for found in find(connection, "1")}
                self.knows_what_was_deleted = _is_whole_table_of_sessions(connection)
                self.knows_references = connection.execute("PRAGMA integrity_check(reference)").fetchone() == ("ok",)
                self.references = {number: references(connection, number) for number in self.sessions}
                self.count = self._count(connection)
        except LogError as error:
            self.error = type(error)(str(error).replace(str(copy), str(path)))
            if isinstance(error, NewerLogError) and len(MIGRATIONS) < _version(copy) <= MOST_VERSIONS:
                raise self.error from None

    @property
    def is_foreign(self) -> bool:
        """Whether it looks like something else than a log, and not like a damaged one."""
        return self.error is not None and not isinstance(self.error, DamagedLogError)

    def check_unused(self) -> None:
        """Raises LogError if a session is open somewhere."""
        for each in (self.sessions or {}).values():
            holder = each.summary.holder
            lives = holder.lives() if holder else False
            if lives is None:
                lives = abs(time.time() - each.beaten) < STALE_SECONDS
            if lives:
                raise LogError(f"the log is in use: {holder}. Close the sessions there first")

    def _count(self, connection: sqlite3.Connection) -> int:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise DamagedLogError("the file around the entries is not whole")
        if connection.execute("SELECT 1 FROM event WHERE session NOT IN (SELECT number FROM session)").fetchone():
            raise DamagedLogError("there are entries of no session")
        if connection.execute("SELECT 1 FROM reference WHERE session NOT IN (SELECT number FROM session)").fetchone():
            raise DamagedLogError("there are files of no session")
        return sum(self._count_in(session, connection) for session in (self.sessions or {}).values())

    def _count_in(self, session: SessionRow, connection: sqlite3.Connection) -> int:
        count, last, tally = 0, 0, Tally()
        for record in known_records(read_rows(connection, session.extent)):
            count, last = count + 1, record.seq
            tally.take(record.entry, 0)
        if (count, last) != (session.entries, session.summary.last):
            raise DamagedLogError("a session does not have the entries that it should have")
        if not references(connection, session.number) <= set(tally.files):
            raise DamagedLogError("a session refers to a file that never came into it")
        return count


class _Rebuilding:
    """A new log on its way: first the entries, then what follows from them."""

    def __init__(self, connection: sqlite3.Connection, before: _Before) -> None:
        self._connection = connection
        self._known = before.sessions
        self._before = before
        self._ids: set[str] = set()

    def save(self, path: Path) -> None:
        """Take every entry that is whole: as SQLite reads it, then as its bytes lie in the file."""
        for each in chain(_read_by_sqlite(path), salvage(path, is_whole)):
            # Without a whole table of sessions nobody knows which were deleted: then all that is found counts.
            if not self._before.knows_what_was_deleted or each[0] in (self._known or ()):
                self._connection.execute(INSERT.replace("INSERT", "INSERT OR IGNORE"), each)

    def finish(self) -> Recovery:
        """Write the table of sessions anew."""
        query = "SELECT session FROM event GROUP BY session ORDER BY max(time)"
        numbers = [number for (number,) in self._connection.execute(query).fetchall()]
        entries = 0
        lost: dict[str, int] = {}
        for rank, number in enumerate(numbers, 1):
            name, count, gone = self._session(number, rank)
            entries += count
            if gone:
                lost[name] = gone
        for number, old in (self._known or {}).items():
            if number not in numbers and old.summary.id not in self._ids:
                lost[old.summary.id] = old.summary.last
        return Recovery(len(numbers), entries, lost, None)

    def _session(self, number: int, rank: int) -> tuple[str, int, int]:
        """Write one row of it: the session's id, how many entries it has, and how many are gone."""
        old = (self._known or {}).get(number)
        found = _Remains(old.summary.id if old else "")
        for record in known_records(read_rows(self._connection, Extent(number, 0, gapless=False))):
            found.take(record.seq, record.time, record.entry)
        gone = found.lost(old.summary.last if old else 0)
        last = found.last
        if gone.count or not old or not self._before.knows_what_was_deleted:
            last = gone.last + 1
            self._connection.execute(INSERT, row(number, last, time.time(), *encode(gone.entry)))
            found.tally.take(gone.entry, 0)
        name = found.began.session if found.began.session not in self._ids else ""
        name = name or os.urandom(16).hex()
        self._ids.add(name)
        self._connection.execute(
            "INSERT INTO session (number, id, parent, created, updated, opened, fence) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, name, found.began.parent, *found.times, rank, (old.fence if old else 0) + 1),
        )
        readable = self._before.references.get(number, set())
        if old and self._before.knows_references and readable <= set(found.tally.files):
            found.tally.files = [*readable]  # not every file that is mentioned ever came with its bytes
        found.tally.add_to(self._connection, number, last)
        self._connection.execute("UPDATE session SET updated = ? WHERE number = ?", (found.times[1], number))
        return name, found.count, gone.count


class _Lost(msgspec.Struct, frozen=True):
    """What is gone from a session."""

    entry: SessionRecovered
    count: int
    last: int
    """The highest number that the session ever had, as far as one can tell."""


class _Remains:
    """What is there of one session."""

    def __init__(self, name: str) -> None:
        self.tally = Tally()
        self.began = SessionStarted(name, "")
        self.count = self.last = 0
        self.times = (time.time(), time.time())
        """Of the first entry and of the last."""
        self._gone = 0
        self._told = 0
        self._named: list[int] = []

    def take(self, seq: int, when: float, entry: object) -> None:
        """Count one."""
        missing = range(self.last + 1, seq)
        self._gone += len(missing)
        self._named += missing[: NAMED - len(self._named)]
        self.times = (self.times[0] if self.count else when, when)
        self.count, self.last = self.count + 1, seq
        if isinstance(entry, SessionStarted) and seq == 1:
            self.began = entry
        if isinstance(entry, SessionRecovered):
            self._told += entry.count
        self.tally.take(entry, len(encode(entry)[1]))  # type: ignore[arg-type]
        if seq <= self.began.forked_at:
            self.tally.usage = Usage()  # what was spent was spent by the session that this is a fork of

    def lost(self, claimed: int) -> _Lost:
        """What is gone, also from the end, without what an earlier recovery has told of."""
        end = range(self.last + 1, claimed + 1)
        end = end if len(end) < MOST_LOST else range(0)
        count = max(0, self._gone - self._told) + len(end)
        named = [*self._named, *end[: NAMED - len(self._named)]] if count else []
        return _Lost(SessionRecovered(tuple(named), count), count, max(self.last, *end[-1:], 0))


def _is_whole_table_of_sessions(connection: sqlite3.Connection) -> bool:
    """Whether it can be believed: a session without any entry, not even its beginning, never was."""
    if connection.execute("PRAGMA integrity_check(session)").fetchone() != ("ok",):
        return False
    empty = "SELECT 1 FROM session WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.session = session.number)"
    return connection.execute(empty).fetchone() is None


def _read_by_sqlite(path: Path) -> Iterator[Row]:
    with suppress(LogError, sqlite3.DatabaseError, UnicodeDecodeError), closing(open_for_reading(path)) as connection:
        rows = connection.execute("SELECT session, seq, time, kind, body, checksum FROM event ORDER BY session, seq")
        yield from filter(is_whole, rows)


def _version(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(64)[60:64], "big")


def _swap(path: Path, fresh: Path) -> Path:
    """Put the damaged files aside, and the new one in their place."""
    aside = Path(tempfile.mkdtemp(prefix=time.strftime("damaged-%Y%m%d-%H%M%S-"), dir=path.parent))
    for each in _files(path):
        shutil.copy2(each, aside)
    sync_folder(aside)
    try:
        for each in _files(path)[1:]:
            each.unlink()  # before the new file comes: SQLite would take them for its own
        os.replace(fresh, path)
    except OSError:
        for each in aside.iterdir():
            shutil.copy2(each, path.parent)
        raise
    sync_folder(path.parent)
    return aside


def _files(path: Path) -> list[Path]:
    return [each for end in ("", "-wal", "-shm", "-journal") if (each := path.with_name(path.name + end)).exists()]
