"""The tables of the search index, whatever keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

from outrider.conversation.passages import Kind, Passage, SearchQuery
from outrider.log.rows import Row
from outrider.log.sql import Index, IndexDatabase, IndexedUpTo, Work, take_state

T = TypeVar("T")
MAX_TRIGRAMS = 12
"""Trigrams of one word that are looked up; the whole word is then compared."""


class IndexState(IndexedUpTo, frozen=True, array_like=True):
    """How far a session is indexed."""

    messages: int = 0
    calls: str = "{}"


class Scope(msgspec.Struct, frozen=True):
    """What is searched."""

    sessions: list[int] | None
    """The numbers of sessions; None for all that are indexed."""
    without: str
    """A tool whose calls and results are left out."""

    @property
    def is_one_session(self) -> bool:
        """Whether it is one session: then the order of its passages is that of their times."""
        return self.sessions is not None and len(self.sessions) == 1


class Hit(msgspec.Struct, frozen=True, array_like=True):
    """Where a passage is."""

    session: int
    seq: int
    time: float
    message: int
    reference: str
    kind: Kind
    tool: str


class IndexedPassage(msgspec.Struct, frozen=True):
    """A passage for the index: its row in the log, and its text for comparing."""

    row: Row
    passage: Passage
    folded: str

    @property
    def columns(self) -> tuple[int | float | str, ...]:
        """Those of the table, in the order of `PASSAGE`."""
        where, passage = self.row[:3], self.passage
        return *where, passage.message, passage.reference, passage.kind, passage.tool, self.folded


HIT = ", ".join(Hit.__struct_fields__)
PASSAGE = f"{HIT}, folded"
_STATE = ", ".join(IndexState.__struct_fields__)


class Passages(Protocol):
    """The tables of the index, while they are open. Each database has its own way to find trigrams."""

    _database: IndexDatabase
    _is_reference: str = "reference = $2"

    def together(self) -> AbstractContextManager[None]:
        """Add passages of several sessions in one transaction where a commit is slow. After an error none is added."""
        return self._database.together()

    def states(self) -> dict[int, IndexState]:
        """Return how far each session is indexed."""
        rows = self._database.fetch(f"SELECT session, {_STATE} FROM indexed")
        return {number: IndexState(*state) for number, *state in rows}

    def clear(self) -> None:
        """Empty the index."""

    def add(self, number: int, old: IndexState, new: IndexState, passages: Sequence[IndexedPassage]) -> IndexState:
        """Add passages in one transaction, if the state is still the old one. Return the state then."""

        def work() -> Work[IndexState]:
            state = yield from take_state("indexed", self._database.sessions, number, old, new)
            if state is None:
                yield from self._insert(passages)
            return state or new

        return self._database.run(work)

    def _insert(self, passages: Sequence[IndexedPassage]) -> Work[None]:
        """Insert those that are not there yet, with their trigrams."""

    def hits(self, query: SearchQuery, scope: Scope, limit: int) -> list[Hit]:
        """Return the best passages, those with all words whole first, then the newest."""

    def places(self, session: int, column: str, value: str | int) -> list[tuple[int, str]]:
        """Return the seqs and kinds of the passages with this `reference` or `message`, in order."""
        condition = self._is_reference if column == "reference" else "message = $2"
        query = f"SELECT seq, kind FROM passage WHERE session = $1 AND {condition} ORDER BY id"
        return self._database.fetch(query, session, value)

    def newest(self, session: int, count: int) -> list[tuple[str, int]]:
        """Return the references and messages of the newest passages, newest first."""
        query = "SELECT reference, message FROM passage WHERE session = $1 ORDER BY id DESC LIMIT $2"
        return self._database.fetch(query, session, count)

    def forget(self, numbers: Sequence[int]) -> None:
        """Remove what deleted sessions have left."""


class PassageTables(Index, Protocol):
    """The place of the index."""

    def open(self, work: Callable[[Passages], T]) -> T:
        """Run work on the tables, perhaps once more on empty ones. Raise LogError if that fails."""
