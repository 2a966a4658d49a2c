"""The log in a folder. Only its owner has access. Any process can read it, and one thread of each writes to it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.conversation.store import FolderStore
from outrider.errors import LogError, SessionHeldError, SessionLostError, UnknownSessionError
from outrider.log.append import Append
from outrider.log.backend import LOST, Backend
from outrider.log.entries import SessionStarted, SnapshotEntry
from outrider.log.holder import BEAT_SECONDS, Holder
from outrider.log.pending_write import PendingWrite
from outrider.log.rows import Extent, Row, damaged_entry, in_order, is_intact
from outrider.log.session_files import remove_unreferenced
from outrider.log.session_id import shown_id
from outrider.log.snapshot_store import SnapshotStore
from outrider.log.sql import Statement
from outrider.log.sqlite.database import explain_errors, has_chain, reading
from outrider.log.sqlite.filesystem import network_file_system
from outrider.log.sqlite.session_table import (
    DATE_IMPORT,
    INSERT,
    SELECT,
    acquire,
    find,
    forget_inbox,
    heartbeat,
    insert,
    is_held,
    read_rows,
    references,
    release,
    write_update,
)
from outrider.log.sqlite.statements import execute
from outrider.log.sqlite.writer import Writer
from outrider.log.summary import SessionRow
from outrider.text import clean

if TYPE_CHECKING:
    from outrider.log.copying import Fork, Import
    from outrider.log.inbox_tables import InboxTables
    from outrider.log.passage_tables import PassageTables
    from outrider.log.sql import Index

_TABLES_OF_SESSIONS = (
    *((table, "session") for table in ("event", "reference", "signal", "question")),
    ("session", "number"),
)


def _check_name(folder: Path) -> None:
    """Raise LogError for a name that is not UTF-8: SQLite cannot open a file there."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise LogError(
            f"the log cannot be in {clean(str(folder))}, whose name is not UTF-8; set OUTRIDER_HOME to another folder"
        ) from None


class SqliteBackend(Backend):
    """`log.db` in a folder, and `attachments/` beside it."""

    url = ""
    folder: Path

    def __init__(self, folder: str | os.PathLike[str], held: dict[int, int]) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.location = str(self.folder)
        _check_name(self.folder)
        self.path = self.folder / "log.db"
        self.store = FolderStore(self.folder / "attachments")
        self.writer = Writer(self.path, held, partial(heartbeat, held), BEAT_SECONDS)

    @staticmethod
    def _setting(*path: str) -> str:
        names = "".join(f'."{name}"' for name in path)
        return f"json_extract(settings, '${names}')"

    @cached_property
    def warning(self) -> str:
        kind = network_file_system(self.folder if self.folder.exists() else self.folder.parent)
        if not kind:
            return ""
        return (
            f"the log is on a network file system ({kind}): it is slower there, and only safe if the server keeps "
            "locks; set OUTRIDER_HOME to a folder on a disk of this machine"
        )

    def exists(self) -> bool:
        with explain_errors(self.path, "read"):
            return self.path.exists()

    def close(self) -> None:
        self.writer.close()

    # Reading

    def rows(self, extent: Extent, upto: int | None = None) -> Iterator[Row]:
        with reading(self.path) as connection:
            yield from read_rows(connection, extent, upto=upto)

    def rows_after(self, extent: Extent, after: int, count: int) -> Iterator[Row]:
        with reading(self.path) as connection:
            query = f"{SELECT} WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
            rows = connection.execute(query, (extent.session, after, count))
            yield from in_order(rows, extent, after, min(extent.last, after + 1))

    def rows_at(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Row]:
        with reading(self.path) as connection:
            query = f"{SELECT} WHERE session = ? AND seq = ?"
            found = {place: connection.execute(query, place).fetchone() for place in places}
        for (_, seq), row in found.items():
            if row is not None and not is_intact(row):
                raise damaged_entry(seq)
        return {place: row for place, row in found.items() if row is not None}

    def rows_of_each(
        self, starts: Sequence[tuple[Extent, int]], kinds: Sequence[str], count: int
    ) -> Iterator[list[Row]]:
        with reading(self.path) as connection:
            query = f"{SELECT} WHERE session = ? AND seq > ? AND kind IN ({', '.join('?' for _ in kinds)}) ORDER BY seq"
            for extent, after in starts:
                rows = connection.execute(query, (extent.session, after, *kinds))
                yield list(islice(filter(is_intact, rows), count))

    def checksums(self, places: Mapping[int, int]) -> dict[int, tuple[str, int]]:
        query = (
            "SELECT s.number, s.id, e.checksum FROM json_each(?) AS place JOIN session s ON s.number = place.key "
            "JOIN event e ON e.session = s.number AND e.seq = place.value"
        )
        with reading(self.path) as connection:
            found = connection.execute(query, (msgspec.json.encode(places).decode(),))
            return {number: (name, checksum) for number, name, checksum in found}

    def head(self, number: int) -> tuple[int, bytes]:
        with reading(self.path) as connection:
            is_chained = has_chain(connection)
        return super().head(number) if is_chained else (self.numbered([number])[0].summary.last, b"")

    def _fetch(self, query: str, *values: object) -> list[Any]:
        with reading(self.path) as connection:
            return execute(connection, Statement(query, values))

    # Holding

    def create(self, started: SessionStarted, append: Append, holder: Holder, link: Append | None) -> int:
        def work(connection: sqlite3.Connection) -> int:
            try:
                append.number = insert(connection, started, holder.encoded)
            except sqlite3.IntegrityError:
                raise SessionHeldError(f"the session {shown_id(started.session)} was just created; try again") from None
            _append(append, connection)
            if link:
                _append(link, connection)
            return append.number

        return self.writer.run(work)

    def acquire(self, found: SessionRow, holder: Holder) -> bool:
        return self.writer.run(partial(acquire, found, holder))

    def release(self, number: int, fence: int, *, wait: bool) -> None:
        (self.writer.run_or_post if wait else self.writer.post)(partial(release, number, fence))

    def is_held(self, row: SessionRow) -> bool:
        return is_held(row, self.path)

    # Writing

    def submit(self, append: Append) -> PendingWrite:
        return self.writer.submit(partial(_append, append))

    def append(self, append: Append) -> None:
        self.writer.run(partial(_append, append))

    def fork(self, fork: Fork) -> None:
        self.writer.run(partial(_fork, fork))

    def add(self, incoming: Import) -> None:
        self.writer.run(partial(_add, incoming))

    def delete(self, doomed: Sequence[SessionRow]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for each in doomed:
                if not find(connection, "number = ? AND fence = ?", each.number, each.fence):
                    raise SessionHeldError(f"the session {shown_id(each.summary.id)} was just opened; try again")
                for table, column in _TABLES_OF_SESSIONS:
                    connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (each.number,))
                forget_inbox(connection, each.number)

        self.writer.run(work)

    def remove_unreferenced(self, snapshots: SnapshotStore) -> tuple[int, int]:
        def work(connection: sqlite3.Connection) -> tuple[int, int]:  # nobody writes meanwhile
            referenced = {name for (name,) in connection.execute("SELECT DISTINCT sha256 FROM reference")}
            count, size = remove_unreferenced(self.store.folder, referenced)
            rows = connection.execute("SELECT body FROM event WHERE kind = ?", (SnapshotEntry.kind,))
            in_snapshots = snapshots.referenced_by(body for (body,) in rows)
            more, larger = remove_unreferenced(snapshots.folder, in_snapshots)
            return count + more, size + larger

        return self.writer.run(work)

    def passage_tables(self) -> PassageTables:
        from outrider.log.sqlite.passages import SqlitePassageTables  # few programs search

        return SqlitePassageTables(self.folder / "search.db")

    def usage_index(self) -> Index:
        from outrider.log.sqlite.index_file import USAGE_TABLES, IndexFile  # few programs add up

        return IndexFile(self.folder / "usage.db", "usage index", *USAGE_TABLES)

    def inbox_tables(self) -> InboxTables:
        from outrider.log.inbox_tables import InboxTables  # few programs use them
        from outrider.log.sqlite.inbox import SqliteInbox

        return InboxTables(SqliteInbox(self.path, self.writer))


def _append(append: Append, connection: sqlite3.Connection) -> None:
    """Append the entries if the fence is still that of the holder."""
    number = append.number
    found: tuple[int, bytes] | None = connection.execute(
        "SELECT last, chain FROM session WHERE number = ? AND fence = ?", (number, append.fence)
    ).fetchone()
    if found is None:
        raise SessionLostError(LOST)
    last, head = found
    for kind, body in append.bodies:
        last += 1
        row, head = append.chain.row(head, number, last, append.time, kind, body)
        connection.execute(INSERT, row)
    append.last = last
    write_update(connection, append.update, number, last, head)


def _fork(fork: Fork, connection: sqlite3.Connection) -> None:
    source = fork.source
    if not find(connection, "number = ?", source.number):
        raise UnknownSessionError(f"the session {shown_id(source.summary.id)} was just deleted")
    fork.update.files = [*references(connection, source.number) & set(fork.update.files)]
    number = insert(connection, fork.started)
    connection.execute(INSERT, fork.first_row(number))
    connection.executemany(INSERT, fork.copied_rows(number, read_rows(connection, source.extent, upto=fork.cut)))
    connection.executemany(INSERT, fork.last_rows(number))
    write_update(connection, fork.update, number, fork.last, fork.head)


def _add(incoming: Import, connection: sqlite3.Connection) -> None:
    if find(connection, "id = ?", incoming.started.session):
        incoming.rename()
    number = insert(connection, incoming.started)
    connection.executemany(INSERT, incoming.rows(number))
    write_update(connection, incoming.update, number, incoming.last, b"")
    if incoming.times:
        created, used = incoming.times
        connection.execute(DATE_IMPORT, {"created": created, "used": used, "number": number})
