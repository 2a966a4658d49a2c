"""SQL that is written once and run by SQLite and by Postgres, in the words of Postgres: `$1`, `= ANY($1)`.

Work of several statements is a generator: it yields each statement and gets its rows. So it does not matter whether its
database is asked in a thread or in an event loop. Work may be run again from its beginning if a connection breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
S = TypeVar("S", bound="IndexedUpTo")


class Statement(NamedTuple):
    """A statement with its values; `rows` instead of them runs it once for each."""

    sql: str
    values: Sequence[Any] = ()
    rows: Sequence[Sequence[Any]] | None = None


Work: TypeAlias = Generator[Statement, list[Any], T]


class IndexDatabase(Protocol):
    """An index that is open."""

    @property
    def is_kept(self) -> bool:
        """Whether the next use finds what this one adds. Else the folder cannot be written."""

    @property
    def sessions(self) -> str:
        """The rest of a SELECT that has one row if the session $1 may be indexed."""

    def fetch(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""

    def run(self, work: Callable[[], Work[T]]) -> T:
        """Run work in one transaction."""

    def together(self) -> AbstractContextManager[None]:
        """Run several works in one transaction where a commit is slow. After an error none is done."""


class Index(Protocol):
    """The place of an index."""

    @property
    def is_separate(self) -> bool:
        """Whether the index is in a file of its own, which may be older than the log, or of another log."""

    def exists(self) -> bool:
        """Return whether anything was ever indexed."""

    def use(self, work: Callable[[IndexDatabase], T]) -> T:
        """Open the index for some work, perhaps once more an empty one. Raise LogError if that fails."""


class IndexedUpTo(msgspec.Struct, frozen=True, array_like=True):
    """How far a session is indexed: a row of an index, which has two more columns."""

    id: str
    seq: int = 0
    checksum: int = 0
    """That of entry `seq`: another one means another log. 0 if the entry is damaged."""


def take_state(table: str, sessions: str, number: int, old: S, new: S) -> Work[S | None]:
    """Store how far a session is indexed if that is still `old`; else return how far it is.

    The row is taken first in a transaction, so that one process at a time indexes a session. Appends do not wait.
    """
    names = new.__struct_fields__
    columns, values = ", ".join(names), ", ".join(f"excluded.{name}" for name in names)
    known = f"$7 = 0 OR EXISTS (SELECT 1 FROM {table} WHERE session = $1)"
    take = (
        f"INSERT INTO {table} AS known (session, {columns}) SELECT $1, $2, $3, $4, $5, $6 {sessions} AND ({known}) "
        f"ON CONFLICT (session) DO UPDATE SET ({columns}) = ({values}) "
        "WHERE known.seq = $7 AND known.checksum = $8 RETURNING 1"
    )
    if (yield Statement(take, (number, *msgspec.structs.astuple(new), old.seq, old.checksum))):
        return None
    # Another process was quicker, or has emptied the index, or the session is gone.
    found = yield Statement(f"SELECT {columns} FROM {table} WHERE session = $1", (number,))
    return type(new)(*found[0]) if found else type(new)(new.id)
