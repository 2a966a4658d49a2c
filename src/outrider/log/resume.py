"""Resume a session: fold its entries into a state after any kind of stop.

`Session.open` calls this, and `Session.run` then runs the calls that were left open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from outrider.log.state import SessionState, fold

if TYPE_CHECKING:
    from outrider.conversation.messages import Message
    from outrider.log.journal import Journal
    from outrider.log.log import Log


def resume(log: Log, journal: Journal, *, whole: bool = False) -> SessionState:
    """Read what a request sends of a held session, or all of it. Record unknown outcomes of stopped calls."""
    state, settings = SessionState(), journal.settings
    if not journal.is_new:
        whole = whole or bool(settings.rewound)
        tail, before = log.tail(journal.extent, abridged=bool(settings.abridged), whole=whole)
        state = fold(tail)
        if unknown := state.unknown_outcomes():
            last = journal.write_now(*unknown)
            for seq, result in enumerate(unknown, last - len(unknown) + 1):
                state.apply(result, seq)

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
