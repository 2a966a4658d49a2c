"""What a log promises, whatever keeps it. `log/sqlite` keeps it in a folder, `log/postgres` in a database.

All methods raise LogError, with what to do, and may be called from any thread. What a method has written is durable
when it returns. The fence of a session counts up with every holder; a write with an older one raises SessionLostError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from outrider.errors import UnknownSessionError
from outrider.log.rows import LAST_SEQ, Extent, Row, in_order, is_intact
from outrider.log.session_filter import Condition, SessionFilter, inside
from outrider.log.session_id import RANDOM_ID
from outrider.log.summary import COLUMNS, INDEXABLE, Indexable, SessionRow, indexables, session_row

if TYPE_CHECKING:
    from outrider.log.append import Append
    from outrider.log.copying import Fork, Import
    from outrider.log.entries import SessionStarted
    from outrider.log.holder import Holder
    from outrider.log.inbox_tables import InboxTables
    from outrider.log.passage_tables import PassageTables
    from outrider.log.pending_write import PendingWrite
    from outrider.log.session_files import FileStore
    from outrider.log.snapshot_store import SnapshotStore
    from outrider.log.sql import Index

LOST = "the session was taken over by another process, or deleted; open it again to continue from the disk"
ROW = "session, seq, time, kind, body, checksum"
_LISTED = "parent = '' AND title <> ''"


class Backend(Protocol):
    """The place where a log is kept. Reads that are the same SQL in every database are here."""

    url: str
    """The URL of the database, with its password; empty for a folder."""
    location: str
    """The place for messages: a folder, or a URL without its password."""
    store: FileStore
    """The bytes of attachments, by hash."""

    @cached_property
    def folder(self) -> Path:
        """The folder of this machine for what belongs to the log and is not in it: the snapshots of folders."""

    @property
    def warning(self) -> str:
        """A warning about the location for the user; empty if all is well."""

    def exists(self) -> bool:
        """Return whether there is a log. The first write creates it."""

    def close(self) -> None:
        """Finish what is queued, and disconnect. The next use connects again."""

    # Reading

    def listed(self, where: SessionFilter, limit: int | None, offset: int, first: Sequence[str]) -> list[SessionRow]:
        """Return the sessions that have a title and no parent, those in folders before others, then the newest used."""
        condition, values = _numbered([*where.conditions(self._setting)], 3)
        order = "opened DESC, number DESC"
        if first:
            is_first, folders = _numbered([inside(first, self._setting)], 3 + len(values))
            order, values = f"(CASE WHEN {is_first} THEN 0 ELSE 1 END), {order}", [*values, *folders]
        listed = f"{_LISTED} AND {condition} ORDER BY {order} LIMIT $1 OFFSET $2"
        return self._find(listed, LAST_SEQ if limit is None else limit, offset, *values)

    def indexable(self, where: SessionFilter) -> list[Indexable]:
        """Return how far each session goes that the filter describes, also those that no list shows."""
        condition, values = _numbered([*where.conditions(self._setting)], 1)
        return indexables(self._fetch(f"SELECT {INDEXABLE} FROM session WHERE {condition} ORDER BY number", *values))

    def folders_and_models(self) -> tuple[list[str], list[str]]:
        """Return the working folders and the models of the sessions that have a title and no parent, sorted."""
        found = self._fetch(f"SELECT DISTINCT {self._setting('cwd')}, model FROM session WHERE {_LISTED}")
        folders, models = {folder for folder, _ in found if folder}, {model for _, model in found if model}
        return sorted(folders), sorted(models)

    def with_prefix(self, prefix: str) -> list[SessionRow]:
        """Return the session with this id, or the first two of those with random ids that begin so, in order.

        The ids that programs choose count whole: `case-1` must not find `case-17`.
        """
        if "\0" in prefix:
            return []
        # Search the prefix as a range: the highest character sorts after every id with this prefix.
        condition = f"id >= $1 AND id < $2 AND (id = $1 OR length(id) = {RANDOM_ID}) ORDER BY id LIMIT 2"
        return self._find(condition, prefix, f"{prefix}\U0010ffff")

    def numbered(self, numbers: Sequence[int]) -> list[SessionRow]:
        """Return those of the sessions that are there."""
        return self._find("number = ANY($1)", list(numbers))

    def named(self, ids: Sequence[str]) -> list[SessionRow]:
        """Return those of the sessions that are there."""
        return self._find("id = ANY($1)", list(ids))

    def children(self, id: str) -> list[SessionRow]:
        """Return the sessions with this parent, in order."""
        # The second condition is redundant, but a partial index is used only with it.
        return self._find("parent = $1 AND parent <> '' ORDER BY number", id)

    def rows(self, extent: Extent, upto: int | None = None) -> Iterator[Row]:
        """Iterate over the rows of a session up to a seq. Raise DamagedLogError if any is missing or damaged."""

    def rows_after(self, extent: Extent, after: int, count: int) -> Iterator[Row]:
        """Iterate over the next rows after a seq. Raise DamagedLogError if any is missing or damaged."""

    def rows_before(self, extent: Extent, before: int, count: int) -> list[Row]:
        """Return the rows before a seq, oldest first. Raise DamagedLogError if any is missing or damaged."""
        rows = self._fetch_rows("session = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3", extent.session, before, count)
        last = min(extent.last, before - 1) if extent.gapless else 0
        return list(in_order(rows[::-1], extent, _start(rows, count), last))

    def rows_at(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Row]:
        """Return the rows by session number and seq, if they are there. Raise DamagedLogError if any is damaged."""

    def newest_rows(self, extent: Extent, count: int) -> list[Row]:
        """Return the newest rows, oldest first. Raise DamagedLogError if any is missing or damaged."""
        rows = self._fetch_rows("session = $1 ORDER BY seq DESC LIMIT $2", extent.session, count)
        return list(in_order(rows[::-1], extent, _start(rows, count), extent.last))

    def rows_of_kinds(self, extent: Extent, kinds: Sequence[str]) -> list[Row]:
        """Return the intact rows of these kinds, in order."""
        rows = self._fetch_rows("session = $1 AND kind = ANY($2) ORDER BY seq", extent.session, list(kinds))
        return [each for each in rows if is_intact(each)]

    def rows_of_each(
        self, starts: Sequence[tuple[Extent, int]], kinds: Sequence[str], count: int
    ) -> Iterator[list[Row]]:
        """Iterate over sessions: yield the next intact rows of these kinds after a seq of each, at most `count`."""

    def checksums(self, places: Mapping[int, int]) -> dict[int, tuple[str, int]]:
        """Return the id of each session, and the checksum of the entry that `places` names, where it is there."""

    def stored_rows(self, number: int, after: int, count: int) -> list[Any]:
        """Return the next rows after a seq as they are. In a damaged log they may hold anything."""
        return self._fetch_rows("session = $1 AND seq > $2 ORDER BY seq LIMIT $3", number, after, count)

    def head(self, number: int) -> tuple[int, bytes]:
        """Return the seq of a session's newest entry, and the newest link of its chain; empty if it has none."""
        found = self._fetch("SELECT last, chain FROM session WHERE number = $1", number)
        if not found:
            raise UnknownSessionError("the session was just deleted")
        last, head = found[0]
        return last, head if isinstance(head, bytes) else b"damaged"

    def references(self, number: int) -> set[str]:
        """Return the hashes of the files that a session may read."""
        return {name for (name,) in self._fetch("SELECT sha256 FROM reference WHERE session = $1", number)}

    # Holding

    def create(self, started: SessionStarted, append: Append, holder: Holder, link: Append | None) -> int:
        """Create a session with its first entries, held with fence 1, and return its number.

        The session's number in `append` is not known yet. `link` is appended to the parent in the same commit.
        """

    def acquire(self, found: SessionRow, holder: Holder) -> bool:
        """Hold a session with the next fence, unless another did meanwhile. Return whether this succeeded."""

    def release(self, number: int, fence: int, *, wait: bool) -> None:
        """Clear the holder if the fence is still this one."""

    def is_held(self, row: SessionRow) -> bool:
        """Return whether a live process holds the session."""

    # Writing

    def submit(self, append: Append) -> PendingWrite:
        """Queue entries and return a handle for the running event loop. Entries of a session stay in order."""

    def append(self, append: Append) -> None:
        """Append entries and wait."""

    def fork(self, fork: Fork) -> None:
        """Write a copy of a session."""

    def add(self, incoming: Import) -> None:
        """Write an imported session, under another id if the log has its id."""

    def delete(self, doomed: Sequence[SessionRow]) -> None:
        """Delete sessions, all or none. Raise SessionHeldError if one was opened since it was read."""

    def remove_unreferenced(self, snapshots: SnapshotStore) -> tuple[int, int]:
        """Delete the files that no session refers to. Return how many, and their size in bytes."""

    def passage_tables(self) -> PassageTables:
        """Return the tables of the search index."""

    def usage_index(self) -> Index:
        """Return the place of the usage index."""

    def inbox_tables(self) -> InboxTables:
        """Return the tables of questions and messages."""

    # How a query is run

    @staticmethod
    def _setting(*path: str) -> str:
        """Return the SQL of one of a session's settings."""

    def _fetch(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a query."""

    def _find(self, condition: str, *values: object) -> list[SessionRow]:
        return [session_row(row) for row in self._fetch(f"SELECT {COLUMNS} FROM session WHERE {condition}", *values)]

    def _fetch_rows(self, condition: str, *values: object) -> list[Row]:
        return self._fetch(f"SELECT {ROW} FROM event WHERE {condition}", *values)


def _numbered(parts: Sequence[Condition], first: int) -> tuple[str, list[str | float]]:
    """Return conditions as one, and their values, whose numbers begin with `first`."""
    sql, *rest = " AND ".join(["true", *(sql for sql, _ in parts)]).split("?")
    numbered = (f"${number}{text}" for number, text in enumerate(rest, first))
    return "".join([sql, *numbered]), [value for _, values in parts for value in values]


def _start(rows: Sequence[Row], count: int) -> int:
    """Return the seq before the oldest of the newest rows, which come newest first."""
    return rows[-1][1] - 1 if len(rows) == count and is_intact(rows[-1]) else 0
