"""The log of all sessions in one folder: list them, open one, look at one, fork, rename, delete."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Message, Usage
from outrider.conversation.store import FolderStore
from outrider.errors import LogError, SessionHeldError, UnknownSessionError
from outrider.log.database import in_words, reading
from outrider.log.entries import Record, SessionSettings, SessionStarted, SubagentLinked
from outrider.log.files import SessionFiles, remove_forgotten
from outrider.log.filesystem import network_file_system
from outrider.log.holder import BEAT_SECONDS, Holder
from outrider.log.journal import Append, Journal
from outrider.log.lock import beat, check_free, let_go, take, written
from outrider.log.replay import Replay, beginning_of_tail
from outrider.log.rows import Extent, Row, known_records, read_newest, read_rows, records
from outrider.log.summary import SessionRow, Summary, find, insert
from outrider.log.tally import references
from outrider.log.writer import Writer
from outrider.text import clean
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.log.copying import Foreign

ID = re.compile("[0-9a-f]{32}")
PAGE = 200
"""How many entries are read at once from the end of a session."""


class Log:
    """Sessions that outlive their process, in a folder: `log.db`, and `attachments/` beside it. For the owner alone.

    Looking is always possible. A session is opened for going on by one process at a time.

    >>> import asyncio, tempfile
    >>> from outrider import Agent, Session
    >>> log = Log(tempfile.mkdtemp())
    >>> with Session.open(log, agent=Agent(model="demo")) as session:
    ...     asyncio.run(session.run("What is 2+2?")).text
    '4'
    >>> [summary.title for summary in log.sessions()]
    ['What is 2+2?']
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self.path = self.folder / "log.db"
        self._store = FolderStore(self.folder / "attachments")
        self._held: dict[int, int] = {}
        """The sessions that are open here, by number, with the fence of each."""
        self._token = os.urandom(8).hex()
        self._writer = Writer(self.path, self._held, partial(beat, self._held), BEAT_SECONDS)

    def close(self) -> None:
        """Let go of all sessions, and close the file. The log opens it again when it is used again."""
        for number, fence in list(self._held.items()):
            self._release(number, fence, wait=False)
        self._writer.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def warning(self) -> str:
        """What a person should know about where the log is; empty if all is well."""
        kind = network_file_system(self.folder if self.folder.exists() else self.folder.parent)
        if not kind:
            return ""
        return (
            f"the log is on a network file system ({kind}): it is slower there, and only safe if the server keeps "
            "locks; set OUTRIDER_HOME to a folder on a disk of this machine"
        )

    # Looking

    def sessions(self, limit: int | None = None) -> list[Summary]:
        """The sessions in which something was said, the one that was opened last first; without those of sub-agents."""
        if not self._is_there():
            return []
        with reading(self.path) as connection:
            condition = "parent = '' AND title != '' ORDER BY opened DESC LIMIT ?"
            rows = find(connection, condition, -1 if limit is None else limit)
        return [row.summary for row in rows]

    def session(self, id: str) -> Summary:
        """One session, by its id or the beginning of it."""
        return self._find(id).summary

    def settings(self, id: str) -> SessionSettings:
        """Who answers in a session, and how."""
        return self._find(id).settings

    def records(self, id: str, upto: int | None = None) -> Iterator[Record]:
        """The entries of a session, in order, read as they are asked for; those of a newer version are unknown."""
        extent = self._find(id).extent
        with reading(self.path) as connection:
            yield from known_records(read_rows(connection, extent, upto=upto))

    def newest(self, id: str, count: int = PAGE) -> list[Record]:
        """The newest entries of a session, the oldest of them first."""
        extent = self._find(id).extent
        with reading(self.path) as connection:
            return list(known_records(read_newest(connection, extent, count)))

    def rows(self, id: str) -> Iterator[Row]:
        """The entries of a session as they are stored."""
        extent = self._find(id).extent
        with reading(self.path) as connection:
            yield from read_rows(connection, extent)

    def tail(self, extent: Extent) -> tuple[list[Record], int]:
        """The end of a session that can be understood by itself, and the number of the last entry before it."""
        count = PAGE
        with reading(self.path) as connection:
            while True:
                page = list(records(read_newest(connection, extent, count)))
                if len(page) < count:
                    return page, 0
                if (start := beginning_of_tail([record.entry for record in page])) is not None:
                    return page[start:], page[start].seq - 1
                count *= 8

    def messages(self, id: str, upto: int | None = None) -> list[Message]:
        """The whole conversation, or its beginning. Raises NewerLogError if this version cannot read all of it."""
        extent = self._find(id).extent
        with reading(self.path) as connection:
            return Replay(record.entry for record in records(read_rows(connection, extent, upto=upto))).messages

    def files(self, id: str) -> SessionFiles:
        """The files of a session, for reading."""
        return self._files(self._find(id).number)

    def children(self, id: str) -> list[Summary]:
        """The sessions of the sub-agents that this one sent out, in order."""
        return [row.summary for row in self._children(self._find(id))]

    def usage_of_children(self, id: str) -> Usage:
        """What the sub-agents of a session used, together."""
        return sum((child.usage for child in self.children(id)), Usage())

    # Opening

    def begin(self, settings: SessionSettings | None = None, *, parent: str = "") -> Journal:
        """A new session, held by this process."""
        return self._begin(SessionStarted(os.urandom(16).hex(), __version__, parent=parent), settings)

    def open_child(self, id: str, settings: SessionSettings, parent: Journal, call_id: str) -> Journal:
        """The session of a sub-agent that a call of the parent's sends out, held by this process: begun if it is new.

        It is begun, and the parent knows of it, in one commit.
        """
        try:
            return self.open(id)
        except UnknownSessionError:
            began = SessionStarted(id, __version__, parent=parent.id)
            return self._begin(began, settings, parent.appending(SubagentLinked(call_id, id)))

    def _begin(self, began: SessionStarted, settings: SessionSettings | None, link: Append | None = None) -> Journal:
        entries = [began, settings] if settings else [began]

        def work(connection: sqlite3.Connection) -> int:
            number = insert(connection, began, written(Holder.here(self._token)))
            Append(number, 1, entries, SessionSettings())(connection)
            if link:
                link(connection)
            return number

        extent = Extent(self._writer.do(work), len(entries))
        return self._hold(began.session, extent, 1, settings or SessionSettings(), Usage())

    def open(self, id: str) -> Journal:
        """A session, held by this process. Raises SessionHeldError, which names the holder, if another has it."""
        return self._open(id, first=True)

    def _open(self, id: str, *, first: bool) -> Journal:
        while True:
            found = self._find(id)
            self._check_free(found)
            if self._writer.do(partial(take, found, Holder.here(self._token), first)):
                return self._hold(found.summary.id, found.extent, found.fence + 1, found.settings, found.summary.usage)

    # Changing

    def fork(self, id: str, at: int | None = None) -> str:
        """A new session with the entries of another, up to one of them; the id of the new one.

        Calls that were open at that point are not carried out in the copy.
        """
        from outrider.log.copying import Fork

        source = self._find(id)
        if at is not None and not 1 <= at <= source.summary.last:
            raise LogError(f"there is no entry {at} to fork at; the session has entries 1 to {source.summary.last}")
        with reading(self.path) as connection:
            fork = Fork(source, at or source.summary.last, connection)
        self._writer.do(fork)
        return fork.began.session

    def add(self, id: str, entries: Sequence[Foreign], files: Iterable[Attachment]) -> str:
        """A session that comes from elsewhere, with its files; its id, which is another if that one is taken."""
        from outrider.log.copying import add

        name = id if ID.fullmatch(id) else os.urandom(16).hex()
        stored = {self._store.put(file, sys.maxsize).sha256 for file in files}
        return self._writer.do(lambda connection: add(connection, name, entries, stored))

    def rename(self, id: str, title: str) -> None:
        """Give a session another title."""
        title = " ".join(clean(title).split())
        if not title:
            raise LogError("a title needs words")
        journal = self._open(id, first=False)
        try:
            journal.write_now(SessionSettings(title=title))
        finally:
            journal.close()

    def delete(self, id: str) -> None:
        """Remove a session and those of its sub-agents. Its files go with the next `remove_forgotten_files`."""
        doomed = self._with_children(self._find(id))
        for each in doomed:
            self._check_free(each)

        def work(connection: sqlite3.Connection) -> None:
            for each in doomed:
                if not find(connection, "number = ? AND fence = ?", each.number, each.fence):
                    raise SessionHeldError(f"the session {each.summary.id[:8]} was opened this very moment; try again")
                for table, column in (("event", "session"), ("reference", "session"), ("session", "number")):
                    connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (each.number,))

        self._writer.do(work)

    def remove_forgotten_files(self) -> tuple[int, int]:
        """Remove the files that no session refers to any more; how many, and their bytes."""

        def work(connection: sqlite3.Connection) -> tuple[int, int]:
            referenced = {name for (name,) in connection.execute("SELECT DISTINCT sha256 FROM reference")}
            return remove_forgotten(self._store, referenced)

        return self._writer.do(work) if self._is_there() else (0, 0)

    # How

    def _is_there(self) -> bool:
        with in_words(self.path, "read"):
            return self.path.exists()

    def _find(self, name: str) -> SessionRow:
        wanted = clean(name)
        if not self._is_there():
            raise UnknownSessionError(f"there is no session {wanted!r}: no session was ever stored in {self.folder}")
        if not wanted:
            raise UnknownSessionError("no session was named; `outrider sessions` lists them")
        with reading(self.path) as connection:
            # A prefix as a range: one that ends in the highest character follows all that begin with it.
            found = find(connection, "id >= ? AND id < ? ORDER BY id LIMIT 2", wanted, f"{wanted}\U0010ffff")
        if not found:
            raise UnknownSessionError(f"there is no session {wanted!r}; `outrider sessions` lists them")
        if len(found) > 1 and found[0].summary.id != wanted:
            raise UnknownSessionError(f"several sessions begin with {wanted!r}; give more of the id")
        return found[0]

    def _children(self, row: SessionRow) -> list[SessionRow]:
        with reading(self.path) as connection:
            # The second condition follows from the first, but only it tells SQLite that the index has them all.
            return find(connection, "parent = ? AND parent != '' ORDER BY number", row.summary.id)

    def _with_children(self, row: SessionRow) -> list[SessionRow]:
        return [row, *(each for child in self._children(row) for each in self._with_children(child))]

    def _check_free(self, row: SessionRow) -> None:
        holder = row.summary.holder
        if holder and holder.log == self._token and row.number not in self._held:
            return  # ours, and let go, which could not be written down
        check_free(row, self.path)

    def _hold(self, id: str, extent: Extent, fence: int, settings: SessionSettings, usage: Usage) -> Journal:
        self._held[extent.session] = fence
        release = partial(self._release, extent.session, fence)
        return Journal(id, extent, fence, self._files(extent.session), settings, usage, self._writer, release)

    def _release(self, number: int, fence: int, *, wait: bool) -> None:
        if self._held.get(number) == fence:
            del self._held[number]
            (self._writer.do_or_post if wait else self._writer.post)(partial(let_go, number, fence))

    def _files(self, number: int) -> SessionFiles:
        return SessionFiles(self._store, partial(self._references, number))

    def _references(self, number: int) -> Set[str]:
        with reading(self.path) as connection:
            return references(connection, number)
