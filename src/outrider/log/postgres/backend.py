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
from outrider.log.backend import ROW, Backend
from outrider.log.copying import Fork, Import
from outrider.log.entries import SessionStarted, SnapshotEntry
from outrider.log.holder import STALE_SECONDS, Holder
from outrider.log.inbox_tables import InboxTables
from outrider.log.passage_tables import PassageTables
from outrider.log.pending_write import PendingWrite
from outrider.log.postgres.address import Address
from outrider.log.postgres.attachment_store import PostgresStore, remove_unreferenced_files
from outrider.log.postgres.connections import Database, LoopThread, SteadyConnection
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.sessions import PAGE, Creation, Deletion, acquire, release, write_fork, write_import
from outrider.log.postgres.statements import NOW
from outrider.log.postgres.writer import PostgresWriter
from outrider.log.rows import LAST_SEQ, Extent, Row, damaged_entry, in_order, is_intact
from outrider.log.session_files import remove_unreferenced
from outrider.log.snapshot_store import SnapshotStore
from outrider.log.sql import Index
from outrider.log.summary import SessionRow

T = TypeVar("T")
STOP_SECONDS = 20.0
"""How long `close` waits for what is queued."""
UNCLOSED_SECONDS = 2.0
"""How long a log waits that nobody closed. The garbage collector ends it, in any thread, which must not wait long."""
OPEN_SERVER = (
    "the Postgres server of the log asks for no password: every program on the network, also a command with the access "
    "`network`, can read and change your sessions. Set a password, and scram-sha-256 in its pg_hba.conf"
)


class PostgresBackend(Backend):
    """The schema `outrider` of a database. asyncpg runs in an event loop in a thread of this object."""

    @staticmethod
    def _setting(*path: str) -> str:
        names = ",".join(f'"{name}"' for name in path)
        return f"settings::json #>> '{{{names}}}'"

    def __init__(self, url: str, held: dict[int, int]) -> None:
        self._address = Address(url)
        self.url, self.location = self._address.complete_url, self._address.location
        self._thread = LoopThread()
        self._database = Database(self._address)
        self._reader = SteadyConnection(self._database)
        self._writer = PostgresWriter(self._thread, self._database, held)
        self.store = PostgresStore(self._change)
        self._finalizer = weakref.finalize(self, _stop, self._thread, self._writer, self._reader, UNCLOSED_SECONDS)

    @cached_property
    def folder(self) -> Path:
        return data_folder() / "postgres" / self._address.name

    @property
    def warning(self) -> str:
        """A warning if the server asks nobody for a password. It is known after the first connection."""
        return OPEN_SERVER if self._database.is_open else ""

    def exists(self) -> bool:
        return self._database.is_current or self._read(self._database.exists)

    def close(self) -> None:
        _stop(self._thread, self._writer, self._reader, STOP_SECONDS)

    # Reading

    def rows(self, extent: Extent, upto: int | None = None) -> Iterator[Row]:
        pages = self._pages(extent.session, LAST_SEQ if upto is None else upto)
        try:
            yield from in_order(pages, extent, 0, min(extent.last, upto or extent.last))
        except DamagedLogError:
            if not self.numbered([extent.session]):
                raise UnknownSessionError("the session was just deleted") from None
            raise

    def rows_after(self, extent: Extent, after: int, count: int) -> Iterator[Row]:
        rows = self._fetch_rows("session = $1 AND seq > $2 ORDER BY seq LIMIT $3", extent.session, after, count)
        return in_order(rows, extent, after, min(extent.last, after + 1))

    def rows_at(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Row]:
        wanted = "(session, seq) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))"
        rows = self._fetch_rows(wanted, [number for number, _ in places], [seq for _, seq in places])
        for each in rows:
            if not is_intact(each):
                raise damaged_entry(each[1])
        return {(each[0], each[1]): each for each in rows}

    def rows_of_each(
        self, starts: Sequence[tuple[Extent, int]], kinds: Sequence[str], count: int
    ) -> Iterator[list[Row]]:
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
        query = (
            "SELECT s.number, s.id, e.checksum FROM unnest($1::bigint[], $2::bigint[]) AS place (number, seq) "
            "JOIN session s ON s.number = place.number JOIN event e ON e.session = s.number AND e.seq = place.seq"
        )
        found = self._fetch(query, list(places), list(places.values()))
        return {number: (name, checksum) for number, name, checksum in found}

    def _pages(self, session: int, upto: int) -> Iterator[Row]:
        after = 0
        while True:
            condition = f"session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT {PAGE}"
            page = self._fetch_rows(condition, session, after, upto)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1][1]

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
        creation = Creation(started, append, holder, link, self._writer.positions)
        return self._writer.run(creation.run, *[link.number] if link else [])

    def acquire(self, found: SessionRow, holder: Holder) -> bool:
        work = partial(acquire, found=found, holder=holder, positions=self._writer.positions)
        return self._writer.run(work, found.number)

    def release(self, number: int, fence: int, *, wait: bool) -> None:
        work = partial(release, number=number, fence=fence)
        (self._writer.run_or_post if wait else self._writer.post)(work, number)

    def is_held(self, row: SessionRow) -> bool:
        holder = row.summary.holder
        if holder is None:
            return False
        if holder.is_visible:
            return bool(holder.is_alive())
        # By the clock of the database. Its restart keeps holders from beating: the time before it does not count.
        since = "greatest(beaten, extract(epoch from pg_postmaster_start_time())::double precision)"
        query = f"SELECT {NOW} - {since} FROM session WHERE number = $1 AND fence = $2 AND beat = $3"
        age = self._fetch(query, row.number, row.fence, row.beat)
        return not age or bool(age[0][0] < STALE_SECONDS)

    # Writing

    def submit(self, append: Append) -> PendingWrite:
        return self._writer.submit(append)

    def append(self, append: Append) -> None:
        self._writer.append(append)

    def fork(self, fork: Fork) -> None:
        self._change(partial(write_fork, fork=fork, created=time.time()))

    def add(self, incoming: Import) -> None:
        created = incoming.times[0] if incoming.times else time.time()
        self._change(partial(write_import, incoming=incoming, created=created))

    def delete(self, doomed: Sequence[SessionRow]) -> None:
        self._change(Deletion(doomed).run)

    def remove_unreferenced(self, snapshots: SnapshotStore) -> tuple[int, int]:
        count, size = self._change(remove_unreferenced_files)
        rows = self._fetch("SELECT body FROM event WHERE kind = $1", SnapshotEntry.kind)
        more, larger = remove_unreferenced(snapshots.folder, snapshots.referenced_by(body for (body,) in rows))
        return count + more, size + larger

    def passage_tables(self) -> PassageTables:
        from outrider.log.postgres.index import PostgresPassageTables  # few programs search

        return PostgresPassageTables(self._change)

    def usage_index(self) -> Index:
        from outrider.log.postgres.index import PostgresIndex  # few programs add up

        return PostgresIndex(self._change)

    def inbox_tables(self) -> InboxTables:
        from outrider.log.postgres.inbox import PostgresInbox  # few programs use them

        return InboxTables(PostgresInbox(self, self._change, self._writer, self._thread, self._database))


def _stop(thread: LoopThread, writer: PostgresWriter, reader: SteadyConnection, seconds: float) -> None:
    async def last() -> None:
        await writer.close()
        await reader.close()

    writer.disconnect_loops()
    thread.stop(last, seconds)
