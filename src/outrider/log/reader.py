"""Reading a log: lists of sessions, pages of their entries, search, and what they have used.

Few programs need all of it. What only some need is imported where it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.errors import UnknownSessionError
from outrider.log.entries import (
    CompactionEntry,
    Record,
    Requested,
    ResultsClearedEntry,
    RewindEntry,
    SessionSettings,
    SnapshotEntry,
)
from outrider.log.key import LogKey, Seal, foreign_note
from outrider.log.rows import LAST_SEQ, Extent, Row, known_records, records
from outrider.log.session_filter import SessionFilter
from outrider.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.conversation.passages import Found
    from outrider.log.audit import Decision
    from outrider.log.backend import Backend
    from outrider.log.cache_losses import CacheLoss
    from outrider.log.search import SearchIndex
    from outrider.log.session_files import SessionFiles
    from outrider.log.state import SessionState
    from outrider.log.summary import SessionRow, Summary
    from outrider.log.usage_index import UsageIndex, UsageReport
    from outrider.log.usage_tables import Dimension, TurnUsage
    from outrider.log.verification import Verification

PAGE = 200
"""The number of entries in one read from the end of a session."""
ALL_SESSIONS = SessionFilter()


class LogReader:
    """The sessions of a log, for reading. Nothing here changes a session or holds it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._key = LogKey()
        self._seal = Seal(self._key)

    @property
    def location(self) -> str:
        """Where the log is, for messages: the folder, or the URL without its password."""
        return self._backend.location

    @property
    def url(self) -> str:
        """The URL of the database, with its password: for connections, not for messages. Empty for a folder."""
        return self._backend.url

    @property
    def folder(self) -> Path:
        """The folder of the log. For one in Postgres, the folder of this machine that has its snapshots."""
        return self._backend.folder

    @property
    def warning(self) -> str:
        """A warning about the log's location for the user; empty if all is well."""
        return self._backend.warning

    # Sessions

    def sessions(
        self,
        limit: int | None = None,
        *,
        offset: int = 0,
        where: SessionFilter = ALL_SESSIONS,
        first: Sequence[str] = (),
    ) -> list[Summary]:
        """Return the sessions that have a title, the most recently used first, without those of sub-agents.

        `limit` and `offset` choose a page of them. Those that worked in the folders `first`, or inside one, come first.
        """
        if not isinstance(limit, int | None):
            raise TypeError(f"limit is a number; a filter is given by its name: where={type(limit).__name__}(…)")
        rows = self._backend.listed(where, limit, offset, first) if self._backend.exists() else []
        return [row.summary for row in rows]

    def folders_and_models(self) -> tuple[list[str], list[str]]:
        """Return the working folders and the models of all sessions, sorted."""
        return self._backend.folders_and_models() if self._backend.exists() else ([], [])

    def session(self, id: str) -> Summary:
        """Return the summary of a session, given its id, or a unique prefix of one that is random."""
        return self._find(id).summary

    def summaries(self, ids: Sequence[str]) -> dict[str, Summary]:
        """Return the summaries of those sessions that are there, by their whole ids."""
        rows = self._backend.named([clean(each) for each in ids]) if self._backend.exists() else []
        return {row.summary.id: row.summary for row in rows}

    def has(self, id: str) -> bool:
        """Return whether there is a session with this id, or with random ids that begin so."""
        return self._backend.exists() and bool(self._backend.with_prefix(id))

    def settings(self, id: str) -> SessionSettings:
        """Return the settings that a session continues with. Those that another wrote and that can widen are None."""
        row = self._find(id)
        return self._seal.own(row.summary.id, row.settings, row.summary.last)

    def claimed_settings(self, id: str) -> SessionSettings:
        """Return the settings that the log names, whoever wrote them: to show them, not to use them."""
        return self._find(id).settings

    def foreign_note(self, id: str) -> str:
        """Return a sentence for the user about a session that another wrote; "" for an own one."""
        row = self._find(id)
        return "" if self._seal.is_own(row.summary.id, row.settings) else foreign_note(row.summary.id, row.settings)

    # Entries

    def records(self, id: str, upto: int | None = None) -> Iterator[Record]:
        """Iterate over the entries of a session in order. Entries of a newer version become `UnknownEntry`."""
        yield from known_records(self._backend.rows(self._find(id).extent, upto))

    def shown_records(self, id: str) -> Iterator[Record]:
        """Iterate over the entries of the conversation as it is now: without those that a rewind left out."""
        if not self._find(id).settings.rewound:
            yield from self.records(id)
            return
        from outrider.log.state import without_rewound

        yield from without_rewound(self.records(id))

    def newest(self, id: str, count: int = PAGE) -> list[Record]:
        """Return the newest entries of a session, oldest first."""
        return list(known_records(self._backend.newest_rows(self._find(id).extent, count)))

    def before(self, id: str, seq: int, count: int = PAGE) -> list[Record]:
        """Return the entries before one of them, oldest first."""
        return list(known_records(self._backend.rows_before(self._find(id).extent, seq, count)))

    def after(self, id: str, seq: int, count: int = PAGE) -> list[Record]:
        """Return the next entries after one of them."""
        return list(known_records(self._backend.rows_after(self._find(id).extent, seq, count)))

    def rows(self, id: str) -> Iterator[Row]:
        """Iterate over the stored rows of a session."""
        yield from self._backend.rows(self._find(id).extent)

    def tail(self, extent: Extent, *, abridged: bool = False, whole: bool = False) -> tuple[list[Record], int]:
        """Return the tail of a session that can be replayed on its own, and the seq of the last entry before it.

        If the session is `abridged`, it begins with the messages that the newest compaction kept, or earlier. `whole`
        is for sessions with rewinds, which may go back to any message: then it is everything.
        """
        from outrider.log.state import fold, start_of_tail

        count = LAST_SEQ if whole else PAGE
        while True:
            page = list(records(self._backend.newest_rows(extent, count)))
            if len(page) < count:
                return page, 0
            start = start_of_tail([record.entry for record in page])
            if start is not None and (not abridged or fold(page[start:]).has_view):
                return page[start:], page[start].seq - 1
            count *= 8

    def messages(self, id: str, upto: int | None = None) -> list[Message]:
        """Return the conversation, or its beginning. Raise NewerLogError if this version cannot read all of it."""
        return self.state(id, upto).messages

    def state(self, id: str, upto: int | None = None) -> SessionState:
        """Return the state of a session after its entries. Raise NewerLogError if this version cannot read them all."""
        from outrider.log.state import fold

        return fold(records(self._backend.rows(self._find(id).extent, upto)))

    def state_at_end(self, id: str, upto: int, *, entries: int, size: int) -> tuple[SessionState, int]:
        """Return the state after the newest of the entries up to one, and the seq of the last entry that it leaves out.

        It begins with a reply and has about `entries` entries or `size` bytes; more if a compaction or a rewind needs
        them. The seq is 0 if the state has all messages that are sent.
        """
        from outrider.log.state import fold, start_of_tail

        row = self._find(id)
        count = min(PAGE, entries)
        while True:
            rows = self._backend.rows_before(row.extent, upto + 1, count)
            if len(rows) < count:
                return fold(records(rows)), 0
            is_enough = count >= entries or sum(len(each[4]) for each in rows) >= size
            page = list(records(rows)) if is_enough else []
            start = start_of_tail([record.entry for record in page])
            if start is not None:
                state = fold(page[start:])
                if not state.needs_earlier and (state.has_view or not row.settings.abridged):
                    return state, 0 if state.has_view else page[start].seq - 1
            count *= 4

    def shortenings(self, id: str) -> list[Record]:
        """Return the compactions of a session and the clearings of its old results, in order."""
        row = self._find(id)
        if not row.settings.abridged:
            return []
        kinds = CompactionEntry.kind, ResultsClearedEntry.kind
        return list(known_records(self._backend.rows_of_kinds(row.extent, kinds)))

    def requested(self, id: str, upto: int | None = None) -> Requested | None:
        """Return what the newest request had beside its messages, or that of the reply `upto`; None for old logs."""
        found: Requested | None = None
        for record in known_records(self._backend.rows_of_kinds(self._find(id).extent, [Requested.kind])):
            if isinstance(record.entry, Requested) and (upto is None or record.seq <= upto):
                found = found.merged(record.entry) if found else record.entry
        return found

    def snapshots(self, id: str) -> list[Record]:
        """Return the snapshots of the working folder, and the rewinds, in order; not those that another wrote."""
        kinds = SnapshotEntry.kind, RewindEntry.kind
        row = self._find(id)
        elsewhere = self._seal.own(row.summary.id, row.settings, row.summary.last).elsewhere or 0
        found = known_records(self._backend.rows_of_kinds(row.extent, kinds))
        return [record for record in found if record.seq > elsewhere]

    def files(self, id: str) -> SessionFiles:
        """Return the attachments of a session, for reading."""
        return self._files(self._find(id).number)

    def children(self, id: str) -> list[Summary]:
        """Return the sessions of the sub-agents that this session started, in order."""
        return [row.summary for row in self._children(self._find(id))]

    # Decisions

    def audit(self, id: str) -> list[Decision]:
        """Return who decided about each call of a session, and what came of it; then those of its sub-agents."""
        return self._audit(self._find(id), {})

    def verify(self, id: str) -> Verification:
        """Return whether the entries of a session are as they were written, and the first that is not.

        The chain of its entries proves it with the key of this machine, or `OUTRIDER_LOG_KEY`.
        """
        from outrider.log.chain import Chain  # few programs verify anything
        from outrider.log.verification import verify

        row = self._find(id)
        return verify(self._backend, row, Chain(self._key, row.summary.id), self._seal)

    # Usage

    def usage_of_children(self, id: str) -> Usage:
        """Return the total usage of a session's sub-agents."""
        return sum((child.usage for child in self.children(id)), Usage())

    def used(self, dimension: Dimension, *, since: float = 0.0, seconds: float = threading.TIMEOUT_MAX) -> UsageReport:
        """Return what all requests from a time on have used, by quarter of an hour, by model or by folder.

        Those of sub-agents count, too. What is new since the last use is indexed first, for about `seconds`; the report
        says whether that was enough.
        """
        from outrider.log.usage_index import IndexProgress, UsageReport

        if not self._backend.exists():
            return UsageReport(IndexProgress(0, 0), [])
        return self._usage.sums(dimension, since, seconds)

    def spent(self, start: float, end: float, *, folder: str = "", owner: str = "") -> float:
        """Return the US dollars that requests between two times have cost: all, or those in a folder, or of an owner.

        It counts in quarters of an hour, whose beginnings are those of days everywhere. What is new is indexed first.
        """
        return self._usage.cost(start, end, folder=folder, owner=owner) if self._backend.exists() else 0.0

    def cache_losses(self, id: str) -> list[CacheLoss]:
        """Return the requests of a session that paid again for tokens that were cached, with the reason of each."""
        from outrider.log.cache_losses import KINDS, cache_losses

        return cache_losses(known_records(self._backend.rows_of_kinds(self._find(id).extent, KINDS)))

    def cache_loss(self, id: str, seq: int) -> CacheLoss | None:
        """Return what the request of one reply lost of its cache, if it did. Few entries before it are read."""
        from outrider.log.cache_losses import cache_losses, has_usage

        parts = self._backend.rows_of_kinds(self._find(id).extent, (Requested.kind,))
        for count in (100, 1_000, seq):  # until it has the reply before
            first = max(0, seq - count)
            end = self.after(id, first, seq - first)
            if first == 0 or any(has_usage(each.entry) for each in end[:-1]):
                break
        earlier = [each for each in known_records(parts) if each.seq <= first]
        found = cache_losses([*earlier, *end])
        return found[-1] if found and found[-1].seq == seq else None

    def turns(self, id: str) -> list[TurnUsage]:
        """Return the context of a session after each of its replies and compactions, in order."""
        return self._usage.turns(self._find(id))

    # Searching

    def search(
        self,
        query: str,
        session: str | None = None,
        *,
        limit: int = 20,
        without: str = "",
        where: SessionFilter = ALL_SESSIONS,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Found]:
        """Return what was said, called or returned that contains all words of the query, the newest first.

        It covers one session by its id, or all that `where` describes. Words in double quotes are one phrase. `without`
        is a tool whose calls and results are left out. `progress` is called between steps with the number of new
        entries that are indexed, and of all that must be.
        """
        if session is None:
            covered = self._backend.indexable(where) if self._backend.exists() else []
        else:
            covered = [self._find(session).indexable]
        are_all = session is None and where == ALL_SESSIONS
        return self._index.search(query, covered, limit, progress, without, are_all=are_all)

    def recall(
        self, id: str, reference: str, *, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> list[Message]:
        """Return message N of a session by `#N`, or a call and its result by the call's id. Empty if there is none."""
        return self._index.recall(self._find(id), reference, progress)

    def references(self, id: str) -> list[str]:
        """Return the newest references of a session that was searched, the newest first."""
        return self._index.references(self._find(id))

    # Internals

    @cached_property
    def _index(self) -> SearchIndex:
        from outrider.log.search import SearchIndex  # few programs search

        return SearchIndex(self._backend, self._files, self._backend.passage_tables())

    @cached_property
    def _usage(self) -> UsageIndex:
        from outrider.log.usage_index import UsageIndex

        return UsageIndex(self._backend, self._backend.usage_index())

    def _find(self, name: str) -> SessionRow:
        wanted = clean(name)
        if not self._backend.exists():
            raise UnknownSessionError(f"there is no session {wanted!r}: {self.location} has no log")
        if not wanted:
            raise UnknownSessionError("give the id of a session; `outrider sessions` lists them")
        found = self._backend.with_prefix(wanted)
        if not found:
            raise UnknownSessionError(f"there is no session {wanted!r}; `outrider sessions` lists them")
        if len(found) > 1 and found[0].summary.id != wanted:
            raise UnknownSessionError(f"several sessions begin with {wanted!r}; give more of the id")
        return found[0]

    def _audit(self, row: SessionRow, asked: dict[str, Decision]) -> list[Decision]:
        from outrider.log.audit import decisions

        found = decisions(row.summary.id, known_records(self._backend.rows(row.extent)), asked)
        asked = asked | {each.call_id: each for each in found if each.about}
        return [*found, *(each for child in self._children(row) for each in self._audit(child, asked))]

    def _children(self, row: SessionRow) -> list[SessionRow]:
        return self._backend.children(row.summary.id)

    def _files(self, number: int) -> SessionFiles:
        from outrider.log.session_files import SessionFiles

        return SessionFiles(self._backend.store, partial(self._backend.references, number))
