"""Import of a file. Its content tells its form: an exported session, a conversation, another agent's session."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from outrider.errors import LogError
from outrider.log.entries import CallResult, MessageEntry
from outrider.log.foreign import claude_code, codex
from outrider.log.foreign.transcript import ForeignSession, session_id
from outrider.log.log import Log
from outrider.log.transfer import Imported, import_conversation, import_session
from outrider.text import clean_value

HEAD = 50
"""How many lines are looked at to tell the form."""
LONGEST_LINE = 64 * 1024 * 1024
_FORMS = claude_code, codex
Outcome: TypeAlias = Literal["imported", "grown", "known"]


class ImportedSession(NamedTuple):
    """A session that a file has."""

    id: str
    outcome: Outcome
    entries: int


class ImportedFile(msgspec.Struct):
    """What an import found in one file."""

    agent: str = "outrider"
    """The program that wrote it."""
    sessions: list[ImportedSession] = msgspec.field(default_factory=list)
    """Those of sub-agents last; none if nobody says anything in it."""
    missing: tuple[str, ...] = ()
    """The names of the files that it mentions but does not contain."""
    damaged: list[int] = msgspec.field(default_factory=list)
    """The numbers of the lines that were skipped."""
    unknown: Counter[str] = msgspec.field(default_factory=Counter)
    """How often each form occurred that is not known. They are kept as text."""
    is_deferred: bool = False
    """Whether it has only a sub-agent's session, which is imported after the session that started it."""


def import_file(log: Log, lines: Iterable[bytes], *, defer: bool = False) -> ImportedFile:
    """Import all sessions of a file. With `defer`, leave out a sub-agent's. Raise LogError if its form is not known."""
    lines = iter(lines)
    head = [*islice(lines, HEAD)]
    first = next((line for line in head if line.strip()), b"").lstrip()
    everything = chain(head, lines)
    if first.startswith(b"["):
        return _own(import_conversation(log, b"".join(everything)))
    decoded = [line for each in head if (line := _decoded(each))]
    form = next((form for line in decoded for form in _FORMS if form.is_line(line)), None)
    if form is None or b'"outrider_session"' in first[:40]:
        if decoded and "outrider_session" not in decoded[0]:
            raise LogError("it is not a session of Outrider, Claude Code or Codex")
        return _own(import_session(log, everything))
    found = ImportedFile(form.AGENT)
    sessions = [*form.read(_objects(everything, found.damaged))]
    if defer and sessions and all(each.parent for each in sessions):
        found.is_deferred = True
        return found
    for session in sessions:
        stored = ImportedSession(*_add(log, session), len(session.entries))
        found.sessions.append(stored)
        if stored.outcome != "known":
            found.unknown += session.unknown
    return found


def _own(imported: Imported) -> ImportedFile:
    session = ImportedSession(imported.id, "imported", imported.entries)
    return ImportedFile(sessions=[session], missing=imported.missing)


def _objects(lines: Iterable[bytes], damaged: list[int]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            if found := _decoded(line):
                yield found
            else:
                damaged.append(number)


def _decoded(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line, or None if it is damaged."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        found = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        try:  # JavaScript writes lone surrogates, which are no UTF-8
            found = clean_value(json.loads(line))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def _add(log: Log, session: ForeignSession) -> tuple[str, Outcome]:
    """Store a session, unless the log has it. If its file has grown since, what was imported is replaced."""
    parent = session_id(session.agent, session.parent) if session.parent else ""
    parent = parent if parent in log.summaries([parent]) else ""
    known = log.summaries([session.id])
    outcome: Outcome = "imported"
    name = session.id
    if known:
        new, stored = [(kind, body) for _, _, kind, body in session.entries], _stored(log, name)
        before = stored[: _last_message(stored)]  # that one may have grown, too
        if stored[1 : len(new)] == new[1:]:
            return name, "known"
        if new[1 : len(before)] == before[1:]:
            log.delete(name)
            outcome = "grown"
        else:  # it went on here, or another way there: the log keeps both
            name = session_id(name, repr(new))
            if name in log.summaries([name]):
                return name, "known"
    return log.add(name, session.entries, session.files, parent=parent, is_dated=session.entries[-1][1] > 0), outcome


def _stored(log: Log, id: str) -> list[tuple[str, bytes]]:
    """Return the entries of a session as an import wrote them: without its first, and the results that end calls."""
    found = [(kind, bytes(body)) for _, seq, _, kind, body, _ in log.rows(id) if seq > 1]
    while found and found[-1][0] == CallResult.kind:
        found.pop()
    return found


def _last_message(entries: Sequence[tuple[str, bytes]]) -> int:
    return max((index for index, (kind, _) in enumerate(entries) if kind == MessageEntry.kind), default=0)
