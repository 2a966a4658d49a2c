"""Create sessions from existing entries: forks and imports."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TypeAlias

from outrider.conversation.messages import TextBlock, ToolResultBlock, ToolUseBlock, Usage
from outrider.errors import UnknownSessionError
from outrider.log.entries import CallResult, Entry, SessionStarted, SteeringWithdrawn, decode_if_known, encode
from outrider.log.replay import Replay
from outrider.log.rows import INSERT, Row, read_rows, row
from outrider.log.summary import SessionRow, find, insert
from outrider.log.summary_update import SummaryUpdate, references
from outrider.version import __version__

ImportedEntry: TypeAlias = tuple[int, float, str, bytes]
"""An entry from an export: seq, time, kind, body."""

NOT_IN_THIS_COPY = (
    "This call was not run in this copy of the session. It may have run in the original: check before you repeat it."
)


class Fork:
    """A job for the writer that copies a session up to one of its entries.

    Calls that are open at that point get an error result in the copy, and queued messages are withdrawn there. The
    original does not change.
    """

    def __init__(self, source: SessionRow, cut: int, reader: sqlite3.Connection) -> None:
        self._source, self._cut = source, cut
        self.started = SessionStarted(os.urandom(16).hex(), __version__, forked_from=source.summary.id, forked_at=cut)
        self._update, replay = SummaryUpdate(), Replay()
        self._update.add(self.started, 0)
        for each in _without_first(read_rows(reader, source.extent, upto=cut)):
            entry = decode_if_known(each[3], each[4])
            self._update.add(entry, len(each[4]))
            replay.apply(entry)
        self._update.usage = Usage()  # it counts for the original
        self._ending: list[Entry] = [CallResult(_not_run(call)) for call in replay.open_calls]
        self._ending += map(SteeringWithdrawn, replay.queued)
        for entry in self._ending:
            self._update.add(entry, 0)

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Copy the entries, with the same numbers as in the original."""
        source = self._source
        if not find(connection, "number = ?", source.number):
            raise UnknownSessionError(f"the session {source.summary.id[:8]} was just deleted")
        self._update.files = [*references(connection, source.number) & set(self._update.files)]
        number = insert(connection, self.started)
        _insert_first(connection, number, self.started)
        for each in _without_first(read_rows(connection, source.extent, upto=self._cut)):
            connection.execute(INSERT, row(number, *each[1:5]))
        last = self._cut
        for entry in self._ending:
            last += 1
            connection.execute(INSERT, row(number, last, time.time(), *encode(entry)))
        self._update.write(connection, number, last)


def add(connection: sqlite3.Connection, name: str, entries: Sequence[ImportedEntry], files: Set[str]) -> str:
    """Store an imported session under its own id, or a new one if that is taken. Return the id."""
    taken = find(connection, "id = ?", name)
    started = SessionStarted(os.urandom(16).hex() if taken else name, __version__)
    number = insert(connection, started)
    _insert_first(connection, number, started)
    update = SummaryUpdate()
    update.add(started, 0)
    for seq, when, kind, body in entries:
        connection.execute(INSERT, row(number, seq, when, kind, body))
        update.add(decode_if_known(kind, body), len(body))
    # A session may read only files whose bytes were imported with it: knowing a hash is not enough.
    update.files = [name for name in update.files if name in files]
    update.write(connection, number, entries[-1][0] if entries else 1)
    return started.session


def _insert_first(connection: sqlite3.Connection, number: int, started: SessionStarted) -> None:
    connection.execute(INSERT, row(number, 1, time.time(), *encode(started)))


def _without_first(rows: Iterable[Row]) -> Iterator[Row]:
    """Skip the first entry: a copy has its own."""
    return (each for each in rows if each[1] != 1)


def _not_run(call: ToolUseBlock) -> ToolResultBlock:
    return ToolResultBlock(call.id, (TextBlock(NOT_IN_THIS_COPY),), is_error=True)
