"""Where a session stopped, however it stopped, and what its next process has to know to go on."""

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
    """Read the end of a session that is held, and settle what was going on when it stopped."""
    tail, before = log.tail(journal.extent)
    replay = Replay(record.entry for record in tail)
    if unsettled := replay.unsettled():
        journal.write_now(*unsettled)
        for answer in unsettled:
            replay.take(answer)

    def earlier() -> Iterable[Message]:
        return log.messages(journal.id, upto=before)

    history = History(replay.messages, earlier if before else None)
    return history, OpenCalls(replay.intents, replay.answers, frozenset(replay.answers), replay.final)
