"""Resume a session: rebuild its state from the log after any kind of stop.

`Session.open` calls this, and `Session.run` then runs the calls that were left open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from outrider.conversation.history import History
from outrider.log.open_calls import OpenCalls
from outrider.log.replay import Replay

if TYPE_CHECKING:
    from outrider.conversation.messages import Message, Usage
    from outrider.log.entries import Requested, SteeringQueued
    from outrider.log.journal import Journal
    from outrider.log.log import Log


class Resumed(NamedTuple):
    """A session as its log has it."""

    history: History
    calls: OpenCalls
    """What is known about the calls of the newest reply."""
    measured: tuple[Message, Usage] | None
    """The newest reply with its usage, if nothing was compacted or cleared since."""
    queued: tuple[SteeringQueued, ...]
    """The messages that wait for the next run."""
    requested: Requested | None
    """What the requests had beside their messages, as far as the tail says."""


def resume(log: Log, journal: Journal) -> Resumed:
    """Read the tail of a held session and record an unknown outcome for each interrupted call.

    Of a compacted session the tail has all that a request sends.
    """
    settings = journal.settings
    if journal.is_new:
        return Resumed(History(), OpenCalls(), None, (), None)
    tail, before = log.tail(journal.extent, abridged=bool(settings.abridged), whole=bool(settings.rewound))
    replay = Replay(record.entry for record in tail)
    if unknown := replay.unknown_outcomes():
        journal.write_now(*unknown)
        for result in unknown:
            replay.apply(result)

    def earlier() -> Iterable[Message]:
        return log.messages(journal.id, upto=before)

    history = history_of(replay, earlier if before else None)
    calls = OpenCalls(replay.intents, replay.answers, frozenset(replay.answers), replay.final)
    measured = (replay.messages[replay.measured[0]], replay.measured[1]) if replay.measured else None
    return Resumed(history, calls, measured, tuple(replay.queued.values()), replay.requested)


def history_of(replay: Replay, earlier: Callable[[], Iterable[Message]] | None = None) -> History:
    """Return the replayed messages, with what is sent of them after compactions and clearings."""
    history = History(replay.messages, earlier)
    if replay.summary is not None:
        history.compact(replay.summary, len(replay.messages) - replay.start)
    if replay.cleared:
        history.clear_results(len(replay.messages) - replay.cleared)
    history.reserve(replay.left_out)
    return history
