"""The usage index of a log in a folder: `usage.db`, which can be built again from the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import msgspec

from outrider.log.sqlite.index_file import IndexFile, transaction
from outrider.log.usage_tables import Dimension, TurnUsage, UsageAdvance, Usages, UsageState, UsageSums

T = TypeVar("T")
APPLICATION = 0x4F555455
FORM = 1
"""The form of the tables. A file of another form is built again."""

_TABLES = """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY,  -- as in the log
        id TEXT NOT NULL,
        seq INTEGER NOT NULL,        -- the newest entry that is indexed
        checksum INTEGER NOT NULL,   -- of that entry: another one means another log
        model TEXT NOT NULL,
        folder TEXT NOT NULL
    );
    CREATE TABLE used (
        session INTEGER NOT NULL,
        quarter INTEGER NOT NULL,    -- of an hour
        model TEXT NOT NULL,         -- empty for that of the session
        requests INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        cost REAL NOT NULL,
        first_token REAL NOT NULL,
        measured INTEGER NOT NULL,
        PRIMARY KEY (session, quarter, model)
    ) WITHOUT ROWID;
    CREATE TABLE turn (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        tokens INTEGER NOT NULL,     -- of the context
        is_compaction INTEGER NOT NULL,
        cost REAL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
"""
_SUMS = UsageSums.__struct_fields__
_ADD = (
    f"INSERT INTO used VALUES ({', '.join('?' * (3 + len(_SUMS)))}) ON CONFLICT DO UPDATE SET "
    f"{', '.join(f'{name} = {name} + excluded.{name}' for name in _SUMS)}"
)
_COLUMNS: dict[Dimension, str] = {
    "quarter": "used.quarter",
    "model": "coalesce(nullif(used.model, ''), session.model)",
    "folder": "session.folder",
}


class SqliteUsageTables:
    """The file of the index."""

    is_separate = True

    def __init__(self, path: Path) -> None:
        self._file = IndexFile(path, "usage index", APPLICATION, FORM, _TABLES)

    def exists(self) -> bool:
        """Return whether there is an index."""
        return self._file.exists()

    def run(self, work: Callable[[Usages], T]) -> T:
        """Run work on the index."""
        return self._file.run(lambda index: work(_SqliteUsages(index)))


class _SqliteUsages:
    """The open index."""

    def __init__(self, index: sqlite3.Connection) -> None:
        self._index = index

    @property
    def is_kept(self) -> bool:
        return bool(self._index.execute("PRAGMA database_list").fetchone()[2])

    def states(self, numbers: Sequence[int] | None = None) -> dict[int, UsageState]:
        query = "SELECT number, id, seq, checksum, model, folder FROM session"
        if numbers is None:
            found = self._index.execute(query)
        else:
            found = self._index.execute(f"{query} WHERE {_among('number')}", (_json(numbers),))
        return {number: UsageState(*state) for number, *state in found}

    def count(self) -> int:
        count: int = self._index.execute("SELECT count(*) FROM session").fetchone()[0]
        return count

    def advance(self, step: UsageAdvance) -> UsageState:
        index, number = self._index, step.number
        with transaction(index):
            found = self.states([number]).get(number) or UsageState(step.new.id)
            if found != step.old:  # another process was quicker, or has emptied the index
                return found
            index.executemany(_ADD, [(number, *key, *msgspec.structs.astuple(sums)) for key, sums in step.sums.items()])
            index.executemany("INSERT INTO turn VALUES (?, ?, ?, ?, ?, ?)", [(number, *turn) for turn in step.turns])
            state = number, *msgspec.structs.astuple(step.new)
            index.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?)", state)
        return step.new

    def together(self) -> AbstractContextManager[None]:
        return transaction(self._index)

    def forget(self, numbers: Sequence[int]) -> None:
        with transaction(self._index):
            for table, column in (("used", "session"), ("turn", "session"), ("session", "number")):
                self._index.execute(f"DELETE FROM {table} WHERE {_among(column)}", (_json(numbers),))

    def sums(self, dimension: Dimension, since: int) -> list[tuple[str | int, UsageSums]]:
        sums = ", ".join(f"sum(used.{name})" for name in _SUMS)
        query = (
            f"SELECT {_COLUMNS[dimension]}, {sums} FROM used JOIN session ON session.number = used.session "
            "WHERE used.quarter >= ? GROUP BY 1"
        )
        return [(name, UsageSums(*values)) for name, *values in self._index.execute(query, (since,))]

    def turns(self, number: int) -> Iterator[TurnUsage]:
        query = "SELECT seq, time, tokens, is_compaction, cost FROM turn WHERE session = ? ORDER BY seq"
        for seq, time, tokens, is_compaction, cost in self._index.execute(query, (number,)):
            yield TurnUsage(seq, time, tokens, bool(is_compaction), cost)


def _among(column: str) -> str:
    return f"{column} IN (SELECT value FROM json_each(?))"


def _json(numbers: Sequence[int]) -> str:
    return msgspec.json.encode(numbers).decode()
