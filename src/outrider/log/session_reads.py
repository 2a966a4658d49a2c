"""The reads of a log that are the same SQL in every database: lists of sessions, and pages of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outrider.errors import UnknownSessionError
from outrider.log.rows import LAST_SEQ, Extent, Row, in_order, is_intact
from outrider.log.session_filter import Condition, SessionFilter, inside
from outrider.log.summary import COLUMNS, INDEXABLE, Indexable, SessionRow, indexables, session_row

ROW = "session, seq, time, kind, body, checksum"
_LISTED = "parent = '' AND title <> ''"


class SessionReads:
    """A part of `Backend`, which describes the methods. A backend adds how a query is run."""

    @staticmethod
    def _setting(*path: str) -> str:
        """Return the SQL of one of a session's settings."""
        raise NotImplementedError

    def _fetch(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a query."""
        raise NotImplementedError

    def listed(self, where: SessionFilter, limit: int | None, offset: int, first: Sequence[str]) -> list[SessionRow]:
        condition, values = _numbered([*where.conditions(self._setting)], 3)
        order = "opened DESC"
        if first:
            is_first, folders = _numbered([inside(first, self._setting)], 3 + len(values))
            order, values = f"(CASE WHEN {is_first} THEN 0 ELSE 1 END), {order}", [*values, *folders]
        listed = f"{_LISTED} AND {condition} ORDER BY {order} LIMIT $1 OFFSET $2"
        return self._find(listed, LAST_SEQ if limit is None else limit, offset, *values)

    def indexable(self, where: SessionFilter) -> list[Indexable]:
        condition, values = _numbered([*where.conditions(self._setting)], 1)
        return indexables(self._fetch(f"SELECT {INDEXABLE} FROM session WHERE {condition} ORDER BY number", *values))

    def folders_and_models(self) -> tuple[list[str], list[str]]:
        found = self._fetch(f"SELECT DISTINCT {self._setting('cwd')}, model FROM session WHERE {_LISTED}")
        folders, models = {folder for folder, _ in found if folder}, {model for _, model in found if model}
        return sorted(folders), sorted(models)

    def with_prefix(self, prefix: str) -> list[SessionRow]:
        if "\0" in prefix:
            return []
        # Search the prefix as a range: the highest character sorts after every id with this prefix.
        return self._find("id >= $1 AND id < $2 ORDER BY id LIMIT 2", prefix, f"{prefix}\U0010ffff")

    def numbered(self, numbers: Sequence[int]) -> list[SessionRow]:
        return self._find("number = ANY($1)", list(numbers))

    def named(self, ids: Sequence[str]) -> list[SessionRow]:
        return self._find("id = ANY($1)", list(ids))

    def children(self, id: str) -> list[SessionRow]:
        # The second condition is redundant, but a partial index is used only with it.
        return self._find("parent = $1 AND parent <> '' ORDER BY number", id)

    def rows_before(self, extent: Extent, before: int, count: int) -> list[Row]:
        rows = self._fetch_rows("session = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3", extent.session, before, count)
        last = min(extent.last, before - 1) if extent.gapless else 0
        return list(in_order(rows[::-1], extent, _start(rows, count), last))

    def newest_rows(self, extent: Extent, count: int) -> list[Row]:
        rows = self._fetch_rows("session = $1 ORDER BY seq DESC LIMIT $2", extent.session, count)
        return list(in_order(rows[::-1], extent, _start(rows, count), extent.last))

    def rows_of_kinds(self, extent: Extent, kinds: Sequence[str]) -> list[Row]:
        rows = self._fetch_rows("session = $1 AND kind = ANY($2) ORDER BY seq", extent.session, list(kinds))
        return [each for each in rows if is_intact(each)]

    def stored_rows(self, number: int, after: int, count: int) -> list[Any]:
        return self._fetch_rows("session = $1 AND seq > $2 ORDER BY seq LIMIT $3", number, after, count)

    def head(self, number: int) -> tuple[int, bytes]:
        found = self._fetch("SELECT last, chain FROM session WHERE number = $1", number)
        if not found:
            raise UnknownSessionError("the session was just deleted")
        last, head = found[0]
        return last, head if isinstance(head, bytes) else b"damaged"

    def references(self, number: int) -> set[str]:
        return {name for (name,) in self._fetch("SELECT sha256 FROM reference WHERE session = $1", number)}

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
