"""Resume a session: rebuild its state from the log after any kind of stop.

`Session.open` calls this, and `Session.run` then runs the calls that were left open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from outrider.conversation.history import History
from outrider.log.open_calls import OpenCalls
from outrider.log.replay import Replay

if TYPE_CHECKING:
    from outrider.conversation.messages import Message
    from outrider.log.journal import Journal
    from outrider.log.log import Log


def resume(log: Log, journal: Journal) -> tuple[History, OpenCalls]:
    """Read the tail of a held session and record an unknown outcome for each interrupted call."""
    tail, before = log.tail(journal.extent)
    replay = Replay(record.entry for record in tail)
    if unknown := replay.unknown_outcomes():
        journal.write_now(*unknown)
        for result in unknown:
            replay.apply(result)

    def earlier() -> Iterable[Message]:
        return log.messages(journal.id, upto=before)

    history = History(replay.messages, earlier if before else None)
    return history, OpenCalls(replay.intents, replay.answers, frozenset(replay.answers), replay.final)
