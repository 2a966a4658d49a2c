"""The log in a Postgres database. Many machines can use it at once; each session has one holder."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from outrider.environment import data_folder
from outrider.errors import DamagedLogError, UnknownSessionError
from outrider.log.append import Append
from outrider.log.copying import Fork, Import
from outrider.log.entries import SessionStarted, SnapshotEntry
from outrider.log.files import remove_unreferenced
from outrider.log.holder import STALE_SECONDS, Holder
from outrider.log.inbox_tables import InboxTables
from outrider.log.passage_tables import PassageTables
from outrider.log.pending_write import PendingWrite
from outrider.log.postgres.address import Address
from outrider.log.postgres.files import PostgresStore, remove_unreferenced_files
from outrider.log.postgres.holding import Creation, acquire, release
from outrider.log.postgres.link import Database, Line, LoopThread
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import NOW, ROW
from outrider.log.postgres.whole_sessions import PAGE, Deletion, write_fork, write_import
from outrider.log.postgres.writer import PostgresWriter
from outrider.log.rows import LAST_SEQ, Extent, Row, damaged_entry, in_order, is_intact
from outrider.log.session_filter import SessionFilter
from outrider.log.snapshot_store import SnapshotStore
from outrider.log.summary import COLUMNS, INDEXABLE, Indexable, SessionRow, indexables, session_row
from outrider.log.usage_tables import UsageTables

T = TypeVar("T")
STOP_SECONDS = 20.0
"""How long `close` waits for what is queued."""
UNCLOSED_SECONDS = 2.0
"""How long a log waits that nobody closed. The garbage collector ends it, in any thread, which must not wait long."""
OPEN_SERVER = (
    "the Postgres server of the log asks for no password: every program on the network, also a command with the access "
    "`network`, can read and change your sessions. Set a password, and scram-sha-256 in its pg_hba.conf"
)
_FOLDER = "settings::json ->> 'cwd'"


class PostgresBackend:
    """The schema `outrider` of a database. asyncpg runs in an event loop in a thread of this object."""

    def __init__(self, url: str, held: dict[int, int]) -> None:
        self._address = Address(url)
        self._thread = LoopThread()
        self._database = Database(self._address)
        self._reader = Line(self._database)
        self._writer = PostgresWriter(self._thread, self._database, held)
        self.store = PostgresStore(self._change)
        self._finalizer = weakref.finalize(self, _stop, self._thread, self._writer, self._reader, UNCLOSED_SECONDS)

    @property
    def url(self) -> str:
        """The URL as it was given, with its password."""
        return self._address.complete_url

    @property
    def location(self) -> str:
        """The URL without its password."""
        return self._address.location

    @cached_property
    def folder(self) -> Path:
        """A folder of this machine for the snapshots of working folders."""
        return data_folder() / "postgres" / self._address.name

    @property
    def warning(self) -> str:
        """A warning if the server asks nobody for a password. It is known after the first connection."""
        return OPEN_SERVER if self._database.is_open else ""

    def exists(self) -> bool:
        """Return whether the database has a log."""
        return self._database.is_current or self._read(self._database.exists)

    def close(self) -> None:
        """Finish the queued writes and disconnect."""
        _stop(self._thread, self._writer, self._reader, STOP_SECONDS)

    # Reading

    def listed(self, where: SessionFilter, limit: int | None, offset: int) -> list[SessionRow]:
        """Return the sessions that a list shows."""
        condition, values = _condition(where, first=3)
        listed = f"parent = '' AND title <> '' AND {condition} ORDER BY opened DESC LIMIT $1 OFFSET $2"
        return self._find(listed, limit, offset, *values)

    def indexable(self, where: SessionFilter) -> list[Indexable]:
        """Return how far each session goes that the filter describes."""
        condition, values = _condition(where, first=1)
        return indexables(self._fetch(f"SELECT {INDEXABLE} FROM session WHERE {condition} ORDER BY number", *values))

    def folders_and_models(self) -> tuple[list[str], list[str]]:
        """Return the working folders and the models of the sessions that a list shows."""
        found = self._fetch(f"SELECT DISTINCT {_FOLDER}, model FROM session WHERE parent = '' AND title <> ''")
        folders, models = {folder for folder, _ in found if folder}, {model for _, model in found if model}
        return sorted(folders), sorted(models)

    def with_prefix(self, prefix: str) -> list[SessionRow]:
        """Return the first two sessions whose ids begin with this."""
        if "\0" in prefix:
            return []
        return self._find("id >= $1 AND id < $2 ORDER BY id LIMIT 2", prefix, f"{prefix}\U0010ffff")

    def numbered(self, numbers: Sequence[int]) -> list[SessionRow]:
        """Return those of the sessions that are there."""
        return self._find("number = ANY($1)", list(numbers))

    def named(self, ids: Sequence[str]) -> list[SessionRow]:
        """Return those of the sessions that are there."""
        return self._find("id = ANY($1)", list(ids))

    def children(self, id: str) -> list[SessionRow]:
        """Return the sessions with this parent."""
        return self._find("parent = $1 AND parent <> '' ORDER BY number", id)

    def rows(self, extent: Extent, upto: int | None = None) -> Iterator[Row]:
        """Iterate over the rows of a session, which are read in pages."""
        return self._rows_after(extent, 0, LAST_SEQ if upto is None else upto, min(extent.last, upto or extent.last))

    def rows_after(self, extent: Extent, after: int, count: int) -> Iterator[Row]:
        """Iterate over the next rows after a seq."""
        rows = self._fetch_rows("session = $1 AND seq > $2 ORDER BY seq LIMIT $3", extent.session, after, count)
        return in_order(rows, extent, after, min(extent.last, after + 1))

    def rows_before(self, extent: Extent, before: int, count: int) -> list[Row]:
        """Return the rows before a seq, oldest first."""
        condition = "session = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3"
        rows = self._fetch_rows(condition, extent.session, before, count)[::-1]
        start = rows[0][1] - 1 if len(rows) == count and is_intact(rows[0]) else 0
        return list(in_order(rows, extent, start, min(extent.last, before - 1) if extent.gapless else 0))

    def rows_at(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Row]:
        """Return the rows by session number and seq, if they are there."""
        wanted = "(session, seq) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))"
        rows = self._fetch_rows(wanted, [number for number, _ in places], [seq for _, seq in places])
        for each in rows:
            if not is_intact(each):
                raise damaged_entry(each[1])
        return {(each[0], each[1]): each for each in rows}

    def newest_rows(self, extent: Extent, count: int) -> list[Row]:
        """Return the newest rows, oldest first."""
        rows = self._fetch_rows("session = $1 ORDER BY seq DESC LIMIT $2", extent.session, count)[::-1]
        before = rows[0][1] - 1 if len(rows) == count and is_intact(rows[0]) else 0
        return list(in_order(rows, extent, before, extent.last))

    def rows_of_kinds(self, extent: Extent, kinds: Sequence[str]) -> list[Row]:
        """Return the intact rows of these kinds."""
        rows = self._fetch_rows("session = $1 AND kind = ANY($2) ORDER BY seq", extent.session, list(kinds))
        return [each for each in rows if is_intact(each)]

    def rows_of_each(
        self, starts: Sequence[tuple[Extent, int]], kinds: Sequence[str], count: int
    ) -> Iterator[list[Row]]:
        """Yield the next intact rows of these kinds of each session, which one query reads."""
        rows = self._fetch(
            f"SELECT {ROW} FROM unnest($1::bigint[], $2::bigint[]) AS start (number, after), LATERAL ("
            f"SELECT {ROW} FROM event WHERE session = number AND seq > after AND kind = ANY($3) "
            "ORDER BY seq LIMIT $4) AS event ORDER BY session, seq",
            *([extent.session for extent, _ in starts], [after for _, after in starts], list(kinds), count),
        )
        found: dict[int, list[Row]] = {}
        for each in rows:
            found.setdefault(each[0], []).append(each)
        for extent, after in starts:
            its_rows = found.get(extent.session, [])
            if not all(map(is_intact, its_rows)):
                its_rows = [each for each in self.rows_of_kinds(extent, kinds) if each[1] > after][:count]
            yield its_rows

    def checksums(self, places: Mapping[int, int]) -> dict[int, tuple[str, int]]:
        """Return the id of each session and the checksum of one entry."""
        query = (
            "SELECT s.number, s.id, e.checksum FROM unnest($1::bigint[], $2::bigint[]) AS place (number, seq) "
            "JOIN session s ON s.number = place.number JOIN event e ON e.session = s.number AND e.seq = place.seq"
        )
        found = self._fetch(query, list(places), list(places.values()))
        return {number: (name, checksum) for number, name, checksum in found}

    def references(self, number: int) -> set[str]:
        """Return the hashes of the files that a session may read."""
        return {name for (name,) in self._fetch("SELECT sha256 FROM reference WHERE session = $1", number)}

    def _rows_after(self, extent: Extent, after: int, upto: int, last: int) -> Iterator[Row]:
        try:
            yield from in_order(self._pages(extent.session, after, upto), extent, after, last)
        except DamagedLogError:
            if not self.numbered([extent.session]):
                raise UnknownSessionError("the session was just deleted") from None
            raise

    def _pages(self, session: int, after: int, upto: int) -> Iterator[Row]:
        while True:
            condition = f"session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT {PAGE}"
            page = self._fetch_rows(condition, session, after, upto)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1][1]

    def _find(self, condition: str, *values: object) -> list[SessionRow]:
        return [session_row(row) for row in self._fetch(f"SELECT {COLUMNS} FROM session WHERE {condition}", *values)]

    def _fetch_rows(self, condition: str, *values: object) -> list[Row]:
        return self._fetch(f"SELECT {ROW} FROM event WHERE {condition}", *values)

    def _fetch(self, query: str, *values: object) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            return [tuple(row) for row in await connection.fetch(query, *values)]

        return self._read(work)

    def _read(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        return self._thread.run(self._reader.use(work))

    def _change(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Run work that writes on the connection for reading, so that no append waits for it."""

        async def prepared(connection: Connection) -> T:
            await self._database.prepare(connection)
            return await work(connection)

        return self._read(prepared)

    # Holding

    def create(self, started: SessionStarted, append: Append, holder: Holder, link: Append | None) -> int:
        """Create a session, held with fence 1."""
        creation = Creation(started, append, holder, link, self._writer.positions)
        return self._writer.run(creation.run, *[link.number] if link else [])

    def acquire(self, found: SessionRow, holder: Holder, *, mark_opened: bool) -> bool:
        """Hold a session, unless another did meanwhile."""

        def work(connection: Connection) -> Coroutine[Any, Any, bool]:
            return acquire(connection, found, holder, self._writer.positions, mark_opened=mark_opened)

        return self._writer.run(work, found.number)

    def release(self, number: int, fence: int, *, wait: bool) -> None:
        """Clear the holder if the fence is still this one."""
        work = partial(release, number=number, fence=fence)
        (self._writer.run_or_post if wait else self._writer.post)(work, number)

    def is_held(self, row: SessionRow) -> bool:
        """Return whether a live process holds the session. The clock of the database judges its lease."""
        holder = row.summary.holder
        if holder is None:
            return False
        if holder.is_visible:
            return bool(holder.is_alive())
        # A restart of the database keeps holders from beating: the time before it does not count.
        since = "greatest(beaten, extract(epoch from pg_postmaster_start_time())::double precision)"
        query = f"SELECT {NOW} - {since} FROM session WHERE number = $1 AND fence = $2 AND beat = $3"
        age = self._fetch(query, row.number, row.fence, row.beat)
        return not age or bool(age[0][0] < STALE_SECONDS)

    # Writing

    def submit(self, append: Append) -> PendingWrite:
        """Queue entries."""
        return self._writer.submit(append)

    def append(self, append: Append) -> None:
        """Append entries and wait."""
        self._writer.append(append)

    def fork(self, fork: Fork) -> None:
        """Write a copy of a session."""
        self._change(partial(write_fork, fork=fork, created=time.time()))

    def add(self, incoming: Import) -> None:
        """Write an imported session."""
        self._change(partial(write_import, incoming=incoming, created=time.time()))

    def delete(self, doomed: Sequence[SessionRow]) -> None:
        """Delete sessions, all or none."""
        self._change(Deletion(doomed).run)

    def remove_unreferenced(self, snapshots: SnapshotStore) -> tuple[int, int]:
        """Delete the files that no session refers to, and those of snapshots on this machine."""
        count, size = self._change(remove_unreferenced_files)
        rows = self._fetch("SELECT body FROM event WHERE kind = $1", SnapshotEntry.kind)
        more, larger = remove_unreferenced(snapshots.folder, snapshots.referenced_by(body for (body,) in rows))
        return count + more, size + larger

    def passage_tables(self) -> PassageTables:
        """Return the search index, which is in the same database."""
        from outrider.log.postgres.passages import PostgresPassageTables  # few programs search

        return PostgresPassageTables(self._change)

    def usage_tables(self) -> UsageTables:
        """Return the usage index, which is in the same database."""
        from outrider.log.postgres.usage import PostgresUsageTables  # few programs add up

        return PostgresUsageTables(self._change)

    def inbox_tables(self) -> InboxTables:
        """Return the tables of questions and messages."""
        from outrider.log.postgres.inbox import PostgresInboxTables  # few programs use them

        return PostgresInboxTables(self, self._change, self._writer, self._thread, self._database)


def _condition(where: SessionFilter, first: int) -> tuple[str, list[str | float]]:
    """Return the condition in SQL and its values, whose numbers begin with `first`."""
    parts = where.conditions(_FOLDER)
    conditions = [f"{sql} ${number}" for number, (sql, _) in enumerate(parts, first)]
    return " AND ".join(["true", *conditions]), [value for _, value in parts]


def _stop(thread: LoopThread, writer: PostgresWriter, reader: Line, seconds: float) -> None:
    async def last() -> None:
        await writer.close()
        await reader.close()

    writer.disconnect_loops()
    thread.stop(last, seconds)
