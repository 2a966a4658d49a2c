"""Sessions made out of entries that are there already: forks, and those that come from elsewhere."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TypeAlias

from outrider.conversation.messages import TextBlock, ToolResultBlock, ToolUseBlock, Usage
from outrider.errors import UnknownSessionError
from outrider.log.entries import CallResult, SessionStarted, decode_if_known, encode
from outrider.log.replay import Replay
from outrider.log.rows import INSERT, Row, read_rows, row
from outrider.log.summary import SessionRow, find, insert
from outrider.log.tally import Tally, references
from outrider.version import __version__

Foreign: TypeAlias = tuple[int, float, str, bytes]
"""An entry from elsewhere: seq, time, kind, body."""

NOT_IN_THIS_COPY = (
    "This call was not carried out in this copy of the session. It may have been in the original: "
    "check before you repeat it."
)


class Fork:
    """A copy of a session up to one of its entries: work for the writer.

    What the original does with calls that are open at that point is its own affair: in the copy they are answered.
    """

    def __init__(self, source: SessionRow, cut: int, reader: sqlite3.Connection) -> None:
        self._source, self._cut = source, cut
        self.began = SessionStarted(os.urandom(16).hex(), __version__, forked_from=source.summary.id, forked_at=cut)
        self._tally, replay = Tally(), Replay()
        self._tally.take(self.began, 0)
        for each in _without_beginning(read_rows(reader, source.extent, upto=cut)):
            entry = decode_if_known(each[3], each[4])
            self._tally.take(entry, len(each[4]))
            replay.take(entry)
        self._tally.usage = Usage()  # what was spent was spent by the other
        self._answers = [CallResult(_not_here(call)) for call in replay.open_calls]
        for answer in self._answers:
            self._tally.take(answer, 0)

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Copy the entries; they are numbered as in the original."""
        source = self._source
        if not find(connection, "number = ?", source.number):
            raise UnknownSessionError(f"the session {source.summary.id[:8]} was deleted this very moment")
        self._tally.files = [*references(connection, source.number) & set(self._tally.files)]
        number = insert(connection, self.began)
        _begin(connection, number, self.began)
        for each in _without_beginning(read_rows(connection, source.extent, upto=self._cut)):
            connection.execute(INSERT, row(number, *each[1:5]))
        last = self._cut
        for answer in self._answers:
            last += 1
            connection.execute(INSERT, row(number, last, time.time(), *encode(answer)))
        self._tally.add_to(connection, number, last)


def add(connection: sqlite3.Connection, name: str, entries: Sequence[Foreign], files: Set[str]) -> str:
    """A session that comes from elsewhere, under its id if that is free; its id."""
    taken = find(connection, "id = ?", name)
    began = SessionStarted(os.urandom(16).hex() if taken else name, __version__)
    number = insert(connection, began)
    _begin(connection, number, began)
    tally = Tally()
    tally.take(began, 0)
    for seq, when, kind, body in entries:
        connection.execute(INSERT, row(number, seq, when, kind, body))
        tally.take(decode_if_known(kind, body), len(body))
    # A file may be read by a session into which its bytes came: knowing its hash is not enough.
    tally.files = [name for name in tally.files if name in files]
    tally.add_to(connection, number, entries[-1][0] if entries else 1)
    return began.session


def _begin(connection: sqlite3.Connection, number: int, began: SessionStarted) -> None:
    connection.execute(INSERT, row(number, 1, time.time(), *encode(began)))


def _without_beginning(rows: Iterable[Row]) -> Iterator[Row]:
    """A copy has a beginning of its own, which takes the place of the other."""
    return (each for each in rows if each[1] != 1)


def _not_here(call: ToolUseBlock) -> ToolResultBlock:
    return ToolResultBlock(call.id, (TextBlock(NOT_IN_THIS_COPY),), is_error=True)
