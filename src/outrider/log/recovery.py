"""A damaged log made whole again: every entry that is still as it was written goes into a new file.

The damaged file is not changed: it is put aside, for those who want to look again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

import msgspec

from outrider.errors import DamagedLogError, LogError
from outrider.log.database import in_words, open_for_reading, open_for_writing, sync_folder
from outrider.log.entries import Began, Recovered, decode, encode
from outrider.log.rows import INSERT, Row, is_whole, read_rows, records, row
from outrider.log.salvage import salvage
from outrider.log.summary import SessionRow, find
from outrider.log.tally import Tally

NAMED = 100
"""How many lost entries are named one by one."""


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
    if not path.exists():
        raise LogError(f"there is no log in {folder}")
    with in_words(path):
        known = _sessions(path)
        _check_unused(known)
        if (count := _count_if_whole(path)) is not None:
            return Recovery(len(known or ()), count, {}, None)
        fresh = path.with_name("log.db.new")
        _remove(fresh)
        with closing(open_for_writing(fresh)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            rebuilding = _Rebuilding(connection, known)
            rebuilding.save(path)
            found = rebuilding.finish()
            connection.execute("COMMIT")
        return msgspec.structs.replace(found, aside=_swap(path, fresh))


def _sessions(path: Path) -> dict[int, SessionRow] | None:
    """The table of sessions; None if it cannot be read."""
    try:
        with closing(open_for_reading(path)) as connection:
            return {found.number: found for found in find(connection, "1")}
    except (DamagedLogError, sqlite3.DatabaseError):
        return None


def _check_unused(known: dict[int, SessionRow] | None) -> None:
    for each in (known or {}).values():
        if (holder := each.summary.holder) and holder.lives():
            raise LogError(f"the log is in use: {holder}. Close the sessions there first")


def _count_if_whole(path: Path) -> int | None:
    """How many entries there are, if each of them and the file around them is whole."""
    try:
        with closing(open_for_reading(path)) as connection:
            if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                return None
            if connection.execute("SELECT 1 FROM event WHERE session NOT IN (SELECT number FROM session)").fetchone():
                return None
            counts = [_count_in_session(connection, each) for each in find(connection, "1")]
    except (DamagedLogError, sqlite3.DatabaseError):
        return None
    return sum(counts)


def _count_in_session(connection: sqlite3.Connection, session: SessionRow) -> int:
    count = last = 0
    for record in records(read_rows(connection, session.number)):
        count, last = count + 1, record.seq
    if last != session.summary.last:
        raise DamagedLogError("the end of a session is gone")
    return count


class _Rebuilding:
    """A new log on its way: first the entries, then what follows from them."""

    def __init__(self, connection: sqlite3.Connection, known: dict[int, SessionRow] | None) -> None:
        self._connection = connection
        self._known = known

    def save(self, path: Path) -> None:
        """Take every entry that is whole: as SQLite reads it, then as its bytes lie in the file."""
        for each in chain(_read_by_sqlite(path), salvage(path, is_whole)):
            # Without the table of sessions nobody knows which were deleted: then all that is found counts.
            if (self._known is None or each[0] in self._known) and _is_readable(each):
                self._connection.execute(INSERT.replace("INSERT", "INSERT OR IGNORE"), each)

    def finish(self) -> Recovery:
        """Write the table of sessions anew."""
        query = "SELECT session FROM event GROUP BY session ORDER BY max(time)"
        numbers = [number for (number,) in self._connection.execute(query).fetchall()]
        entries = 0
        lost = {each.summary.id: each.summary.last for n, each in (self._known or {}).items() if n not in numbers}
        for rank, number in enumerate(numbers, 1):
            name, count, gone = self._session(number, rank, (self._known or {}).get(number))
            entries += count
            if gone:
                lost[name] = gone
        return Recovery(len(numbers), entries, lost, None)

    def _session(self, number: int, rank: int, old: SessionRow | None) -> tuple[str, int, int]:
        """Write one row of it: the session's id, how many entries it has, and how many are gone."""
        tally = Tally()
        began = Began(old.summary.id if old else os.urandom(16).hex(), "")
        seqs, times = [], []
        for record in records(read_rows(self._connection, number)):
            tally.take(record.entry, len(encode(record.entry)[1]))
            began = record.entry if isinstance(record.entry, Began) else began
            seqs.append(record.seq)
            times.append(record.time)
        missing = _gaps(seqs, old.summary.last if old else 0)
        last = max([*seqs, *missing[-1:]])
        if missing:
            last += 1
            kind, body = encode(Recovered(tuple(missing[:NAMED]), len(missing)))
            self._connection.execute(INSERT, row(number, last, time.time(), kind, body))
        self._connection.execute(
            "INSERT INTO session (number, id, parent, created, updated, opened, fence) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, began.session, began.parent, times[0], times[-1], rank, (old.fence if old else 0) + 1),
        )
        tally.add_to(self._connection, number, last)
        self._connection.execute("UPDATE session SET updated = ? WHERE number = ?", (times[-1], number))
        return began.session, len(seqs), len(missing)


def _gaps(seqs: list[int], claimed: int) -> list[int]:
    """The numbers that are not there, also those after the last; a number that makes no sense is not believed."""
    last = claimed if claimed - seqs[-1] < 100_000 else 0
    return sorted(set(range(1, max(seqs[-1], last) + 1)).difference(seqs))


def _read_by_sqlite(path: Path) -> Iterator[Row]:
    with suppress(LogError, sqlite3.DatabaseError), closing(open_for_reading(path)) as connection:
        yield from filter(is_whole, connection.execute("SELECT * FROM event ORDER BY session, seq"))


def _is_readable(each: Row) -> bool:
    try:
        decode(each[3], each[4])
    except DamagedLogError:
        return False
    return True


def _swap(path: Path, fresh: Path) -> Path:
    """Put the damaged files aside, and the new one in their place."""
    aside = path.parent / time.strftime(f"damaged-%Y%m%d-%H%M%S-{os.getpid()}")
    aside.mkdir(mode=0o700)
    for each in _files(path):
        shutil.copy2(each, aside)
    sync_folder(path.parent)
    for each in _files(path)[1:]:
        each.unlink()  # before the new file comes: SQLite would take them for its own
    os.replace(fresh, path)
    sync_folder(path.parent)
    return aside


def _files(path: Path) -> list[Path]:
    return [each for suffix in ("", "-wal", "-shm") if (each := path.with_name(path.name + suffix)).exists()]


def _remove(path: Path) -> None:
    for each in _files(path):
        each.unlink()
