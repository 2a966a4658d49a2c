"""The state of a session: what its entries say. It is the same for a session that runs and for one that is resumed.

`SessionState.apply` is the only place where it changes. There is no input or output here, and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from outrider.conversation.history import History
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.log import entries
from outrider.log.run_state import RunState
from outrider.providers.catalogue.windows import tells_context

KILLED = "The outcome of this call is unknown: the program stopped"
"""How the result of a call begins that a kill interrupted."""


class _Conversation(NamedTuple):
    """What a rewind of the conversation replaces, and its undo restores."""

    history: History
    seqs: list[int]
    calls: tuple[ToolUseBlock, ...]
    intents: dict[str, entries.Intent]
    answers: dict[str, entries.CallResult]
    final: entries.CallResult | None


class SessionState:
    """What was said, called, asked, queued and used in a session, after some of its entries."""

    has_cut_results = False
    """Whether the model has read only a part of a result, whose rest is stored."""
    needs_earlier = False
    """Whether a rewind goes back to the first entry or before it: then earlier entries are needed, too."""

    def __init__(self, applied: Iterable[entries.Entry] = ()) -> None:
        self.history = History()
        """The messages with their sendable form."""
        self.seq = 0
        """The seq of the newest entry, if the caller names it."""
        self.seqs: list[int] = []
        """The seq of the entry that brought each message, if the caller names it."""
        self.calls: tuple[ToolUseBlock, ...] = ()
        """The calls of the newest reply, until all have results or the conversation has moved on: `history.pending`."""
        self.intents: dict[str, entries.Intent] = {}
        """Those of them that were started, by call id."""
        self.answers: dict[str, entries.CallResult] = {}
        """The results of those that have one, while others are still open."""
        self.final: entries.CallResult | None = None
        """The result that ended the run, if no message followed."""
        self.handoff = ""
        """The agent that a result hands the conversation to, until the settings say that it has it."""
        self.results: Message | None = None
        """The message with the results of all calls, if the newest entry completed it."""
        self.answered_tool = ""
        """The tool whose result the newest entry is, if it is one."""
        self.queued: dict[str, entries.SteeringQueued] = {}
        """The messages that wait to be delivered, by their ids, the oldest first."""
        self.delivered, self._delivering = "", ""
        """The ids of the queued messages that the newest message was, and that the next entry adds, if they were."""
        self.background: dict[str, entries.BackgroundTask] = {}
        """The sub-agents in the background, those that work and those that have ended, by their sessions."""
        self.questions: dict[str, entries.Asked] = {}
        """The questions that wait for an answer, by their ids. They end with the calls of a reply."""
        self.answered: dict[str, tuple[entries.Asked, entries.Decided]] = {}
        """Those that have their answer, by their ids, until the calls of the reply are done."""
        self.settings = entries.SessionSettings()
        """The newest value of each setting."""
        self.requested: entries.Requested | None = None
        """What the newest request had beside its messages."""
        self.usage = Usage()
        """The usage of all requests of the session, without those of its sub-agents."""
        self.run: RunState | None = None
        """The newest run, or None if there was none."""
        self.rewinds: list[entries.RewindEntry] = []
        """The rewinds that were not taken back."""
        self.measured: tuple[Message, Usage] | None = None
        """The newest reply and its usage, if nothing was compacted, cleared or rewound since."""
        self._saved: list[_Conversation | None] = []
        """The conversation before each of `rewinds`; None for one of the files alone."""
        self._waiting: set[str] = set()
        """The ids of the calls that have no result."""
        self._lost_entries = False
        for entry in applied:
            self.apply(entry)

    # Reading

    @property
    def messages(self) -> list[Message]:
        """All messages, as a new list."""
        return self.history.messages

    @property
    def open_calls(self) -> list[ToolUseBlock]:
        """The calls of the newest reply that have no result."""
        return [call for call in self.calls if call.id not in self.answers]

    @property
    def is_running(self) -> bool:
        """Whether a run has begun and has not stopped: it goes on, or was interrupted."""
        return self.run is not None and not self.run.status

    @property
    def working(self) -> list[entries.BackgroundTask]:
        """The sub-agents in the background that have not ended."""
        return [each for each in self.background.values() if not each.status]

    @property
    def reports(self) -> list[entries.BackgroundTask]:
        """Those that have ended, and of which the model has not been told."""
        return [each for each in self.background.values() if each.report]

    @property
    def has_view(self) -> bool:
        """Whether these entries have the newest compaction and all messages that it kept."""
        return self.history.summary is not None and self.history.start >= 0

    def waiting_calls(self, *, is_attended: bool) -> set[str]:
        """Return the ids of the calls that wait for an answer from outside. A person who is there is asked again."""
        return {
            asked.call_id
            for asked in self.questions.values()
            if asked.waits == "result" or (asked.waits and not is_attended)
        }

    def is_waiting(self, *, is_attended: bool) -> bool:
        """Return whether no call can go on: each that has no result waits."""
        waiting = self.waiting_calls(is_attended=is_attended) if self.questions else ()
        return bool(waiting) and all(call.id in waiting for call in self.open_calls)

    def asked_about(self, call_id: str, waits: str) -> tuple[entries.Asked, entries.Decided | None] | None:
        """Return the newest question for which this part of a call waits or waited, with its answer."""
        for asked in reversed(self.questions.values()):
            if asked.call_id == call_id and asked.waits == waits:
                return asked, None
        for asked, decided in reversed(self.answered.values()):
            if asked.call_id == call_id and asked.waits == waits:
                return asked, decided
        return None

    def begins_again(self, call_id: str) -> bool:
        """Return whether a call stopped to wait for an answer, has it, and so begins again."""
        return any(asked.call_id == call_id and asked.waits == "call" for asked, _ in self.answered.values())

    def unknown_outcomes(self) -> list[entries.CallResult]:
        """Return error results for the interrupted calls that must not run again, because their outcome is unknown.

        After a loss of entries the intents are not reliable: then this covers every open call.
        """
        return [
            entries.CallResult(_unknown(call, self.intents.get(call.id)))
            for call in self.open_calls
            if self._lost_entries or self._must_not_repeat(call)
        ]

    def _must_not_repeat(self, call: ToolUseBlock) -> bool:
        intent = self.intents.get(call.id)
        return intent is not None and intent.effect not in ("read", "idempotent") and not self._is_put_off(call.id)

    def _is_put_off(self, call_id: str) -> bool:
        """Return whether a call that was started has stopped to wait: it begins again, or its result is there."""
        waiting = any(asked.call_id == call_id and asked.waits for asked in self.questions.values())
        given = (asked for asked, _ in self.answered.values() if asked.waits == "result")
        return waiting or any(asked.call_id == call_id for asked in given)

    # Changing

    def apply(self, entry: entries.Entry, seq: int = 0) -> bool:
        """Apply one entry. Return whether it says something new; an unknown or repeated one changes nothing."""
        self.results, self.answered_tool, self.seq = None, "", seq
        match entry:
            case entries.MessageEntry():
                self._say(entry)
            case entries.Intent(call_id=call_id):
                self.intents[call_id] = entry
            case entries.CallResult():
                return self._answer(entry)
            case entries.SteeringQueued() | entries.SteeringWithdrawn() | entries.SteeringDelivered():
                return self._steer(entry)
            case entries.BackgroundTask(session=session):
                known = self.background.get(session)
                self.background[session] = entry
                return known != entry
            case entries.CompactionEntry() | entries.ResultsClearedEntry():
                self._shorten(entry)
            case entries.RewindEntry(undo=undo):
                self._undo() if undo else self._rewind(entry)
            case entries.SessionRecovered():
                self._lost_entries = True
            case _:
                self._note(entry)
        return True

    def _note(self, entry: entries.Entry) -> None:
        """Apply an entry that is beside the conversation."""
        match entry:
            case entries.SessionSettings(agent=agent):
                self.settings = self.settings.merged(entry)
                self.handoff = self.handoff if agent is None else ""
            case entries.Requested():
                self.requested = self.requested.merged(entry) if self.requested else entry
            case entries.Asked(id=id):
                self.questions[id] = entry
            case entries.Decided(question=question, answer=answer):
                if (asked := self.questions.pop(question, None)) and answer != "withdrawn":
                    self.answered[question] = asked, entry
            case entries.RunStarted() | entries.RunStopped() | entries.GoalChecked():
                self._go_on(entry)
            case entries.AttemptFailed(usage=usage, model=model) | entries.TitleEntry(usage=usage, model=model):
                self._use(usage, model)

    def _go_on(self, entry: entries.RunStarted | entries.RunStopped | entries.GoalChecked) -> None:
        """Follow the newest run."""
        if isinstance(entry, entries.RunStarted):
            if self.run and self.run.status == "waiting" and entry.continues:
                self.run.status = ""
            else:
                self.run = self.run.followed(continues=entry.continues) if self.run else RunState()
            self.run.counts_repeats = entry.limits.get("max_repeats", 1) is not None
        elif self.run and isinstance(entry, entries.RunStopped):
            self.run.status, self.run.answer = entry.status, None if entry.output is msgspec.UNSET else entry
        elif self.run and isinstance(entry, entries.GoalChecked):
            self.run.count_check(entry)

    def _say(self, entry: entries.MessageEntry) -> None:
        message, before = entry.message, self.history.last
        self._add(message)
        self.delivered, self._delivering = self._delivering, ""
        if message.role == "assistant":
            if entry.usage:
                self._use(entry.usage, entry.model)
                if tells_context(message, entry.usage):
                    self.measured = message, entry.usage
            if self.run:
                self.run.reply(entry, before)
            self._expect(message.tool_calls)
        elif self.calls or self.intents or self.questions or self.answered:
            self._keep_open(message.tool_results)
        else:
            self.final, self._lost_entries = None, False

    def _answer(self, answer: entries.CallResult) -> bool:
        call_id = answer.result.tool_use_id
        if call_id not in self._waiting:
            return False
        self._waiting.remove(call_id)
        self.answers[call_id] = answer
        self.answered_tool = self._name_of(call_id)
        self.has_cut_results = self.has_cut_results or answer.result.whole is not None
        if not self._waiting:
            answers = [self.answers[call.id] for call in self.calls]
            results = tuple([each.result for each in answers])
            self.results = Message("user", results)
            if self.run:
                self.run.count_results(self.calls, results)
            self._add(self.results)
            self._expect(())
            for each in answers:  # the first of each kind counts
                self.final = self.final or (each if each.final else None)
                self.handoff = self.handoff or each.handoff
        return True

    def _name_of(self, call_id: str) -> str:
        """Return the name of the tool that a call of the newest reply runs."""
        if intent := self.intents.get(call_id):
            return intent.name
        return next((call.name for call in self.calls if call.id == call_id), "")

    def _steer(self, entry: entries.SteeringQueued | entries.SteeringWithdrawn | entries.SteeringDelivered) -> bool:
        if isinstance(entry, entries.SteeringQueued):
            return self.queued.setdefault(entry.id, entry) is entry
        if isinstance(entry, entries.SteeringDelivered):
            self._delivering = entry.id
        return self.queued.pop(entry.id, None) is not None

    def _shorten(self, entry: entries.CompactionEntry | entries.ResultsClearedEntry) -> None:
        self.measured = None
        if isinstance(entry, entries.CompactionEntry):
            self._use(entry.usage, entry.model)
            self.history.compact(entry.summary, entry.kept)
        else:
            self.history.clear_results(entry.kept)

    def _use(self, usage: Usage | None, model: str) -> None:
        if usage:
            self.usage += usage
            if self.run and not self.run.status:
                self.run.use(usage, model)

    def _add(self, message: Message) -> None:
        self.history.append(message)
        self.seqs.append(self.seq)

    def _expect(self, calls: tuple[ToolUseBlock, ...]) -> None:
        self.calls, self.final, self.handoff, self._lost_entries = calls, None, "", False
        if self.intents or self.answers or self.questions or self.answered:
            self.intents, self.answers, self.questions, self.answered = {}, {}, {}, {}
        self._waiting = {call.id for call in calls} if calls else set()

    def _keep_open(self, results: Sequence[ToolResultBlock]) -> None:
        """Forget the calls that a message of the user with these results has answered or left behind."""
        self.has_cut_results = self.has_cut_results or any(result.whole for result in results)
        if self.run and self.calls:
            self.run.count_results(self.calls, results)
        kept = self.intents, self.answers, self.questions, self.answered
        self._expect(self.history.pending if self.calls else ())
        if self.calls:
            self.intents, self.answers, self.questions, self.answered = kept
            self._waiting -= self.answers.keys()

    def _rewind(self, entry: entries.RewindEntry) -> None:
        self.rewinds.append(entry)
        if not entry.conversation:
            self._saved.append(None)
            return
        history = self.history
        self._saved.append(_Conversation(history, self.seqs, self.calls, self.intents, self.answers, self.final))
        self.needs_earlier |= 0 < entry.dropped >= len(history)
        cut = max(0, len(history) - entry.dropped)
        self.history = history.before(cut)
        self.seqs = self.seqs[: len(self.history)]
        self.measured = None
        self._expect(self.history.pending)
        self._lost_entries = True  # only a forged rewind ends with calls; whether they ran is not known

    def _undo(self) -> None:
        """Go back to the conversation before the newest rewind. What was said since is left out."""
        if not self._saved:
            self.needs_earlier = True
            return  # the entry of the rewind was lost, or is earlier
        self.rewinds.pop()
        if saved := self._saved.pop():
            since = self.history
            self.history, self.seqs, self.calls, self.intents, self.answers, self.final = saved
            self._waiting = {call.id for call in self.calls} - self.answers.keys()
            self.history.reserve(since.call_ids)
            self.measured = None


def fold(records: Iterable[entries.Record]) -> SessionState:
    """Return the state of a session after these entries."""
    state = SessionState()
    for record in records:
        state.apply(record.entry, record.seq)
    return state


def start_of_tail(page: Sequence[entries.Entry]) -> int | None:
    """Return the index of the first reply, from which replay can start: all earlier calls are closed by then."""
    for index, entry in enumerate(page):
        if isinstance(entry, entries.MessageEntry) and entry.message.role == "assistant":
            return index
    return None


def without_rewound(records: Iterable[entries.Record]) -> list[entries.Record]:
    """Return the entries of the conversation as it is now: without those that a rewind left out."""
    kept: list[entries.Record] = []
    former: list[list[entries.Record]] = []
    state = SessionState()
    for record in records:
        match record.entry:
            case entries.RewindEntry(undo=True):
                kept = former.pop() if former else kept
            case entries.RewindEntry(dropped=dropped):
                former.append(kept)
                gone = state.seqs[-dropped:] if dropped else []
                kept = [each for each in kept if not gone or each.seq < gone[0]]
        kept.append(record)
        state.apply(record.entry, record.seq)
    return kept


def _unknown(call: ToolUseBlock, intent: entries.Intent | None) -> ToolResultBlock:
    arguments = msgspec.json.encode(intent.input if intent else call.input).decode()
    if len(arguments) > 500:
        arguments = f"{arguments[:500]}…"
    text = (
        f"{KILLED} while {call.name} was running. It may have run "
        f"in part, in full, or not at all, and it was not run again. Check before you repeat it. "
        f"Its arguments were: {arguments}"
    )
    if intent and intent.is_edited:
        text += ". They are not those of the call: they were changed when it was approved"
    return ToolResultBlock(call.id, (TextBlock(text),), is_error=True, is_unknown=True)
