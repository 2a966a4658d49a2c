"""Create sessions from existing entries: forks and imports. Backends write what is prepared here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Set
from typing import TypeAlias

import msgspec

from outrider.conversation.messages import TextBlock, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.log import entries
from outrider.log.append import SummaryUpdate
from outrider.log.chain import Chain
from outrider.log.key import LogKey, Seal
from outrider.log.rows import Row, decode_if_known, encode, row
from outrider.log.state import SessionState
from outrider.log.summary import SessionRow
from outrider.version import __version__

ImportedEntry: TypeAlias = tuple[int, float, str, bytes]
"""An entry from an export: seq, time, kind, body."""

NOT_IN_THIS_COPY = (
    "This call was not run in this copy of the session. It may have run in the original: check before you repeat it."
)


class Fork:
    """A copy of a session up to one of its entries, whose rows have the same numbers as in the original.

    Calls that are open at that point get an error result in the copy, and queued messages are withdrawn there. The
    original does not change. The copy of a session of the user is chained anew, from its first entry.
    """

    head = b""
    """The newest link of its chain, once its rows are built."""

    def __init__(self, source: SessionRow, cut: int, rows: Iterable[Row], seal: Seal, key: LogKey) -> None:
        self.source, self.cut = source, cut
        self._chain: Chain | None = None
        self.started = entries.SessionStarted(
            os.urandom(16).hex(), __version__, forked_from=source.summary.id, forked_at=cut
        )
        self.update, state = SummaryUpdate(), SessionState()
        self.update.add(self.started, 0)
        for each in _without_first(rows):
            entry = decode_if_known(each[3], each[4])
            self.update.add(entry, len(each[4]))
            state.apply(entry)
        self.update.usage = Usage()  # it counts for the original
        self._ending = [*endings(state)]
        for entry in self._ending:
            self.update.add(entry, 0)
        settings = self.update.settings
        if all(seal.is_own(source.summary.id, each) for each in (source.settings, settings)):
            self.update.settings = seal.signed(self.started.session, settings, settings)
            self._chain = Chain(key, self.started.session)

    @property
    def last(self) -> int:
        """The seq of its newest entry."""
        return self.cut + len(self._ending)

    def first_row(self, number: int) -> Row:
        """Return its first row, given its number."""
        self.head = b""
        return self._row(number, 1, time.time(), *encode(self.started))

    def copied_rows(self, number: int, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows that follow, given those of the original."""
        for each in _without_first(rows):
            yield self._row(number, *each[1:5])

    def last_rows(self, number: int) -> Iterator[Row]:
        """Yield the rows that only the copy has."""
        for seq, entry in enumerate(self._ending, self.cut + 1):
            yield self._row(number, seq, time.time(), *encode(entry))

    def _row(self, number: int, seq: int, when: float, kind: str, body: bytes) -> Row:
        if self._chain is None:
            return row(number, seq, when, kind, body)
        linked, self.head = self._chain.row(self.head, number, seq, when, kind, body)
        return linked


class Import:
    """A session from an export. As in a fork, open calls and queued messages end: nothing of it runs by itself.

    Its settings are not signed, so those that can widen are not used. Its entries are not chained.
    """

    is_dated = False
    """Whether it was created and used when its entries say so, and not now."""

    def __init__(self, name: str, given: Iterable[ImportedEntry], files: Set[str], parent: str = "") -> None:
        self.started = entries.SessionStarted(name, __version__, parent=parent)
        self._entries: list[ImportedEntry] = []
        self.update, state = SummaryUpdate(), SessionState()
        self.update.add(self.started, 0)
        for seq, when, kind, body in given:
            entry = decode_if_known(kind, body)
            if isinstance(entry, entries.SessionSettings):
                entry = msgspec.structs.replace(entry, seal=None, elsewhere=None, owner=None, metadata=None)
            self._entries.append((seq, when, kind, body))
            self.update.add(entry, len(body))
            state.apply(entry)
        self._times = [when for _, when, _, _ in self._entries]
        for entry in endings(state):
            self._entries.append((self.last + 1, time.time(), *encode(entry)))
            self.update.add(entry, 0)
        # A session may read only files whose bytes were imported with it: knowing a hash is not enough.
        self.update.files = [name for name in self.update.files if name in files]

    @property
    def last(self) -> int:
        """The seq of its newest entry."""
        return self._entries[-1][0] if self._entries else 1

    @property
    def times(self) -> tuple[float, float] | None:
        """When it was created and last used, if its entries say so. It belongs below sessions that were used later."""
        return (min(self._times), max(self._times)) if self.is_dated and self._times else None

    def rename(self) -> None:
        """Take a new id, because the log has the given one."""
        self.started = msgspec.structs.replace(self.started, session=os.urandom(16).hex())

    def rows(self, number: int) -> Iterator[Row]:
        """Yield its rows, given its number."""
        yield row(number, 1, time.time(), *encode(self.started))
        for entry in self._entries:
            yield row(number, *entry)


def endings(state: SessionState) -> Iterator[entries.Entry]:
    """Yield the entries that end what is open in a copy: calls, queued messages, questions and the run."""
    said = (TextBlock(NOT_IN_THIS_COPY),)
    yield from (entries.CallResult(ToolResultBlock(call.id, said, is_error=True)) for call in state.open_calls)
    yield from map(entries.SteeringWithdrawn, state.queued)
    yield from (entries.Decided(False, "nobody: this is a copy", question=each) for each in state.questions)
    if state.is_running:
        yield entries.RunStopped("cancelled")


def _without_first(rows: Iterable[Row]) -> Iterator[Row]:
    """Skip the first entry: a copy has its own."""
    return (each for each in rows if each[1] != 1)
