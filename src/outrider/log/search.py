"""Search in sessions: an index beside the log, brought up to date when someone searches, never by a write.

The index has trigrams to find candidates, and the text in lower case to check them, so that a SQLite without FTS5 finds
the same by reading every passage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.passages import Found, Kind, Passage, PassageReader, only_call, whole_text
from outrider.conversation.search_query import SearchQuery, best, fold
from outrider.errors import LogError
from outrider.log.database import reading
from outrider.log.entries import CallResult, Entry, MessageEntry, decode_if_known
from outrider.log.files import SessionFiles
from outrider.log.rows import Row, read_after, read_row
from outrider.log.search_file import clear, has_trigrams, is_damage, is_unusable, open_index, remove
from outrider.log.summary import SessionRow, find

T = TypeVar("T")
STEP_ROWS, STEP_BYTES = 4_000, 4_000_000
"""What one step of an update reads at most; other processes can search and write between two steps."""
MAX_TEXT = 1_000_000
"""Characters of one passage that can be found; all of it can be read."""
MAX_TRIGRAMS = 12
"""Trigrams of one word that are looked up; the whole word is then compared."""
NEAR = 2_000
"""The newest references among which the one nearest to a wrong one is looked for."""
_IN_SCOPE = "p.session IN (SELECT value FROM json_each(?)) AND p.tool IS NOT ?"
_HIT = "p.session, p.seq, p.time, p.message, p.reference, p.kind, p.tool"


class _State(msgspec.Struct, frozen=True, array_like=True):
    """How far a session is indexed."""

    id: str
    seq: int = 0
    checksum: int = 0
    messages: int = 0
    calls: str = "{}"


class _Scope(msgspec.Struct, frozen=True):
    """What is searched."""

    sessions: list[int]
    without: str
    """A tool whose calls and results are left out."""

    @property
    def values(self) -> list[str]:
        return [msgspec.json.encode(self.sessions).decode(), self.without or "\0"]


class _Hit(msgspec.Struct, frozen=True, array_like=True):
    session: int
    seq: int
    time: float
    message: int
    reference: str
    kind: Kind
    tool: str


class SearchIndex:
    """The search index of a log. It is opened for each search; several processes may share it."""

    def __init__(self, log: Path, files: Callable[[int], SessionFiles], *, trigrams: bool | None = None) -> None:
        self.path = log.with_name("search.db")
        self._log = log
        self._files = files
        self._trigrams = has_trigrams() if trigrams is None else trigrams

    def search(
        self,
        query: SearchQuery,
        sessions: Sequence[SessionRow],
        limit: int,
        progress: Callable[[int, int], None],
        without: str = "",
    ) -> list[Found]:
        """Return the passages of these sessions that match, newest first. `progress` gets entries done and in all.

        Calls of the tool `without` and their results are left out.
        """
        if not query.words or not sessions or limit < 1:
            return []
        rows = {row.number: row for row in sessions}

        def work(index: sqlite3.Connection) -> list[_Hit]:
            self._update(index, sessions, progress)
            index.create_function("has_whole", 1, query.has_whole, deterministic=True)
            return self._hits(index, query.words, _Scope(list(rows), without), limit)

        return list(self._shown(self._with_index(work), rows, query))

    def recall(self, row: SessionRow, reference: str, progress: Callable[[int, int], None]) -> list[Message]:
        """Return message N by `#N`, or a call and its result by the call's id. Empty if there is none."""

        def work(index: sqlite3.Connection) -> list[tuple[int, str]]:
            self._update(index, [row], progress)
            return _places(index, row.number, reference)

        places = self._with_index(work)
        entries = dict(self._entries(row, [seq for seq, _ in places]))
        found = [(entries[seq], kind) for seq, kind in places if seq in entries]
        return _message(found) if reference.startswith("#") else _call_and_result(found, reference)

    def references(self, row: SessionRow) -> list[str]:
        """Return the newest references of a session: that of its newest message, then others, newest first."""

        def work(index: sqlite3.Connection) -> list[str]:
            query = "SELECT reference, message FROM passage WHERE session = ? ORDER BY id DESC LIMIT ?"
            found = index.execute(query, (row.number, NEAR)).fetchall()
            return [*(f"#{message}" for _, message in found[:1]), *(reference for reference, _ in found)]

        return list(dict.fromkeys(self._with_index(work)))

    def forget(self, sessions: Iterable[SessionRow]) -> None:
        """Remove deleted sessions. The index is emptied: its trigrams of one session cannot be overwritten alone."""
        if not self.path.exists():
            return

        def work(index: sqlite3.Connection) -> None:
            known = {number for (number,) in index.execute("SELECT number FROM session")}
            if not known.isdisjoint(row.number for row in sessions):
                clear(index, self._trigrams)

        self._with_index(work)

    def _with_index(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work on the index: once more on a new one if it is damaged, in memory if no file can be written."""
        try:
            try:
                return self._on(self.path, work)
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                remove(self.path)
                return self._on(self.path, work)
        except sqlite3.Error as error:
            if not is_damage(error) and not is_unusable(error):
                raise LogError(f"the search index {self.path} is in use ({error}); try again") from error
        try:
            return self._on(Path(":memory:"), work)
        except sqlite3.Error as error:
            raise LogError(f"the log cannot be searched: {error}") from error

    def _on(self, path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
        with closing(open_index(path, self._trigrams)) as index:
            return work(index)

    # Updating

    def _update(
        self, index: sqlite3.Connection, sessions: Sequence[SessionRow], progress: Callable[[int, int], None]
    ) -> None:
        """Index the new entries of sessions, step by step."""
        states = {number: _State(*state) for number, *state in index.execute("SELECT * FROM session")}
        if self._is_stale(states):
            clear(index, self._trigrams)
            states = {}
        behind = {row.number: row for row in sessions if states.get(row.number, _State("")).seq < row.summary.last}
        total = sum(row.summary.last - states.get(number, _State("")).seq for number, row in behind.items())
        done = 0
        for row in behind.values():
            state = states.get(row.number, _State(row.summary.id))
            while state.seq < row.summary.last and (newer := self._step(index, row, state)):
                done += newer.seq - state.seq
                state = newer
                progress(done, total)

    def _is_stale(self, states: dict[int, _State]) -> bool:
        """Return whether the index knows a session that the log does not have as it was indexed."""
        with reading(self._log) as log:
            known = msgspec.json.encode(list(states)).decode()
            rows = {row.number: row for row in find(log, "number IN (SELECT value FROM json_each(?))", known)}
            for number, state in states.items():
                row = rows.get(number)
                if row is None or row.summary.id != state.id:
                    return True
                entry = read_row(log, row.extent, state.seq)
                if entry is None or entry[5] != state.checksum:
                    return True
        return False

    def _step(self, index: sqlite3.Connection, row: SessionRow, state: _State) -> _State | None:
        """Index the next entries in one transaction. Return the new state, or None if the session is gone."""
        rows = self._next_rows(row, state.seq)
        if not rows:
            return None
        reader = PassageReader(state.messages, msgspec.json.decode(state.calls, type=dict[str, str]))
        passages = [
            (each, passage, self._searchable(row.number, passage))
            for each in rows
            for passage in _passages(decode_if_known(each[3], each[4]), reader)
        ]
        calls = msgspec.json.encode(reader.calls).decode()
        newer = _State(state.id, rows[-1][1], rows[-1][5], reader.count, calls)
        index.execute("BEGIN IMMEDIATE")
        try:
            found = index.execute("SELECT * FROM session WHERE number = ?", (row.number,)).fetchone()
            if found and _State(*found[1:]) != state:  # another process was quicker
                newer = _State(*found[1:])
            else:
                for each, passage, folded in passages:
                    self._insert(index, each, passage, folded)
                values = row.number, newer.id, newer.seq, newer.checksum, newer.messages, newer.calls
                index.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?)", values)
            index.execute("COMMIT")
        except BaseException:
            if index.in_transaction:
                index.execute("ROLLBACK")
            raise
        return newer

    def _next_rows(self, row: SessionRow, seq: int) -> list[Row]:
        rows: list[Row] = []
        size = 0
        with reading(self._log) as log:
            if not find(log, "number = ?", row.number):
                return []
            for each in read_after(log, row.extent, seq, STEP_ROWS):
                rows.append(each)
                size += len(each[4])
                if size > STEP_BYTES:
                    break
        return rows

    def _insert(self, index: sqlite3.Connection, row: Row, passage: Passage, folded: str) -> None:
        values = row[0], row[1], row[2], passage.message, passage.reference, passage.kind, passage.tool, folded
        added = index.execute(
            "INSERT OR IGNORE INTO passage (session, seq, time, message, reference, kind, tool, folded) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        if added.rowcount and self._trigrams:
            index.execute("INSERT INTO trigram (rowid, folded) VALUES (?, ?)", (added.lastrowid, folded))

    def _searchable(self, session: int, passage: Passage) -> str:
        return fold(self._text(session, passage)[:MAX_TEXT])

    def _text(self, session: int, passage: Passage) -> str:
        """Return the text of a passage; for a shortened result, that of the stored file."""
        return whole_text(self._files(session).read, passage.whole) or passage.text

    # Searching

    def _hits(self, index: sqlite3.Connection, words: Sequence[str], scope: _Scope, limit: int) -> list[_Hit]:
        order = ("p.time", "p.id") if len(scope.sessions) > 1 else ("p.id",)
        source, values = self._matching(words, scope)
        newest = ", ".join(["has_whole(p.folded) DESC", *(f"{column} DESC" for column in order)])
        rows = index.execute(f"SELECT {_HIT} {source} ORDER BY {newest} LIMIT ?", (*values, limit)).fetchall()
        if not rows and len(words) > 1:
            parts = [self._matching([word], scope) for word in words]
            matches = [set(index.execute(f"SELECT {', '.join(order)} {part}", given)) for part, given in parts]
            total = index.execute(f"SELECT count(*) FROM passage p WHERE {_IN_SCOPE}", scope.values).fetchone()[0]
            for *_, number in best(matches, total, limit):
                rows += index.execute(f"SELECT {_HIT} FROM passage p WHERE p.id = ?", (number,)).fetchall()
        return [_Hit(*row) for row in rows]

    def _matching(self, words: Sequence[str], scope: _Scope) -> tuple[str, list[str]]:
        """Return the FROM and WHERE of the passages that contain all words, with their values."""
        trigrams = {word[at : at + 3]: None for word in words for at in range(min(len(word) - 2, MAX_TRIGRAMS))}
        checks = " AND ".join([_IN_SCOPE, *("instr(p.folded, ?)" for _ in words)])
        if not trigrams or not self._trigrams:
            return f"FROM passage p WHERE {checks}", [*scope.values, *words]
        match = " AND ".join('"{}"'.format(each.replace('"', '""')) for each in trigrams)
        joined = "FROM trigram JOIN passage p ON p.id = trigram.rowid WHERE trigram MATCH ?"
        return f"{joined} AND {checks}", [match, *scope.values, *words]

    def _shown(self, hits: Iterable[_Hit], rows: dict[int, SessionRow], query: SearchQuery) -> Iterator[Found]:
        for hit in hits:
            row = rows[hit.session]
            for entry in dict(self._entries(row, [hit.seq])).values():
                text = self._original(entry, hit)
                where = row.summary.id, hit.reference, hit.message, hit.kind, hit.tool, hit.time
                yield Found(*where, query.snippet(text), hit.seq)

    def _original(self, entry: Entry, hit: _Hit) -> str:
        reader = PassageReader(hit.message - 1, {hit.reference: hit.tool})
        for passage in _passages(entry, reader):
            if (passage.reference, passage.kind) == (hit.reference, hit.kind):
                return self._text(hit.session, passage)[:MAX_TEXT]
        return ""

    def _entries(self, row: SessionRow, seqs: Sequence[int]) -> Iterator[tuple[int, Entry]]:
        with reading(self._log) as log:
            for seq in seqs:
                if found := read_row(log, row.extent, seq):
                    yield seq, decode_if_known(found[3], found[4])


def _passages(entry: Entry, reader: PassageReader) -> Iterator[Passage]:
    match entry:
        case MessageEntry(message=message):
            yield from reader.message(message)
        case CallResult(result=result):
            yield from reader.result(result)


def _places(index: sqlite3.Connection, session: int, reference: str) -> list[tuple[int, str]]:
    """Return where a reference leads: the seqs and kinds of its passages, in order."""
    column, value = "reference", reference
    if reference.startswith("#"):
        column, value = "message", reference[1:] if reference[1:].isdecimal() and len(reference) < 12 else "0"
    query = f"SELECT seq, kind FROM passage WHERE session = ? AND {column} = ? ORDER BY id"
    return index.execute(query, (session, value)).fetchall()


def _message(found: Sequence[tuple[Entry, str]]) -> list[Message]:
    messages = [entry.message for entry, _ in found if isinstance(entry, MessageEntry)]
    results = {entry.result.tool_use_id: entry.result for entry, _ in found if isinstance(entry, CallResult)}
    return messages[:1] or ([Message.user(*results.values())] if results else [])


def _call_and_result(found: Sequence[tuple[Entry, str]], reference: str) -> list[Message]:
    messages = {id(entry): _message([(entry, kind)]) for entry, kind in found}  # both may be in one entry
    return only_call([message for each in messages.values() for message in each], reference)
