"""What the requests of all sessions have used: an index beside the log, so that sums and turns need no messages.

It is brought up to date when someone asks, never by a write, and only with entries that are new.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from outrider.log.backend import Backend
from outrider.log.entries import CompactionEntry, MessageEntry, SessionStarted
from outrider.log.rows import Row, decode_if_known
from outrider.log.session_filter import SessionFilter
from outrider.log.sql import Index, IndexDatabase
from outrider.log.summary import Indexable, SessionRow
from outrider.log.usage_tables import (
    USED_KINDS,
    Dimension,
    RequestUsage,
    TurnUsage,
    UsageAdvance,
    Usages,
    UsageState,
    UsageSums,
    quarter_of,
    used_in,
)
from outrider.text import clean

STEP_ROWS = 4_000
"""Entries that one step reads at most; others can read and write between two steps."""
OVERLAP_SECONDS = 60.0
"""Sessions that changed this long before the last look are looked at again: the clocks of writers differ."""


Behind: TypeAlias = tuple[Indexable, UsageState]
"""A session with new entries, and how far it is indexed."""


class IndexProgress(NamedTuple):
    """How much was indexed of what was new."""

    done: int
    """Entries."""
    total: int

    @property
    def is_complete(self) -> bool:
        """Whether all entries are indexed."""
        return self.done >= self.total


class UsageReport(NamedTuple):
    """Sums, and how much of the log they cover."""

    progress: IndexProgress
    sums: list[tuple[str | int, UsageSums]]


class UsageIndex:
    """The usage index of a log. It is opened for each use; several threads and processes may share it."""

    def __init__(self, log: Backend, tables: Index) -> None:
        self._log = log
        self._tables = tables
        self._updating = threading.Lock()
        self._looked: tuple[float, float, int] | None = None
        """When the index was last complete, by the clock and by one that nobody moves, and how many sessions it had."""
        self._progress = IndexProgress(0, 1)

    def sums(self, dimension: Dimension, since: float, seconds: float) -> UsageReport:
        """Return the sums from a time on, after indexing what is new for about so long. The next use continues."""

        def work(database: IndexDatabase) -> UsageReport:
            index = Usages(database)
            progress = self._update(index, seconds if index.is_kept else threading.TIMEOUT_MAX)
            return UsageReport(progress, index.sums(dimension, quarter_of(since)))

        return self._tables.use(work)

    def cost(self, start: float, end: float, *, folder: str = "", owner: str = "") -> float:
        """Return what the requests between two times have cost: all, or those in a folder, or of an owner."""

        def work(database: IndexDatabase) -> float:
            index = Usages(database)
            self._update(index, threading.TIMEOUT_MAX)
            mine = [each.number for each in self._log.indexable(SessionFilter(owner=owner))] if owner else None
            return index.cost(quarter_of(start), quarter_of(end), clean(folder), mine)

        return self._tables.use(work)

    def turns(self, session: SessionRow) -> list[TurnUsage]:
        """Return the replies and compactions of a session, in order."""

        def work(database: IndexDatabase) -> list[TurnUsage]:
            index = Usages(database)
            self._advance(index, self._behind_of(index, [session.indexable]))
            return index.turns(session.number)

        return self._tables.use(work)

    def forget(self, sessions: Iterable[SessionRow]) -> None:
        """Remove deleted sessions."""
        if self._tables.exists():
            numbers = [row.number for row in sessions]
            self._tables.use(lambda database: Usages(database).forget(numbers))

    # Updating

    def _update(self, index: Usages, seconds: float) -> IndexProgress:
        """Index what is new in all sessions, unless another thread does."""
        if not self._updating.acquire(timeout=seconds):
            return self._progress
        try:
            began, steady = time.time(), time.monotonic()
            self._progress = IndexProgress(0, 1)
            behind = self._behind(index)  # before the clock starts: however short the time is, each use gets further
            self._progress = self._advance(index, behind, time.monotonic() + seconds)
            if self._progress.is_complete:
                self._looked = began, steady, index.count()
            return self._progress
        finally:
            self._updating.release()

    def _advance(self, index: Usages, behind: Sequence[Behind], deadline: float = float("inf")) -> IndexProgress:
        """Index what is new in these sessions."""
        total = sum(each.last - state.seq for each, state in behind)
        done = 0
        for group in _groups(behind):
            if time.monotonic() > deadline:
                break
            done += self._index_group(index, group, deadline)
        return IndexProgress(done, total)

    def _behind(self, index: Usages) -> list[Behind]:
        """Return the sessions with new entries. After a complete update only those that changed since are looked at."""
        if not self._tables.is_separate:  # the database has a clock of its own, and can tell without
            return self._behind_of(index, [row.indexable for row in self._log.numbered(index.behind())])
        if self._looked and self._looked[2] <= index.count() and not self._was_moved:
            return self._behind_of(index, self._log.indexable(SessionFilter(since=self._looked[0] - OVERLAP_SECONDS)))
        sessions = self._log.indexable(SessionFilter())
        return _with_news(sessions, self._without_stale(index, sessions, index.states()))

    @property
    def _was_moved(self) -> bool:
        """Whether the clock was moved since the last look: the times of sessions then do not say which are new."""
        assert self._looked
        since, steady, _ = self._looked
        return abs((time.time() - since) - (time.monotonic() - steady)) > OVERLAP_SECONDS / 2

    def _behind_of(self, index: Usages, sessions: Sequence[Indexable]) -> list[Behind]:
        return _with_news(sessions, index.states([each.number for each in sessions]))

    def _without_stale(
        self, index: Usages, sessions: Sequence[Indexable], states: dict[int, UsageState]
    ) -> dict[int, UsageState]:
        """Remove the sessions that the log does not have as they were indexed. Return the other ones."""
        last = {each.number: each.last for each in sessions}
        found = self._log.checksums({number: state.seq for number, state in states.items()})
        stale = {
            number
            for number, state in states.items()
            if state.seq > last.get(number, -1)
            or found.get(number, (state.id, state.checksum)) != (state.id, state.checksum)
        }
        if stale:
            index.forget(list(stale))
        return {number: state for number, state in states.items() if number not in stale}

    def _index_group(self, index: Usages, group: Sequence[Behind], deadline: float) -> int:
        """Index sessions step by step. Return the number of entries that this covers."""
        done = 0
        while group and time.monotonic() <= deadline:
            after = self._step(index, group)
            done += sum(new.seq - old.seq for (_, old), new in zip(group, after, strict=True))
            pairs = zip(group, after, strict=True)
            group = [(each, new) for (each, old), new in pairs if new != old and new.seq < each.last]
        return done

    def _step(self, index: Usages, group: Sequence[Behind]) -> list[UsageState]:
        """Index the next entries of each session, in one transaction if it can be. Return the states then."""
        sessions = {row.number: row for row in self._log.numbered([each.number for each, _ in group])}
        checksums = self._log.checksums({each.number: each.last for each, _ in group})
        starts = [(each.extent, old.seq) for each, old in group]
        rows = self._log.rows_of_each(starts, (SessionStarted.kind, *USED_KINDS), STEP_ROWS)
        states: list[UsageState] = []
        with index.together():
            for (each, old), its_rows in zip(group, rows, strict=True):
                session = sessions.get(each.number)
                if session is None or session.summary.id != each.id:  # deleted meanwhile
                    states.append(UsageState(each.id, each.last))
                    continue
                end = each.last, checksums.get(each.number, ("", 0))[1]
                if len(its_rows) == STEP_ROWS:
                    end = its_rows[-1][1], its_rows[-1][5]
                summary = session.summary
                states.append(index.advance(_step_of(each, old, its_rows, end, summary.model, summary.folder)))
        return states


def _step_of(
    each: Indexable, old: UsageState, rows: Sequence[Row], end: tuple[int, int], model: str, folder: str
) -> UsageAdvance:
    sums: dict[tuple[int, str], UsageSums] = {}
    turns: list[TurnUsage] = []
    copied = _copied(rows)
    for used in used_in(row for row in rows if row[1] <= end[0]):
        if used.seq > copied:
            sums.setdefault((quarter_of(used.time), used.model), UsageSums()).add(used)
        if (turn := _turn(used)) is not None:
            turns.append(turn)
    return UsageAdvance(each.number, old, UsageState(each.id, *end, model, folder), sums, turns)


def _copied(rows: Sequence[Row]) -> int:
    """Return the last entry of a fork that counts for the original."""
    if not rows or rows[0][3] != SessionStarted.kind:
        return 0
    return getattr(decode_if_known(rows[0][3], rows[0][4]), "forked_at", 0)


def _turn(used: RequestUsage) -> TurnUsage | None:
    """Return the turn that a request ends; None for an attempt that failed, or for a title."""
    if used.kind == CompactionEntry.kind:
        return TurnUsage(used.seq, used.time, used.tokens_after, is_compaction=True, cost=used.usage.cost)
    if used.kind == MessageEntry.kind:
        return TurnUsage(used.seq, used.time, used.usage.context, is_compaction=False, cost=used.usage.cost)
    return None


def _with_news(sessions: Iterable[Indexable], states: dict[int, UsageState]) -> list[Behind]:
    found = ((each, states.get(each.number) or UsageState(each.id)) for each in sessions)
    return [(each, state) for each, state in found if state.seq < each.last]


def _groups(behind: Iterable[Behind]) -> Iterator[list[Behind]]:
    """Yield sessions that one transaction indexes: a commit for each of many small ones would take most of the time."""
    group: list[Behind] = []
    entries = 0
    for each, state in behind:
        if group and entries + each.last - state.seq > STEP_ROWS:
            yield group
            group, entries = [], 0
        group.append((each, state))
        entries += each.last - state.seq
    if group:
        yield group
