"""Recover a damaged log: copy every intact entry into a new file.

All reading is done on a copy, and the damaged files are kept unchanged in a backup folder.
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

from outrider.conversation.usage import Usage
from outrider.errors import DamagedLogError, LogError, NewerLogError
from outrider.filesystem import sync_folder
from outrider.log.append import SummaryUpdate
from outrider.log.chain import Chain
from outrider.log.entries import SessionRecovered, SessionStarted
from outrider.log.holder import seems_alive
from outrider.log.key import LogKey
from outrider.log.rows import Extent, Row, encode, is_intact, known_records
from outrider.log.sqlite import database
from outrider.log.sqlite.salvage import salvage
from outrider.log.sqlite.session_table import INSERT, SELECT, find, read_rows, references, write_update
from outrider.log.sqlite.wal import forget_tally
from outrider.log.summary import SessionRow

NAMED = 100
"""The largest number of lost entries to list individually."""
MOST_LOST = 100_000
"""The limit on lost entries at the end of a session. A larger number is itself the result of damage."""
MOST_VERSIONS = 1_000
"""The highest plausible file format. A larger number is a flipped bit, not a newer version."""


class Recovery(msgspec.Struct, frozen=True):
    """The result of a recovery."""

    sessions: int
    entries: int
    lost: dict[str, int]
    """The number of lost entries of each session that lost any."""
    unverified: tuple[str, ...]
    """Sessions whose length is unknown, because the session table is damaged: newest entries may be lost as well."""
    backup: Path | None
    """The folder with the damaged files; None if the log was intact."""


def recover(folder: Path) -> Recovery:
    """Check every entry of the log in a folder. If anything is damaged, build a new log from the intact entries."""
    path = folder / "log.db"
    with database.explain_errors(path, "read"):
        if not path.exists():
            raise LogError(f"there is no log in {folder}")
        database.refuse_folder(path)
        with tempfile.TemporaryDirectory(prefix="recover-", dir=folder) as scratch:
            copy = Path(scratch, "log.db")
            for each in _files(path):
                shutil.copy2(each, scratch)
            copy.with_name("log.db-shm").unlink(missing_ok=True)  # SQLite rebuilds it
            return _recover(path, copy)


def _recover(path: Path, copy: Path) -> Recovery:
    inspection = _Inspection(copy, path)
    inspection.check_unused()
    if inspection.count is not None:
        forget_tally(path)  # what it counts beyond the entries that are there cannot be brought back
        return Recovery(len(inspection.sessions or ()), inspection.count, {}, (), None)
    fresh = copy.with_name("new.db")
    with closing(database.open_for_writing(fresh)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        rebuild = _Rebuild(connection, inspection)
        rebuild.copy_entries(copy)
        result = rebuild.finish()
        if not result.entries and inspection.is_foreign:
            assert inspection.error
            raise inspection.error
        connection.execute("COMMIT")
    return msgspec.structs.replace(result, backup=_swap(path, fresh))


class _Inspection:
    """What SQLite can read of the existing log."""

    def __init__(self, copy: Path, path: Path) -> None:
        self.sessions: dict[int, SessionRow] | None = None
        """The session table; None if it cannot be read."""
        self.heads: dict[int, bytes] = {}
        """The newest link of each session's chain."""
        self.references: dict[int, set[str]] = {}
        self.references_intact = False
        self.sessions_intact = False
        """Whether the session table is intact, so that a session missing from it was deleted."""
        self.count: int | None = None
        """The number of entries, if all of them and the file are intact."""
        self.error: LogError | None = None
        try:
            with closing(database.open_for_reading(copy)) as connection, database.explain_errors(path, "read"):
                self.sessions = {found.number: found for found in find(connection, "1")}
                if database.has_chain(connection):
                    self.heads = dict(connection.execute("SELECT number, chain FROM session"))
                self.sessions_intact = _is_session_table_intact(connection)
                self.references_intact = connection.execute("PRAGMA integrity_check(reference)").fetchone() == ("ok",)
                self.references = {number: references(connection, number) for number in self.sessions}
                self.count = self._count(connection)
        except LogError as error:
            self.error = type(error)(str(error).replace(str(copy), str(path)))
            if isinstance(error, NewerLogError) and len(database.MIGRATIONS) < _version(copy) <= MOST_VERSIONS:
                raise self.error from None

    @property
    def is_foreign(self) -> bool:
        """Whether the file looks like something other than a log, rather than a damaged log."""
        return self.error is not None and not isinstance(self.error, DamagedLogError)

    def check_unused(self) -> None:
        """Raise LogError if a live process holds a session."""
        for each in (self.sessions or {}).values():
            if seems_alive(each.summary.holder, each.beaten):
                raise LogError(f"the log is in use: {each.summary.holder}. Close the sessions there first")

    def _count(self, connection: sqlite3.Connection) -> int:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise DamagedLogError("SQLite's integrity check fails")
        if connection.execute("SELECT 1 FROM event WHERE session NOT IN (SELECT number FROM session)").fetchone():
            raise DamagedLogError("there are entries without a session")
        if connection.execute("SELECT 1 FROM reference WHERE session NOT IN (SELECT number FROM session)").fetchone():
            raise DamagedLogError("there are files without a session")
        return sum(self._count_in(session, connection) for session in (self.sessions or {}).values())

    def _count_in(self, session: SessionRow, connection: sqlite3.Connection) -> int:
        count, last, update = 0, 0, SummaryUpdate()
        for record in known_records(read_rows(connection, session.extent)):
            count, last = count + 1, record.seq
            update.add(record.entry, 0)
        if (count, last) != (session.entries, session.summary.last):
            raise DamagedLogError("a session has other entries than its summary says")
        if not references(connection, session.number) <= set(update.files):
            raise DamagedLogError("a session refers to a file that was never added to it")
        return count


class _Rebuild:
    """Builds the new log: first the entries, then the tables that derive from them."""

    def __init__(self, connection: sqlite3.Connection, inspection: _Inspection) -> None:
        self._connection = connection
        self._known = inspection.sessions
        self._inspection = inspection
        self._ids: set[str] = set()
        self._key = LogKey()

    def copy_entries(self, path: Path) -> None:
        """Copy every intact entry: first those that SQLite reads, then those found in the raw pages."""
        for each in chain(_read_by_sqlite(path), salvage(path, is_intact)):
            # Without an intact session table, deleted sessions are not known, so all entries count.
            if not self._inspection.sessions_intact or each[0] in (self._known or ()):
                self._connection.execute(INSERT.replace("INSERT", "INSERT OR IGNORE"), each)

    def finish(self) -> Recovery:
        """Rebuild the session table."""
        query = "SELECT session FROM event GROUP BY session ORDER BY max(time)"
        numbers = [number for (number,) in self._connection.execute(query).fetchall()]
        entries = 0
        lost: dict[str, int] = {}
        names: list[str] = []
        for rank, number in enumerate(numbers, 1):
            name, count, missing = self._session(number, rank)
            names.append(name)
            entries += count
            if missing:
                lost[name] = missing
        for number, old in (self._known or {}).items():
            if number not in numbers and old.summary.id not in self._ids:
                lost[old.summary.id] = old.summary.last
        unverified = () if self._inspection.sessions_intact else tuple(names)
        return Recovery(len(numbers), entries, lost, unverified, None)

    def _session(self, number: int, rank: int) -> tuple[str, int, int]:
        """Write the row of one session. Return its id, the number of its entries and the number of lost ones."""
        old = (self._known or {}).get(number)
        found = _SessionScan(old.summary.id if old else "")
        for record in known_records(read_rows(self._connection, Extent(number, 0, gapless=False))):
            found.add(record.seq, record.time, record.entry)
        lost, highest = found.lost(old.summary.last if old else 0)
        name = found.started.session if found.started.session not in self._ids else ""
        name = name or os.urandom(16).hex()
        self._ids.add(name)
        last, head = found.last, self._inspection.heads.get(number, b"")
        if lost.count or not old or not self._inspection.sessions_intact:
            last = highest + 1
            chain = Chain(self._key, name)  # begins anew: what it was linked to is lost
            row, head = chain.row(b"", number, last, time.time(), *encode(lost))
            self._connection.execute(INSERT, row)
            found.update.add(lost, 0)
        self._connection.execute(
            "INSERT INTO session (number, id, parent, created, updated, opened, fence) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, name, found.started.parent, *found.times, rank, (old.fence if old else 0) + 1),
        )
        readable = self._inspection.references.get(number, set())
        if old and self._inspection.references_intact and readable <= set(found.update.files):
            found.update.files = [*readable]  # an import may mention files without their bytes
        write_update(self._connection, found.update, number, last, head)
        self._connection.execute(
            "UPDATE session SET updated = ?, opened = ? WHERE number = ?", (found.times[1], rank, number)
        )
        return name, found.count, lost.count


class _SessionScan:
    """The recovered entries of one session."""

    def __init__(self, name: str) -> None:
        self.update = SummaryUpdate()
        self.started = SessionStarted(name, "")
        self.count = self.last = 0
        self.times = (time.time(), time.time())
        """The times of the first and the last entry."""
        self._missing = 0
        self._reported = 0
        """The losses that earlier recoveries have recorded."""
        self._named: list[int] = []

    def add(self, seq: int, when: float, entry: object) -> None:
        """Add one entry."""
        missing = range(self.last + 1, seq)
        self._missing += len(missing)
        self._named += missing[: NAMED - len(self._named)]
        self.times = (self.times[0] if self.count else when, when)
        self.count, self.last = self.count + 1, seq
        if isinstance(entry, SessionStarted) and seq == 1:
            self.started = entry
        if isinstance(entry, SessionRecovered):
            self._reported += entry.count
        self.update.add(entry, len(encode(entry)[1]))  # type: ignore[arg-type]
        if seq <= self.started.forked_at:
            self.update.usage = Usage()  # it counts for the original of this fork

    def lost(self, claimed: int) -> tuple[SessionRecovered, int]:
        """Return the lost entries, without those that an earlier recovery recorded, and the highest seq there was."""
        end = range(self.last + 1, claimed + 1)
        end = end if len(end) < MOST_LOST else range(0)
        count = max(0, self._missing - self._reported) + len(end)
        named = [*self._named, *end[: NAMED - len(self._named)]] if count else []
        return SessionRecovered(tuple(named), count), max(self.last, *end[-1:], 0)


def _is_session_table_intact(connection: sqlite3.Connection) -> bool:
    """Check the session table. A session without any entry is a sign of damage, because each has a first entry."""
    if connection.execute("PRAGMA integrity_check(session)").fetchone() != ("ok",):
        return False
    empty = "SELECT 1 FROM session WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.session = session.number)"
    return connection.execute(empty).fetchone() is None


def _read_by_sqlite(path: Path) -> Iterator[Row]:
    with (
        suppress(LogError, sqlite3.DatabaseError, UnicodeDecodeError),
        closing(database.open_for_reading(path)) as connection,
    ):
        rows = connection.execute(f"{SELECT} ORDER BY session, seq")
        yield from filter(is_intact, rows)


def _version(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(64)[60:64], "big")


def _swap(path: Path, fresh: Path) -> Path:
    """Move the damaged files into a backup folder and put the new file in their place."""
    backup = Path(tempfile.mkdtemp(prefix=time.strftime("damaged-%Y%m%d-%H%M%S-"), dir=path.parent))
    for each in _files(path):
        shutil.copy2(each, backup)
    sync_folder(backup)
    try:
        for each in _files(path)[1:]:
            each.unlink()  # first: SQLite would apply the old log to the new file
        os.replace(fresh, path)
    except OSError:
        for each in backup.iterdir():
            shutil.copy2(each, path.parent)
        raise
    sync_folder(path.parent)
    return backup


def _files(path: Path) -> list[Path]:
    return [
        each for end in ("", "-wal", "-shm", "-journal", "-tally") if (each := path.with_name(path.name + end)).exists()
    ]
