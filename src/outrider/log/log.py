"""The log of all sessions in one place: list, read, open, fork, rename and delete them.

Most programs that import `Log` keep no log. What only an open log needs is imported where it is used.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property, partial
from typing import TYPE_CHECKING

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Message, Usage
from outrider.errors import LogError, SessionHeldError, UnknownSessionError
from outrider.log.entries import (
    CompactionEntry,
    Record,
    ResultsClearedEntry,
    RewindEntry,
    SessionSettings,
    SessionStarted,
    SnapshotEntry,
    SubagentLinked,
)
from outrider.log.rows import LAST_SEQ, Extent, Row, known_records, records
from outrider.log.session_filter import SessionFilter
from outrider.text import clean
from outrider.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.conversation.passages import Found
    from outrider.log.append import Append
    from outrider.log.backend import Backend
    from outrider.log.copying import ImportedEntry
    from outrider.log.files import SessionFiles
    from outrider.log.holder import Holder
    from outrider.log.inbox import Inbox
    from outrider.log.journal import Journal
    from outrider.log.replay import Replay
    from outrider.log.search import SearchIndex
    from outrider.log.snapshot_store import SnapshotStore
    from outrider.log.summary import SessionRow, Summary
    from outrider.log.usage_index import UsageIndex, UsageReport
    from outrider.log.usage_tables import Dimension, Turn

ID = "[0-9a-f]{32}"
POSTGRES = ("postgresql://", "postgres://")
PAGE = 200
"""The number of entries in one read from the end of a session."""
ALL_SESSIONS = SessionFilter()


class Log:
    """Durable sessions in a folder, or in a Postgres database by its URL.

    In a folder they are in `log.db`, with `attachments/` beside it, and only the owner has access. Any process can read
    a session. One process at a time can hold it open for writing.

    >>> import asyncio, tempfile
    >>> from outrider import Agent, Session
    >>> log = Log(tempfile.mkdtemp())
    >>> with Session.open(log, agent=Agent(model="demo")) as session:
    ...     asyncio.run(session.run("What is 2+2?")).text
    '4'
    >>> [summary.title for summary in log.sessions()]
    ['What is 2+2?']
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._held: dict[int, int] = {}
        """The fence of each session that is open here, by session number."""
        self._token = os.urandom(8).hex()
        self._backend = _backend(place, self._held)

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

    def close(self) -> None:
        """Release all sessions and disconnect. The next use of the log connects again."""
        for number, fence in list(self._held.items()):
            self._release(number, fence, wait=False)
        if "inbox" in vars(self):
            self.inbox.close()
        self._backend.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def warning(self) -> str:
        """A warning about the log's location for the user; empty if all is well."""
        return self._backend.warning

    # Reading

    def sessions(
        self, limit: int | None = None, *, offset: int = 0, where: SessionFilter = ALL_SESSIONS
    ) -> list[Summary]:
        """Return the sessions that have a title, the most recently opened first, without those of sub-agents.

        `limit` and `offset` choose a page of them.
        """
        rows = self._backend.listed(where, limit, offset) if self._backend.exists() else []
        return [row.summary for row in rows]

    def folders_and_models(self) -> tuple[list[str], list[str]]:
        """Return the working folders and the models of all sessions, sorted."""
        return self._backend.folders_and_models() if self._backend.exists() else ([], [])

    def session(self, id: str) -> Summary:
        """Return the summary of a session, given its id or a unique prefix of it."""
        return self._find(id).summary

    def summaries(self, ids: Sequence[str]) -> dict[str, Summary]:
        """Return the summaries of those sessions that are there, by their whole ids."""
        rows = self._backend.named([clean(each) for each in ids]) if self._backend.exists() else []
        return {row.summary.id: row.summary for row in rows}

    def has(self, id: str) -> bool:
        """Return whether there is a session with this id, or with ids that begin so."""
        return self._backend.exists() and bool(self._backend.with_prefix(id))

    def settings(self, id: str) -> SessionSettings:
        """Return the current settings of a session: model, system prompt, tools, limits."""
        return self._find(id).settings

    def records(self, id: str, upto: int | None = None) -> Iterator[Record]:
        """Iterate over the entries of a session in order. Entries of a newer version become `UnknownEntry`."""
        yield from known_records(self._backend.rows(self._find(id).extent, upto))

    def shown_records(self, id: str) -> Iterator[Record]:
        """Iterate over the entries of the conversation as it is now: without those that a rewind left out."""
        if not self._find(id).settings.rewound:
            yield from self.records(id)
            return
        from outrider.log.replay import without_rewound

        yield from without_rewound(self.records(id))

    def newest(self, id: str, count: int = PAGE) -> list[Record]:
        """Return the newest entries of a session, oldest first."""
        return list(known_records(self._backend.newest_rows(self._find(id).extent, count)))

    def before(self, id: str, seq: int, count: int = PAGE) -> list[Record]:
        """Return the entries before one of them, oldest first."""
        return list(known_records(self._backend.rows_before(self._find(id).extent, seq, count)))

    def after(self, id: str, seq: int, count: int = PAGE) -> list[Record]:
        """Return the next entries after one of them."""
        extent = self._find(id).extent
        if seq >= extent.last:
            return []
        return list(known_records(self._backend.rows_after(extent, seq, count)))

    def rows(self, id: str) -> Iterator[Row]:
        """Iterate over the stored rows of a session."""
        yield from self._backend.rows(self._find(id).extent)

    def tail(self, extent: Extent, *, abridged: bool = False, whole: bool = False) -> tuple[list[Record], int]:
        """Return the tail of a session that can be replayed on its own, and the seq of the last entry before it.

        If the session is `abridged`, it begins with the messages that the newest compaction kept, or earlier. `whole`
        is for sessions with rewinds, which may go back to any message: then it is everything.
        """
        from outrider.log.replay import has_view, start_of_tail

        count = LAST_SEQ if whole else PAGE
        while True:
            page = list(records(self._backend.newest_rows(extent, count)))
            if len(page) < count:
                return page, 0
            start = start_of_tail([record.entry for record in page])
            if start is not None and (not abridged or has_view(page[start:])):
                return page[start:], page[start].seq - 1
            count *= 8

    def messages(self, id: str, upto: int | None = None) -> list[Message]:
        """Return the conversation, or its beginning. Raise NewerLogError if this version cannot read all of it."""
        return self.replay(id, upto).messages

    def replay(self, id: str, upto: int | None = None) -> Replay:
        """Return the state of a session after its entries. Raise NewerLogError if this version cannot read them all."""
        from outrider.log.replay import replayed

        return replayed(records(self._backend.rows(self._find(id).extent, upto)))

    def replay_end(self, id: str, upto: int, *, entries: int, size: int) -> tuple[Replay, int]:
        """Return the state after the newest of the entries up to one, and the seq of the last entry that it leaves out.

        It begins with a reply and has about `entries` entries or `size` bytes; more if a compaction or a rewind needs
        them. The seq is 0 if the state has all messages that are sent.
        """
        from outrider.log.replay import replayed, start_of_tail

        row = self._find(id)
        count = min(PAGE, entries)
        while True:
            rows = self._backend.rows_before(row.extent, upto + 1, count)
            if len(rows) < count:
                return replayed(records(rows)), 0
            is_enough = count >= entries or sum(len(each[4]) for each in rows) >= size
            page = list(records(rows)) if is_enough else []
            start = start_of_tail([record.entry for record in page])
            if start is not None:
                replay = replayed(page[start:])
                has_view = replay.summary is not None and replay.start >= 0
                if not replay.needs_earlier and (has_view or not row.settings.abridged):
                    return replay, 0 if has_view else page[start].seq - 1
            count *= 4

    def shortenings(self, id: str) -> list[Record]:
        """Return the compactions of a session and the clearings of its old results, in order."""
        row = self._find(id)
        if not row.settings.abridged:
            return []
        kinds = CompactionEntry.kind, ResultsClearedEntry.kind
        return list(known_records(self._backend.rows_of_kinds(row.extent, kinds)))

    def snapshots(self, id: str) -> list[Record]:
        """Return the snapshots of the working folder, and the rewinds, in order."""
        kinds = SnapshotEntry.kind, RewindEntry.kind
        return list(known_records(self._backend.rows_of_kinds(self._find(id).extent, kinds)))

    def files(self, id: str) -> SessionFiles:
        """Return the attachments of a session, for reading."""
        return self._files(self._find(id).number)

    def children(self, id: str) -> list[Summary]:
        """Return the sessions of the sub-agents that this session started, in order."""
        return [row.summary for row in self._children(self._find(id))]

    def usage_of_children(self, id: str) -> Usage:
        """Return the total usage of a session's sub-agents."""
        return sum((child.usage for child in self.children(id)), Usage())

    def used(self, dimension: Dimension, *, since: float = 0.0, seconds: float = threading.TIMEOUT_MAX) -> UsageReport:
        """Return what all requests from a time on have used, by quarter of an hour, by model or by folder.

        Those of sub-agents count, too. What is new since the last use is indexed first, for about `seconds`; the report
        says whether that was enough.
        """
        from outrider.log.usage_index import Progress, UsageReport

        if not self._backend.exists():
            return UsageReport(Progress(0, 0), [])
        return self._usage.sums(dimension, since, seconds)

    def turns(self, id: str) -> list[Turn]:
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

    # Opening

    def create(self, settings: SessionSettings | None = None, *, parent: str = "", id: str = "") -> Journal:
        """Create a session and hold it. Its id is random unless one is given, which must be new: 32 hex digits."""
        return self._create(SessionStarted(id or os.urandom(16).hex(), __version__, parent=parent), settings)

    def open_child(self, id: str, settings: SessionSettings, parent: Journal, call_id: str) -> Journal:
        """Open the session of a sub-agent that a call of the parent starts, and hold it. Create it if it is new.

        One commit creates it and links it to the parent.
        """
        try:
            return self.open(id)
        except UnknownSessionError:
            started = SessionStarted(id, __version__, parent=parent.id)
            return self._create(started, settings, parent.appending(SubagentLinked(call_id, id)))

    def _create(self, started: SessionStarted, settings: SessionSettings | None, link: Append | None = None) -> Journal:
        from outrider.log.append import Append

        entries = [started, settings] if settings else [started]
        append = Append(0, 1, entries, SessionSettings())
        number = self._backend.create(started, append, self._new_holder(), link)
        extent = Extent(number, len(entries))
        journal = self._hold(started.session, extent, 1, settings or SessionSettings(), Usage())
        journal.is_new = True
        return journal

    def open(self, id: str) -> Journal:
        """Open a session and hold it. Raise SessionHeldError, which names the holder, if another process holds it."""
        return self._open(id, mark_opened=True)

    def _open(self, id: str, *, mark_opened: bool) -> Journal:
        while True:
            found = self._find(id)
            self._check_free(found)
            if self._backend.acquire(found, self._new_holder(), mark_opened=mark_opened):
                return self._hold(found.summary.id, found.extent, found.fence + 1, found.settings, found.summary.usage)

    # Changing

    def fork(self, id: str, at: int | None = None) -> str:
        """Copy the entries of a session, up to one of them, into a new session. Return the new id.

        Calls that were open at that point do not run in the copy.
        """
        from outrider.log.copying import Fork

        source = self._find(id)
        if at is not None and not 1 <= at <= source.summary.last:
            raise LogError(f"there is no entry {at} to fork at; the session has entries 1 to {source.summary.last}")
        cut = at or source.summary.last
        fork = Fork(source, cut, self._backend.rows(source.extent, cut))
        self._backend.fork(fork)
        return fork.started.session

    def add(self, id: str, entries: Sequence[ImportedEntry], files: Iterable[Attachment]) -> str:
        """Store an imported session with its files. Return its id, which is new if the given one is taken."""
        from outrider.log.copying import Import

        name = id if re.fullmatch(ID, id) else os.urandom(16).hex()
        stored = {self._backend.store.put(file, sys.maxsize).sha256 for file in files}
        incoming = Import(name, entries, stored)
        self._backend.add(incoming)
        return incoming.started.session

    def rename(self, id: str, title: str) -> None:
        """Set the title of a session."""
        title = " ".join(clean(title).split())
        if not title:
            raise LogError("a title must not be empty")
        journal = self._open(id, mark_opened=False)
        try:
            journal.write_now(SessionSettings(title=title))
        finally:
            journal.close()

    def delete(self, id: str) -> None:
        """Delete a session and those of its sub-agents. `remove_unreferenced_files` then deletes its files."""
        doomed = self._with_children(self._find(id))
        for each in doomed:
            self._check_free(each)
        self._backend.delete(doomed)
        for each in doomed:
            self.live_socket(each.summary.id).unlink(missing_ok=True)
        self._index.forget(doomed)
        self._usage.forget(doomed)

    def remove_unreferenced_files(self) -> tuple[int, int]:
        """Delete the files that no session refers to. Return how many, and their size in bytes."""
        return self._backend.remove_unreferenced(self.snapshot_store) if self._backend.exists() else (0, 0)

    @cached_property
    def inbox(self) -> Inbox:
        """The questions of open sessions that wait for a person, and messages to those sessions."""
        from outrider.log.inbox import Inbox  # few programs use it

        return Inbox(self._backend, self._find, self._held)

    def live_socket(self, id: str) -> Path:
        """Return where a process that has a session open may show its events live."""
        return self.folder / "run" / f"{id}.sock"

    # Internals

    @cached_property
    def snapshot_store(self) -> SnapshotStore:
        """The contents of files in snapshots of working folders."""
        from outrider.log.snapshot_store import SnapshotStore  # most sessions have none

        return SnapshotStore(self.folder / "snapshots")

    @cached_property
    def _index(self) -> SearchIndex:
        from outrider.log.search import SearchIndex  # few programs search

        return SearchIndex(self._backend, self._files, self._backend.passage_tables())

    @cached_property
    def _usage(self) -> UsageIndex:
        from outrider.log.usage_index import UsageIndex

        return UsageIndex(self._backend, self._backend.usage_tables())

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

    def _children(self, row: SessionRow) -> list[SessionRow]:
        return self._backend.children(row.summary.id)

    def _with_children(self, row: SessionRow) -> list[SessionRow]:
        return [row, *(each for child in self._children(row) for each in self._with_children(child))]

    def _check_free(self, row: SessionRow) -> None:
        holder = row.summary.holder
        if holder and holder.log == self._token and row.number not in self._held:
            return  # this log released it, but the release was not written
        if self._backend.is_held(row):
            raise SessionHeldError(
                f"the session {row.summary.id[:8]} is open elsewhere: {holder}. Close it there, read it with "
                f"`outrider sessions show {row.summary.id[:8]}`, or continue in a copy: `outrider sessions fork`"
            )

    def _hold(self, id: str, extent: Extent, fence: int, settings: SessionSettings, usage: Usage) -> Journal:
        from outrider.log.journal import Journal

        self._held[extent.session] = fence
        release = partial(self._release, extent.session, fence)
        return Journal(id, extent, fence, self._files(extent.session), settings, usage, self._backend, release)

    def _release(self, number: int, fence: int, *, wait: bool) -> None:
        if self._held.get(number) == fence:
            del self._held[number]
            self._backend.release(number, fence, wait=wait)

    def _new_holder(self) -> Holder:
        from outrider.log.holder import Holder

        return Holder.current(self._token)

    def _files(self, number: int) -> SessionFiles:
        from outrider.log.files import SessionFiles

        return SessionFiles(self._backend.store, partial(self._references, number))

    def _references(self, number: int) -> Set[str]:
        return self._backend.references(number)


def _backend(place: str | os.PathLike[str], held: dict[int, int]) -> Backend:
    if isinstance(place, str) and place.startswith(POSTGRES):
        try:
            import asyncpg  # noqa: F401  (whether it is installed)
        except ModuleNotFoundError:
            raise LogError("a log in Postgres needs asyncpg: pip install 'outrider[postgres]'") from None
        from outrider.log.postgres.backend import PostgresBackend

        return PostgresBackend(place, held)
    from outrider.log.sqlite.backend import SqliteBackend

    return SqliteBackend(place, held)
