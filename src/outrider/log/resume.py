"""Where a session stopped, however it stopped, and what its next process has to know to go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from outrider.history import History
from outrider.log.entries import Answer, Intent
from outrider.log.replay import Replay

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.log.log import Log
    from outrider.messages import Message


class Resumed(msgspec.Struct, frozen=True):
    """A session as it stands in the log, with nothing left to settle."""

    history: History
    """Its end; the rest is read when it is asked for."""
    begun: dict[str, Intent]
    """The calls without an answer that may be carried out again."""
    answers: dict[str, Answer]
    """The calls that have their answer while others of the same reply wait for theirs."""
    final: Answer | None
    """The answer that ended the run, if nothing was said since."""


def resume(log: Log, journal: Journal) -> Resumed:
    """Read the end of a session that is held, and settle what was going on when it stopped."""
    tail, before = log.tail(journal)
    replay = Replay(record.entry for record in tail)
    if unsettled := replay.unsettled():
        journal.write_now(*unsettled)
        for answer in unsettled:
            replay.take(answer)

    def earlier() -> Iterable[Message]:
        return Replay(record.entry for record in log.records(journal.id, upto=before)).messages

    history = History(replay.messages, earlier if before else None)
    begun = {call_id: intent for call_id, intent in replay.intents.items() if call_id not in replay.answers}
    return Resumed(history, begun, replay.answers, replay.final)
