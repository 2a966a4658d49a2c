"""Search in sessions: an index beside the log, brought up to date when someone searches, never by a write.

The index has trigrams to find candidates, and the text in lower case to check them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.passages import Found, Passage, PassageReader, SearchQuery, fold, only_call, whole_text
from outrider.log.backend import Backend
from outrider.log.entries import CallResult, Entry, MessageEntry
from outrider.log.passage_tables import Hit, IndexedPassage, IndexState, Passages, PassageTables, Scope
from outrider.log.rows import Row, decode_if_known
from outrider.log.session_files import SessionFiles
from outrider.log.summary import Indexable, SessionRow

STEP_ROWS, STEP_BYTES = 4_000, 4_000_000
"""What one step of an update reads at most; other processes can search and write between two steps."""
MAX_TEXT = 1_000_000
"""Characters of one passage that can be found; all of it can be read."""
NEAR = 2_000
"""The newest references among which the one nearest to a wrong one is looked for."""


class SearchIndex:
    """The search index of a log. It is opened for each search; several processes may share it."""

    def __init__(self, log: Backend, files: Callable[[int], SessionFiles], tables: PassageTables) -> None:
        self._log = log
        self._files = files
        self._tables = tables

    def search(
        self,
        text: str,
        sessions: Sequence[Indexable],
        limit: int,
        progress: Callable[[int, int], None],
        without: str = "",
        *,
        are_all: bool = False,
    ) -> list[Found]:
        """Return the passages of these sessions that match, newest first. `progress` gets entries done and in all.

        Calls of the tool `without` and their results are left out. `are_all` says that the log has no other sessions.
        """
        query = SearchQuery(text)
        if not query.words or not sessions or limit < 1:
            return []
        scope = Scope(None if are_all else [each.number for each in sessions], without)

        def work(index: Passages) -> list[Hit]:
            self._update(index, sessions, progress)
            return index.hits(query, scope, limit)

        names = {each.number: each.id for each in sessions}
        return list(self._shown(self._tables.open(work), names, query))

    def recall(self, row: SessionRow, reference: str, progress: Callable[[int, int], None]) -> list[Message]:
        """Return message N by `#N`, or a call and its result by the call's id. Empty if there is none."""

        def work(index: Passages) -> list[tuple[int, str]]:
            self._update(index, [row.indexable], progress)
            return _places(index, row.number, reference)

        places = self._tables.open(work)
        entries = self._entries((row.number, seq) for seq, _ in places)
        found = [(entries[row.number, seq], kind) for seq, kind in places if (row.number, seq) in entries]
        return _message(found) if reference.startswith("#") else _call_and_result(found, reference)

    def references(self, row: SessionRow) -> list[str]:
        """Return the newest references of a session: that of its newest message, then others, newest first."""

        def work(index: Passages) -> list[str]:
            found = index.newest(row.number, NEAR)
            return [*(f"#{message}" for _, message in found[:1]), *(reference for reference, _ in found)]

        return list(dict.fromkeys(self._tables.open(work)))

    def forget(self, sessions: Iterable[SessionRow]) -> None:
        """Remove deleted sessions."""
        if self._tables.exists():
            numbers = [row.number for row in sessions]
            self._tables.open(lambda index: index.forget(numbers))

    # Updating

    def _update(self, index: Passages, sessions: Sequence[Indexable], progress: Callable[[int, int], None]) -> None:
        """Index the new entries of sessions, step by step."""
        states = index.states()
        if self._tables.is_separate and self._is_stale(states):
            index.clear()
            states = {}
        behind = {each.number: each for each in sessions if states.get(each.number, _NONE).seq < each.last}
        total = sum(each.last - states.get(number, _NONE).seq for number, each in behind.items())
        done = 0
        for group in _groups(behind.values(), states):
            with index.together() if len(group) > 1 else nullcontext():
                for each in group:
                    state = states.get(each.number, IndexState(each.id))
                    while state.seq < each.last and (newer := self._step(index, each, state)):
                        done += newer.seq - state.seq
                        state = newer
                        progress(done, total)

    def _is_stale(self, states: dict[int, IndexState]) -> bool:
        """Return whether the index knows a session that the log does not have as it was indexed."""
        found = self._log.checksums({number: state.seq for number, state in states.items()})
        return any(found.get(number) != (state.id, state.checksum) for number, state in states.items())

    def _step(self, index: Passages, session: Indexable, state: IndexState) -> IndexState | None:
        """Index the next entries in one transaction. Return the new state, or None if the session is gone."""
        rows = self._next_rows(session, state.seq)
        if not rows:
            return None
        reader = PassageReader(state.messages, msgspec.json.decode(state.calls, type=dict[str, str]))
        passages = [
            IndexedPassage(each, passage, self._searchable(session.number, passage))
            for each in rows
            for passage in _passages(decode_if_known(each[3], each[4]), reader)
        ]
        calls = msgspec.json.encode(reader.calls).decode()
        newer = IndexState(state.id, rows[-1][1], rows[-1][5], reader.count, calls)
        return index.add(session.number, state, newer, passages)

    def _next_rows(self, session: Indexable, seq: int) -> list[Row]:
        rows: list[Row] = []
        size = 0
        if not self._log.numbered([session.number]):
            return []
        for each in self._log.rows_after(session.extent, seq, STEP_ROWS):
            rows.append(each)
            size += len(each[4])
            if size > STEP_BYTES:
                break
        return rows

    def _searchable(self, session: int, passage: Passage) -> str:
        return fold(self._text(session, passage)[:MAX_TEXT])

    def _text(self, session: int, passage: Passage) -> str:
        """Return the text of a passage; for a shortened result, that of the stored file."""
        return whole_text(self._files(session).read, passage.whole) or passage.text

    # Searching

    def _shown(self, hits: Sequence[Hit], names: Mapping[int, str], query: SearchQuery) -> Iterator[Found]:
        """Yield what was found, with the ids of the sessions. Only the entries of the hits are read."""
        entries = self._entries((hit.session, hit.seq) for hit in hits)
        for hit in hits:
            entry, name = entries.get((hit.session, hit.seq)), names.get(hit.session)
            if entry is not None and name is not None:  # else it was deleted meanwhile
                where = name, hit.reference, hit.message, hit.kind, hit.tool, hit.time
                yield Found(*where, query.snippet(self._original(entry, hit)), hit.seq)

    def _original(self, entry: Entry, hit: Hit) -> str:
        reader = PassageReader(hit.message - 1, {hit.reference: hit.tool})
        wanted = hit.reference, hit.kind
        found = (each for each in _passages(entry, reader) if (each.reference, each.kind) == wanted)
        return next((self._text(hit.session, each) for each in found), "")[:MAX_TEXT]

    def _entries(self, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Entry]:
        found = self._log.rows_at(list(places))
        return {place: decode_if_known(row[3], row[4]) for place, row in found.items()}


def _groups(sessions: Iterable[Indexable], states: Mapping[int, IndexState]) -> Iterator[list[Indexable]]:
    """Yield sessions that one transaction indexes: a commit for each of many small ones would take most of the time."""
    group: list[Indexable] = []
    entries = size = 0
    for each in sessions:
        new = each.last - states.get(each.number, _NONE).seq
        if group and (entries + new > STEP_ROWS or size + each.size > STEP_BYTES):
            yield group
            group, entries, size = [], 0, 0
        group.append(each)
        entries += new
        size += each.size
    if group:
        yield group


def _passages(entry: Entry, reader: PassageReader) -> Iterator[Passage]:
    match entry:
        case MessageEntry(message=message):
            yield from reader.message(message)
        case CallResult(result=result):
            yield from reader.result(result)


def _places(index: Passages, session: int, reference: str) -> list[tuple[int, str]]:
    """Return where a reference leads: the seqs and kinds of its passages, in order."""
    if not reference.startswith("#"):
        return index.places(session, "reference", reference)
    is_number = reference[1:].isdecimal() and len(reference) < 12
    return index.places(session, "message", int(reference[1:]) if is_number else 0)


def _message(found: Sequence[tuple[Entry, str]]) -> list[Message]:
    messages = [entry.message for entry, _ in found if isinstance(entry, MessageEntry)]
    results = {entry.result.tool_use_id: entry.result for entry, _ in found if isinstance(entry, CallResult)}
    return messages[:1] or ([Message.user(*results.values())] if results else [])


def _call_and_result(found: Sequence[tuple[Entry, str]], reference: str) -> list[Message]:
    messages = {id(entry): _message([(entry, kind)]) for entry, kind in found}  # both may be in one entry
    return only_call([message for each in messages.values() for message in each], reference)


_NONE = IndexState("")
