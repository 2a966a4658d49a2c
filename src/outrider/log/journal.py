"""One session, held for writing: what is written here is on disk when it counts as written."""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Callable, Sequence

from outrider.conversation.messages import Usage
from outrider.errors import LogError, SessionLostError
from outrider.log.entries import Entry, SessionSettings, encode
from outrider.log.files import SessionFiles
from outrider.log.rows import INSERT, Extent, row
from outrider.log.tally import Tally
from outrider.log.write import Write
from outrider.log.writer import Writer


class Journal:
    """Takes a session's entries. Whoever lost the session, because another process took it over, is refused."""

    def __init__(
        self,
        id: str,
        extent: Extent,
        fence: int,
        files: SessionFiles,
        settings: SessionSettings,
        usage: Usage,
        writer: Writer,
        release: Callable[..., None],
    ) -> None:
        self.id = id
        self.files = files
        self.settings = settings
        """The newest value of each setting."""
        self.usage = usage
        """What its requests had used when it was opened."""
        self.extent = extent
        """How far it reached when it was opened."""
        self._fence = fence
        self._writer = writer
        self._release = release
        self._forgotten = weakref.finalize(self, release, wait=False)  # for those who do not close it
        self._forgotten.atexit = False  # a process that has ended holds nothing, and is known to have ended

    def write(self, *entries: Entry) -> Write:
        """Have the entries written, all or none; done when they are on disk. Fails with a LogError, and only that."""
        new = self.files.take_new()
        try:
            append = self._append([*new, *entries] if new else entries)
            write = self._writer.send(append)
        except LogError as error:
            write = Write.failed(error)
        else:
            write.then(lambda: self._written(append, write.error))
        if new:
            write.then(lambda: self.files.give_back(new) if write.error else None)
        return write

    def write_now(self, *entries: Entry) -> None:
        """The same for code without an event loop: returns when they are on disk."""
        new = self.files.take_new()
        try:
            append = self._append([*new, *entries])
            self._writer.do(append)
        except BaseException:
            self.files.give_back(new)
            raise
        self._written(append)

    def appending(self, *entries: Entry) -> Append:
        """Entries to be written together with something else: work for the writer."""
        return self._append(entries)

    def close(self) -> None:
        """Let the session go, so that others can open it. Nothing can be written any more."""
        if self._forgotten.detach():
            self._release(wait=True)

    def _append(self, entries: Sequence[Entry]) -> Append:
        if not self._forgotten.alive:
            raise LogError("the session was closed; open it again to go on")
        return Append(self.extent.session, self._fence, entries, self.settings)

    def _written(self, append: Append, error: BaseException | None = None) -> None:
        if error is None and append.tally.settings_changed:
            self.settings = append.tally.settings


class Append:
    """Entries on their way into the log: work for the writer."""

    __slots__ = ("_bodies", "_fence", "_number", "_time", "tally")

    def __init__(self, number: int, fence: int, entries: Sequence[Entry], settings: SessionSettings) -> None:
        self._number, self._fence = number, fence
        self._time = time.time()
        self._bodies = [encode(entry) for entry in entries]
        self.tally = Tally(settings)
        for entry, (_, body) in zip(entries, self._bodies, strict=True):
            self.tally.take(entry, len(body))

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Write them after the newest, if the session is still ours."""
        found = connection.execute(
            "SELECT last FROM session WHERE number = ? AND fence = ?", (self._number, self._fence)
        ).fetchone()
        if found is None:
            raise SessionLostError(
                "the session was taken over by another process, or deleted; open it again to go on from what is on disk"
            )
        last: int = found[0]
        for kind, body in self._bodies:
            last += 1
            connection.execute(INSERT, row(self._number, last, self._time, kind, body))
        self.tally.add_to(connection, self._number, last)
