"""Resume a session: fold its entries into a state after any kind of stop.

`Session.open` calls this, and `Session.run` then runs the calls that were left open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from outrider.log.background import interrupted
from outrider.log.state import SessionState, fold

if TYPE_CHECKING:
    from outrider.conversation.messages import Message
    from outrider.log.entries import Entry
    from outrider.log.journal import Journal
    from outrider.log.log import Log


def resume(log: Log, journal: Journal, *, whole: bool = False, at_work: Collection[str] = ()) -> SessionState:
    """Read what a request sends of a held session, or all of it. Record what was interrupted: calls, sub-agents."""
    state, settings = SessionState(), journal.settings
    if not journal.is_new:
        whole = whole or bool(settings.rewound)
        tail, before = log.tail(journal.extent, abridged=bool(settings.abridged), whole=whole)
        state = fold(tail)
        if unknown := state.unknown_outcomes():
            _write(journal, state, unknown)
        if state.background and (ended := [*interrupted(log, journal.id, state, at_work)]):
            _write(journal, state, ended)

        def earlier() -> Iterable[Message]:
            return log.messages(journal.id, upto=before)

        if before:
            state.history.follow(earlier)
        else:
            state.history.sendable()  # made here, in the thread that opens the session
    state.settings, state.usage = settings, journal.usage
    if settings.elsewhere:
        state.handoff = ""  # another may have written the result; it must not choose the agent
    return state


def _write(journal: Journal, state: SessionState, entries: Sequence[Entry]) -> None:
    last = journal.write_now(*entries)
    for seq, entry in enumerate(entries, last - len(entries) + 1):
        state.apply(entry, seq)
