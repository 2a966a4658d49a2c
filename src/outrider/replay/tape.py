"""The entries of a recorded session, read in the order in which a replay comes to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.errors import LogError
from outrider.log import entries as kinds
from outrider.log.entries import Entry, MessageEntry, Record
from outrider.log.session_id import shown_id
from outrider.log.state import SessionState
from outrider.providers.base import Reply, StopReason

STEPS = (
    *(kinds.MessageEntry, kinds.RunStarted, kinds.RunStopped, kinds.RunCancelled, kinds.SteeringDelivered),
    *(kinds.CompactionEntry, kinds.ResultsClearedEntry, kinds.RewindEntry, kinds.AttemptFailed),
)
"""Entries that the loop or a verb of the session writes, one after the other."""
OUTSIDE = (kinds.SteeringQueued, kinds.TitleEntry, kinds.Requested, kinds.SessionSettings, kinds.Decided)
"""Entries that came from elsewhere: a replay copies them when it comes to them."""
REFUSED: dict[type[Entry], str] = {
    kinds.SessionRecovered: "a part of it was lost",
    kinds.BackgroundTask: "it has sub-agents in the background, which work at a pace of their own",
    kinds.GoalChecked: "it has a goal, whose checks are commands",
}
"""Entries of sessions that cannot be replayed, and why."""
SHORTENINGS = (kinds.CompactionEntry, kinds.ResultsClearedEntry)


class Tape:
    """The recorded entries of one session: the next step, and what its calls did, by their ids."""

    def __init__(self, session: str, records: Iterable[Record]) -> None:
        self.session = session
        self._records = list(records)
        self._at = 0
        self._copied = 0
        """Up to where entries from elsewhere are copied."""
        self._state = SessionState()
        self._applied = 0
        self.intents: dict[str, kinds.Intent] = {}
        self.results: dict[str, kinds.CallResult] = {}
        self.asked: defaultdict[str, list[kinds.Asked]] = defaultdict(list)
        """The questions for which calls waited when a run ended. One that a person answered at once is none."""
        self._open: dict[str, kinds.Asked] = {}
        self.children: defaultdict[str, list[str]] = defaultdict(list)
        """The sessions of sub-agents, by the call that started them."""
        self._withdrawn: set[str] = set()
        """Queued messages that were taken back: they change nothing."""
        self._goals: set[str] = set()
        """The commands that were goals."""
        for record in self._records:
            if reason := self._refusal(record.entry):
                name = shown_id(session)
                raise LogError(
                    f"the session {name} cannot be replayed: {reason}; `outrider sessions show {name}` shows it"
                )
            self._index(record.entry)

    def _refusal(self, entry: Entry) -> str:
        """Return why a session with this entry cannot be replayed; "" if it can."""
        if isinstance(entry, kinds.GoalChecked) and entry.command not in self._goals:
            return f"a function, {entry.command}, checked its goal (until=…), and the log does not have functions"
        return REFUSED.get(type(entry), "")

    def _index(self, entry: Entry) -> None:
        match entry:
            case kinds.SessionSettings(goal=str(goal)) if goal:
                self._goals.add(goal)
            case kinds.Intent(call_id=call):
                self.intents[call] = entry
            case kinds.CallResult(result=result):
                self.results.setdefault(result.tool_use_id, entry)
            case kinds.Asked(id=id, waits=str(waits)) if waits:
                self._open[id] = entry
            case kinds.Decided(question=question) if question:
                self._open.pop(question, None)
            case kinds.RunStopped(status="waiting"):
                for asked in self._open.values():
                    self.asked[asked.call_id].append(asked)
                self._open.clear()
            case kinds.SubagentLinked(call_id=call, session=session):
                self.children[call].append(session)
            case kinds.SteeringWithdrawn(id=id):
                self._withdrawn.add(id)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def entries(self) -> list[Entry]:
        return [record.entry for record in self._records]

    @property
    def at(self) -> int:
        """How many entries the replay has passed."""
        return self._at

    @property
    def seq(self) -> int:
        """The number of the next step in its log, or of the last entry."""
        at = self._next()
        return self._records[-1 if at is None else at].seq if self._records else 0

    @property
    def next(self) -> Entry | None:
        """The next step, or None at the end."""
        at = self._next()
        return None if at is None else self._records[at].entry

    def following(self, *types: type[Entry]) -> Entry | None:
        """Return the next step that is not of these kinds."""
        rest = (each.entry for each in self._records[self._at :] if is_step(each.entry))
        return next((each for each in rest if not isinstance(each, types)), None)

    @property
    def is_empty_run(self) -> bool:
        """Whether the next run ends as it begins."""
        return isinstance(self.following(kinds.RunStarted), kinds.RunStopped)

    @property
    def ends_in_calls(self) -> bool:
        """Whether calls have results before the next step."""
        return any(isinstance(each.entry, kinds.CallResult) for each in self._records[self._at : self._next()])

    def state(self) -> SessionState:
        """Return the recorded state before the next step. It is not the caller's to change."""
        until = self._next()
        until = len(self._records) if until is None else until
        for record in self._records[self._applied : until]:
            self._state.apply(record.entry, record.seq)
        self._applied = max(self._applied, until)
        return self._state

    def requested(self) -> kinds.Requested:
        """Return what the next request had beside its messages."""
        found = self.state().requested or kinds.Requested()
        for record in self._records[self._applied :]:
            if isinstance(record.entry, kinds.Requested):
                found = found.merged(record.entry)
            elif is_reply(record.entry):
                break
        return found

    def take(self) -> list[Entry]:
        """Pass the next step. Return what came from elsewhere before it, and what came while its calls ran."""
        at = self._next()
        assert at is not None
        before = self.outside()
        self._at = self._copied = at + 1
        return before

    def outside(self) -> list[Entry]:
        """Return what came from elsewhere before the next step, each once."""
        until = self._next()
        return self._copy(len(self._records) if until is None else until)

    def during_calls(self) -> list[Entry]:
        """Return what came while the calls of the reply ran, each once. What came later came during the next request.

        Before any step but a request, all of it came during the calls.
        """
        until, following = self._next(), self.next
        until = len(self._records) if until is None else until
        if following is None or is_reply(following) or isinstance(following, (*SHORTENINGS, kinds.AttemptFailed)):
            results = [at for at in range(self._at, until) if isinstance(self._records[at].entry, kinds.CallResult)]
            until = results[-1] if results else self._at
        return self._copy(until)

    def _copy(self, until: int) -> list[Entry]:
        found = [each.entry for each in self._records[self._copied : until]]
        self._copied = max(self._copied, until)
        return [each for each in found if isinstance(each, OUTSIDE) and not is_step(each) and self._counts(each)]

    def _counts(self, entry: Entry) -> bool:
        """Return whether an entry from elsewhere says something to a replay."""
        match entry:
            case kinds.SessionSettings():
                return entry.mode is not None or entry.title is not None
            case kinds.SteeringQueued(id=id):
                return id not in self._withdrawn
            case kinds.Decided(question=question):
                return bool(question)
        return True

    def said(self) -> tuple[list[Message], kinds.RunStarted | None]:
        """Return the messages that the next prompt adds, and the start of its run."""
        said: list[Message] = []
        start: kinds.RunStarted | None = None
        is_delivered = False
        for record in self._records[self._at :]:
            entry = record.entry
            if not is_step(entry):
                continue
            if isinstance(entry, kinds.RunStarted) and start is None and (not said or said[-1].role == "assistant"):
                start = entry
            elif isinstance(entry, kinds.SteeringDelivered):
                is_delivered = True
            elif isinstance(entry, MessageEntry) and not is_reply(entry) and (start is None or _is_user(entry)):
                said += [] if is_delivered else [entry.message]
                is_delivered = False
            else:
                break
        return said, start

    def _next(self) -> int | None:
        return next((at for at in range(self._at, len(self._records)) if is_step(self._records[at].entry)), None)


def is_step(entry: Entry) -> bool:
    """Return whether an entry is a step: one of those kinds, or the change of a model or an agent in a run."""
    return isinstance(entry, STEPS) or (isinstance(entry, kinds.SessionSettings) and entry.former is not None)


def is_reply(entry: Entry | None) -> bool:
    """Return whether an entry is a complete reply of a model."""
    return isinstance(entry, MessageEntry) and entry.message.role == "assistant" and bool(entry.stop_reason)


def reply_of(entry: MessageEntry) -> Reply:
    """Return a recorded reply as its model gave it."""
    known = entry.stop_reason in set(StopReason)
    reason = StopReason(entry.stop_reason) if known else StopReason.OTHER
    return Reply(entry.message, reason, entry.usage or Usage(), entry.stop_detail)


def _is_user(entry: MessageEntry) -> bool:
    return entry.message.role == "user"


def models_of(entries: Sequence[Entry]) -> int:
    """Return how many models a run may need: one, and one for each time that another went on."""
    return 1 + sum(isinstance(each, kinds.SessionSettings) and bool(each.former and each.model) for each in entries)
