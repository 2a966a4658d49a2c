"""The log of all sessions in one folder: list them, open one, look at one, fork, rename, delete."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from outrider.attachments import Attachment
from outrider.errors import LogError, SessionHeldError, UnknownSessionError
from outrider.log.database import reading
from outrider.log.entries import Began, Record, Settings, decode, encode
from outrider.log.files import SessionFiles, remove_forgotten
from outrider.log.filesystem import network_file_system
from outrider.log.holder import BEAT_SECONDS, Holder
from outrider.log.holding import beat, check_free, let_go, take, written
from outrider.log.journal import Append, Journal
from outrider.log.replay import Replay, beginning_of_tail
from outrider.log.rows import INSERT, read_newest, read_rows, records, row
from outrider.log.summary import SessionRow, Summary, find
from outrider.log.tally import Tally, references
from outrider.log.writer import Writer
from outrider.messages import Message, Usage
from outrider.store import FolderStore
from outrider.version import __version__

Incoming: TypeAlias = tuple[int, float, str, bytes]
"""An entry from elsewhere: seq, time, kind, body."""

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
        self._writer = Writer(self.path, every=BEAT_SECONDS, pulse=partial(beat, self._held))

    def close(self) -> None:
        """Let go of all sessions, and close the file. The log opens it again when it is used again."""
        for number, fence in list(self._held.items()):
            self._release(number, fence, wait=False)
        self._writer.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
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
        if not self.path.exists():
            return []
        with reading(self.path) as connection:
            condition = "parent = '' AND title != '' ORDER BY opened DESC LIMIT ?"
            rows = find(connection, condition, -1 if limit is None else limit)
        return [row.summary for row in rows]

    def session(self, id: str) -> Summary:
        """One session, by its id or the beginning of it."""
        return self._find(id).summary

    def settings(self, id: str) -> Settings:
        """Who answers in a session, and how."""
        return self._find(id).settings

    def records(self, id: str, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """The entries of a session, in order, read as they are asked for."""
        number = self._find(id).number
        with reading(self.path) as connection:
            yield from records(read_rows(connection, number, after, upto))

    def newest(self, id: str, count: int = PAGE, before: int | None = None) -> list[Record]:
        """The newest entries of a session, or those before one, the oldest of them first."""
        number = self._find(id).number
        with reading(self.path) as connection:
            return list(records(read_newest(connection, number, count, before)))

    def messages(self, id: str) -> list[Message]:
        """The whole conversation."""
        return Replay(record.entry for record in self.records(id)).messages

    def files(self, id: str) -> SessionFiles:
        """The files of a session, for reading."""
        return self._files(self._find(id).number)

    def children(self, id: str) -> list[Summary]:
        """The sessions of the sub-agents that this one sent out, in order."""
        with reading(self.path) as connection:
            return [row.summary for row in find(connection, "parent = ? ORDER BY number", self.session(id).id)]

    # Opening

    def begin(self, settings: Settings | None = None, *, parent: str = "") -> Journal:
        """A new session, held by this process."""
        began = Began(os.urandom(16).hex(), __version__, parent=parent)
        holder = Holder.here()

        def work(connection: sqlite3.Connection) -> int:
            number = _insert(connection, began, holder)
            Append(number, 1, [began, *([settings] if settings else [])], Settings())(connection)
            return number

        return self._hold(began.session, self._writer.do(work), 1, settings or Settings(), Usage())

    def open(self, id: str) -> Journal:
        """A session, held by this process. Raises SessionHeldError, which names the holder, if another has it."""
        while True:
            found = self._find(id)
            check_free(found, self.path)
            if self._writer.do(partial(take, found, Holder.here())):
                return self._hold(found.summary.id, found.number, found.fence + 1, found.settings, found.summary.usage)

    def tail(self, journal: Journal) -> tuple[list[Record], int]:
        """The end of a session that can be understood by itself, and the number of the last entry before it."""
        number, count = journal.number, PAGE
        with reading(self.path) as connection:
            while True:
                page = list(records(read_newest(connection, number, count)))
                if len(page) < count:
                    return page, 0
                if (start := beginning_of_tail([record.entry for record in page])) is not None:
                    return page[start:], page[start].seq - 1
                count *= 8

    # Changing

    def fork(self, id: str, at: int | None = None) -> str:
        """A new session with the entries of another, up to one of them; the id of the new one."""
        source = self._find(id)
        if at is not None and not 1 <= at <= source.summary.last:
            raise LogError(f"there is no entry {at} to fork at; the session has entries 1 to {source.summary.last}")
        cut = at or source.summary.last
        began = Began(os.urandom(16).hex(), __version__, forked_from=source.summary.id, forked_at=cut)

        def work(connection: sqlite3.Connection) -> None:
            number = _insert(connection, began)
            rows = islice(read_rows(connection, source.number, upto=cut), 1, None)
            tally = _put_entries(connection, number, began, ((row[1], *row[2:5]) for row in rows))
            tally.usage = Usage()  # what was spent was spent by the other
            tally.files = [*references(connection, source.number) & set(tally.files)]
            tally.add_to(connection, number, cut)

        self._writer.do(work)
        return began.session

    def add(self, id: str, entries: Sequence[Incoming], files: Iterable[Attachment]) -> str:
        """A session that comes from elsewhere, with its files; its id, which is another if that one is taken."""
        stored = {self._store.put(file, sys.maxsize).sha256 for file in files}

        def work(connection: sqlite3.Connection) -> str:
            taken = not ID.fullmatch(id) or find(connection, "id = ?", id)
            began = Began(os.urandom(16).hex() if taken else id, __version__)
            number = _insert(connection, began)
            tally = _put_entries(connection, number, began, entries[1:])
            # A file may be read by a session into which its bytes came: knowing its hash is not enough.
            tally.files = [name for name in tally.files if name in stored]
            tally.add_to(connection, number, entries[-1][0])
            return began.session

        return self._writer.do(work)

    def rename(self, id: str, title: str) -> None:
        """Give a session another title."""
        journal = self.open(id)
        try:
            journal.write_now(Settings(title=title))
        finally:
            journal.close()

    def delete(self, id: str) -> None:
        """Remove a session and those of its sub-agents. Its files go with the next `remove_forgotten_files`."""
        found = self._find(id)
        for child in self.children(found.summary.id):
            self.delete(child.id)
        check_free(found, self.path)

        def work(connection: sqlite3.Connection) -> None:
            if not find(connection, "number = ? AND fence = ?", found.number, found.fence):
                raise SessionHeldError(f"the session {found.summary.id[:8]} was opened this very moment; try again")
            for table, column in (("event", "session"), ("reference", "session"), ("session", "number")):
                connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (found.number,))

        self._writer.do(work)

    def remove_forgotten_files(self) -> tuple[int, int]:
        """Remove the files that no session refers to any more; how many, and their bytes."""

        def work(connection: sqlite3.Connection) -> tuple[int, int]:
            referenced = {name for (name,) in connection.execute("SELECT DISTINCT sha256 FROM reference")}
            return remove_forgotten(self._store, referenced)

        return self._writer.do(work) if self.path.exists() else (0, 0)

    # How

    def _find(self, id: str) -> SessionRow:
        if not self.path.exists():
            raise UnknownSessionError(f"there is no session {id!r}: no session was ever stored in {self.folder}")
        if not id:
            raise UnknownSessionError("no session was named; `outrider sessions` lists them")
        with reading(self.path) as connection:
            # A prefix as a range: one that ends in the highest character follows all that begin with it.
            found = find(connection, "id >= ? AND id < ? LIMIT 2", id, f"{id}\U0010ffff")
        if not found:
            raise UnknownSessionError(f"there is no session {id!r}; `outrider sessions` lists them")
        if len(found) > 1 and found[0].summary.id != id:
            raise UnknownSessionError(f"several sessions begin with {id!r}; give more of the id")
        return found[0]

    def _hold(self, id: str, number: int, fence: int, settings: Settings, usage: Usage) -> Journal:
        self._held[number] = fence
        self._writer.beating = True
        release = partial(self._release, number, fence)
        return Journal(id, number, fence, self._files(number), settings, usage, self._writer, release)

    def _release(self, number: int, fence: int, *, wait: bool) -> None:
        if self._held.get(number) == fence:
            del self._held[number]
            self._writer.beating = bool(self._held)
            (self._writer.do if wait else self._writer.post)(partial(let_go, number, fence))

    def _files(self, number: int) -> SessionFiles:
        return SessionFiles(self._store, partial(self._references, number))

    def _references(self, number: int) -> Set[str]:
        with reading(self.path) as connection:
            return references(connection, number)


def _put_entries(connection: sqlite3.Connection, number: int, began: Began, entries: Iterable[Incoming]) -> Tally:
    """Fill a new session: its own beginning, and then entries with their numbers and times as they were elsewhere."""
    tally = Tally()
    kind, body = encode(began)
    connection.execute(INSERT, row(number, 1, time.time(), kind, body))
    for seq, when, kind, body in entries:
        connection.execute(INSERT, row(number, seq, when, kind, body))
        tally.take(decode(kind, body), len(body))
    return tally


def _insert(connection: sqlite3.Connection, began: Began, holder: Holder | None = None) -> int:
    now = time.time()
    cursor = connection.execute(
        "INSERT INTO session (id, parent, created, updated, opened, holder, fence, beaten) "
        "VALUES (?, ?, ?, ?, (SELECT coalesce(max(opened), 0) + 1 FROM session), ?, 1, ?)",
        (began.session, began.parent, now, now, written(holder), now),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid
