"""Whether the entries of a session are as they were written: `Log.verify`. See `log/chain.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.log.backend import Backend
from outrider.log.chain import Chain, link_in
from outrider.log.entries import SessionRecovered, SessionStarted, SubagentLinked
from outrider.log.key import Seal
from outrider.log.rows import LAST_SEQ, Row, decode_if_known, is_intact, link_of
from outrider.log.session_id import shown_id
from outrider.log.summary import SessionRow
from outrider.text import counted

_DECODED = SessionStarted.kind, SessionRecovered.kind, SubagentLinked.kind
PAGE = 256
"""The number of rows in one read."""


class Verification(msgspec.Struct, frozen=True):
    """What the chain of a session's entries proves."""

    session: str
    entries: int
    """How many entries it has, up to the first that was changed."""
    verified: int = 0
    """How many of them the chain proves."""
    since: int = 0
    """The entry with which the chain begins, or begins anew after a loss; 0 if there is none."""
    problem: str = ""
    """What is wrong, or why nothing is proved; empty if all is well."""
    changed: int = 0
    """The number of the first entry that was changed, removed, inserted or moved; 0 if there is none."""
    kind: str = ""
    """The kind of that entry. Empty if it is missing."""
    time: float | None = None
    """Its time. None if it is missing."""
    notes: tuple[str, ...] = ()
    """Which entries are not proved, and why; and since when copied ones are."""

    @property
    def is_proved(self) -> bool:
        """Whether nothing was changed, and the chain proves at least the newest entry."""
        return not self.problem


def verify(backend: Backend, row: SessionRow, chain: Chain, seal: Seal) -> Verification:
    """Check the entries of a session against their chain. Those that are written meanwhile are not checked."""
    check = _Check(row, chain, is_signed=seal.is_own(row.summary.id, row.settings))
    try:
        last, head = backend.head(row.number)
        for each in _stored(backend, row.number, last):
            check.take(each)
        problem = check.end(last, head)
        newer = backend.stored_rows(row.number, last, 1)
        if newer and backend.head(row.number)[0] == last:
            raise _ChangedError(last + 1, "was inserted", newer[0])
        for gone in check.subagents.difference(each.summary.id for each in backend.children(row.summary.id)):
            problem = problem or f"the session {shown_id(gone)} of its sub-agent is missing"
    except _ChangedError as error:
        return check.result("", error)
    return check.result(problem)


def _stored(backend: Backend, number: int, last: int) -> Iterator[Any]:
    after = -LAST_SEQ  # there are none before the first, unless somebody has inserted one
    while after < last and (page := backend.stored_rows(number, after, PAGE)):
        for each in page:
            after = each[1] if type(each[1]) is int else after + 1
            if after <= last:
                yield each


class _ChangedError(Exception):
    """The first entry that is not as it was written."""

    def __init__(self, seq: int, what: str, row: Any = None) -> None:
        self.seq, self.what = seq, what
        self.kind: str = row[3] if row and type(row[3]) is str else ""
        self.time: float | None = row[2] if row and type(row[2]) is float else None


class _Check:
    """Follows the chain from entry to entry."""

    def __init__(self, row: SessionRow, chain: Chain, *, is_signed: bool) -> None:
        self._session, self._number, self._chain = row.summary.id, row.number, chain
        self._is_signed = is_signed
        elsewhere = row.settings.elsewhere if is_signed else None
        self._elsewhere = elsewhere or 0
        self._is_whole = elsewhere == 0
        """Whether the user has signed that all entries are chained."""
        self._head = b""
        self._may_begin = True
        """Whether the chain may begin with the next entry: those before it are older, or another's."""
        self._missing = 0
        """The first entry that is missing. A recovery may say so later."""
        self._first_link: Row | None = None
        self._seq = self._count = self._verified = self._since = 0
        self._unproved: dict[str, list[int]] = {}
        self._copied = 0
        self._notes: list[str] = []
        self.subagents: set[str] = set()
        """The sessions that it has started."""

    def take(self, row: Any) -> None:
        """Check the next row."""
        expected = self._seq + 1
        if not is_intact(row) or row[0] != self._number or row[1] < expected:
            if self._missing:
                raise _ChangedError(self._missing, "is missing")
            raise _ChangedError(expected, "was changed", row)
        if row[1] != expected and not self._missing:
            self._missing = expected
        if link_of(row) and self._first_link is None:
            self._first_link = row
        if self._follows(row):
            self._verified += 1
            self._may_begin, self._missing = False, 0
        else:
            self._tolerate(row)
        self._seq, self._count = row[1], self._count + 1

    def _follows(self, row: Row) -> bool:
        """Return whether a row is linked to the one before, or to the beginning of a chain where one may begin."""
        link, entry = link_of(row), decode_if_known(row[3], row[4]) if row[3] in _DECODED else None
        head = self._chain.after(self._head, *row[1:5])
        if not self._head or link != link_in(head):
            head = self._chain.after(b"", *row[1:5])
            explains = isinstance(entry, SessionRecovered) and self._is_named_in(entry)
            if link != link_in(head) or not (explains or (self._may_begin and not self._missing)):
                return False
            self._since = row[1]
        self._head = head
        if isinstance(entry, SessionStarted) and entry.forked_from:
            self._copied, source = entry.forked_at, shown_id(entry.forked_from)
            self._notes.append(f"entries 2 to {self._copied} were copied from {source}: proved since then")
        elif isinstance(entry, SubagentLinked) and row[1] > self._copied:
            self.subagents.add(entry.session)
        return True

    def _is_named_in(self, entry: SessionRecovered) -> bool:
        """Return whether a recovery has named the missing entry as lost. It names the first hundred."""
        return not self._missing or self._missing in entry.lost or entry.count > len(entry.lost)

    def _tolerate(self, row: Row) -> None:
        """Note an entry that nothing proves. Raise an error if it must be linked."""
        seq, link = row[1], link_of(row)
        if seq <= self._elsewhere:
            why, self._missing = "they were imported, or written by another machine", 0
        elif self._missing and not (row[3] == SessionRecovered.kind and self._may_begin and not link):
            why = "entries before them were lost, as a recovery says"
        elif self._may_begin and not self._is_whole and not (link and self._is_signed):
            why, self._missing = "they were written by an older version, imported, or by another machine", 0
        else:
            raise _ChangedError(seq, "was changed", row)
        self._may_begin = self._may_begin or seq <= self._elsewhere
        self._unproved.setdefault(why, []).append(seq)

    def end(self, last: int, head: bytes) -> str:
        """Check that the newest entry is the last one. Return why the chain proves nothing, or ""."""
        if self._missing or self._seq < last:
            raise _ChangedError(self._missing or self._seq + 1, "is missing")
        if not head and self._first_link is None:
            return "no entry is chained: the session is of an older version, or imported"
        if head and not self._chain.is_own(head):
            return "it was written with another key, so this machine cannot prove it; see OUTRIDER_LOG_KEY"
        if not self._verified:
            raise _ChangedError(self._first_link[1] if self._first_link else 1, "was changed", self._first_link)
        if head != self._head:
            raise _ChangedError(last + 1, "is missing: the end was cut off or changed")
        return ""

    def result(self, problem: str, changed: _ChangedError | None = None) -> Verification:
        """Return what was found."""
        for why, seqs in self._unproved.items():
            among = f"entries {seqs[0]} to {seqs[-1]}" if len(seqs) > 1 else f"entry {seqs[0]}"
            self._notes.append(f"{counted(len(seqs), 'entry', 'entries')} not proved ({among}): {why}")
        counts = self._count, self._verified, self._since
        found = Verification(self._session, *counts, problem, notes=tuple(self._notes))
        if changed is None:
            return found
        what = f"entry {changed.seq} {changed.what}"
        return msgspec.structs.replace(found, problem=what, changed=changed.seq, kind=changed.kind, time=changed.time)
