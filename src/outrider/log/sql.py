"""SQL that is written once and run by SQLite and by Postgres, in the words of Postgres: `$1`, `= ANY($1)`.

Work of several statements is a generator: it yields each statement and gets its rows. So it does not matter whether its
database is asked in a thread or in an event loop. Work may be run again from its beginning if a connection breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


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
