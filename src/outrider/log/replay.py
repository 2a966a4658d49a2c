"""Rebuild a session from its entries: the messages, the settings and the calls that were open when it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from outrider.conversation.user_messages import messages_before
from outrider.log.entries import (
    CallResult,
    CompactionEntry,
    Entry,
    Intent,
    MessageEntry,
    Record,
    Requested,
    ResultsClearedEntry,
    RewindEntry,
    SessionRecovered,
    SessionSettings,
    SteeringDelivered,
    SteeringQueued,
    SteeringWithdrawn,
)
from outrider.providers.windows import tells_context


class _View(NamedTuple):
    """What is sent after a compaction or a clearing, which is left out itself if a rewind goes back to before it."""

    at: int
    """The number of messages before it."""
    summary: Message | None
    start: int
    cleared: int


class _Saved(NamedTuple):
    """The state before a rewind of the conversation, for taking it back."""

    messages: list[Message]
    seqs: list[int]
    views: list[_View]
    calls: tuple[ToolUseBlock, ...]
    intents: dict[str, Intent]
    answers: dict[str, CallResult]
    final: CallResult | None


class Replay:
    """The state of a session after applying entries in order."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.messages: list[Message] = []
        self.seqs: list[int] = []
        """The seq of the entry that brought each message, if the caller names it."""
        self.rewinds: list[RewindEntry] = []
        """The rewinds that were not taken back."""
        self.left_out: set[str] = set()
        """The ids of the calls that a rewind left out. They stay in use: a key must not name two calls."""
        self.settings = SessionSettings()
        """The newest value of each setting."""
        self.intents: dict[str, Intent] = {}
        """The started calls of the newest reply, by call id."""
        self.answers: dict[str, CallResult] = {}
        """The results of the newest reply's calls, while other calls of it are still open."""
        self.final: CallResult | None = None
        """The result that ended the run, if no message followed."""
        self._views: list[_View] = []
        self._saved: list[_Saved | None] = []
        """The state before each of `rewinds`; None for one of the files alone."""
        self.measured: tuple[int, Usage] | None = None
        """The index and the usage of the newest reply, if nothing was compacted or cleared since."""
        self.queued: dict[str, SteeringQueued] = {}
        """The messages that wait to be delivered, by their ids, the oldest first."""
        self.requested: Requested | None = None
        """What the newest request had beside its messages, as far as these entries say."""
        self.needs_earlier = False
        """Whether a rewind goes back to the first entry or before it: then earlier entries are needed, too."""
        self._calls: tuple[ToolUseBlock, ...] = ()
        self._lost_entries = False
        for entry in entries:
            self.apply(entry)

    @property
    def _view(self) -> _View:
        return self._views[-1] if self._views else _View(0, None, 0, 0)

    @property
    def summary(self) -> Message | None:
        """The summary of the newest compaction."""
        return self._view.summary

    @property
    def start(self) -> int:
        """The index of the first message that is sent after it. Negative if replay began after that message."""
        return self._view.start

    @property
    def cleared(self) -> int:
        """The index of the first message whose results were not cleared."""
        return self._view.cleared

    def apply(self, entry: Entry, seq: int = 0) -> None:
        """Apply one entry. An unknown entry changes nothing."""
        match entry:
            case MessageEntry():
                self._say(entry, seq)
            case Intent(call_id=call_id):
                self.intents[call_id] = entry
            case CallResult(result=result):
                self._answer(result.tool_use_id, entry, seq)
            case SessionSettings():
                self.settings = merged(self.settings, entry)
            case SessionRecovered():
                self._lost_entries = True
            case SteeringQueued() | SteeringWithdrawn() | SteeringDelivered():
                self._steer(entry)
            case CompactionEntry() | ResultsClearedEntry():
                self._shorten(entry)
            case RewindEntry(undo=undo):
                self._undo() if undo else self._rewind(entry)
            case Requested():
                self.requested = combined(self.requested, entry)

    def _say(self, entry: MessageEntry, seq: int) -> None:
        message, is_reply = entry.message, entry.message.role == "assistant"
        if entry.usage and is_reply and tells_context(message, entry.usage):
            self.measured = len(self.messages), entry.usage
        self._add(message, seq)
        self._expect(message.tool_calls if is_reply else ())

    def _shorten(self, entry: CompactionEntry | ResultsClearedEntry) -> None:
        kept = len(self.messages) - entry.kept
        if isinstance(entry, CompactionEntry):
            self._see(entry.summary, kept, self.cleared)
        else:
            self._see(self.summary, self.start, max(self.cleared, kept))

    def _steer(self, entry: SteeringQueued | SteeringWithdrawn | SteeringDelivered) -> None:
        if isinstance(entry, SteeringQueued):
            self.queued.setdefault(entry.id, entry)
        else:
            self.queued.pop(entry.id, None)

    def unknown_outcomes(self) -> list[CallResult]:
        """Return error results for the interrupted calls that must not run again, because their outcome is unknown.

        After a loss of entries the intents are not reliable: then this covers every open call.
        """
        return [
            CallResult(_unknown(call, self.intents.get(call.id)))
            for call in self.open_calls
            if self._lost_entries or self._must_not_repeat(call)
        ]

    @property
    def open_calls(self) -> list[ToolUseBlock]:
        """The calls of the newest reply that have no result."""
        return [call for call in self._calls if call.id not in self.answers]

    def _must_not_repeat(self, call: ToolUseBlock) -> bool:
        intent = self.intents.get(call.id)
        return intent is not None and intent.effect not in ("read", "idempotent")

    def _expect(self, calls: tuple[ToolUseBlock, ...]) -> None:
        self._calls, self.final, self._lost_entries = calls, None, False
        self.intents, self.answers = {}, {}

    def _add(self, message: Message, seq: int) -> None:
        self.messages.append(message)
        self.seqs.append(seq)

    def _see(self, summary: Message | None, start: int, cleared: int) -> None:
        self._views.append(_View(len(self.messages), summary, start, cleared))
        self.measured = None

    def _rewind(self, entry: RewindEntry) -> None:
        self.rewinds.append(entry)
        if not entry.conversation:
            self._saved.append(None)
            return
        state = (self.messages, self.seqs, self._views, self._calls, self.intents, self.answers, self.final)
        self._saved.append(_Saved(*state))
        self.needs_earlier |= 0 < entry.dropped >= len(self.messages)
        cut = max(0, len(self.messages) - entry.dropped)
        self._reserve(self.messages[cut:])
        self.messages, self.seqs = messages_before(self.messages, cut), self.seqs[: cut + 1]
        del self.seqs[len(self.messages) :]
        self._views = [view for view in self._views if view.at <= cut]
        self.measured = None
        self._expect(self.messages[-1].tool_calls if self.messages else ())
        self._lost_entries = True  # only a forged rewind ends with calls; whether they ran is not known

    def _undo(self) -> None:
        """Go back to the state before the newest rewind. What was said since is left out."""
        if not self._saved:
            self.needs_earlier = True
            return  # the entry of the rewind was lost, or is earlier
        self.rewinds.pop()
        if saved := self._saved.pop():
            self._reserve(self.messages)
            self.messages, self.seqs, self._views, self._calls, self.intents, self.answers, self.final = saved
            self.measured = None

    def _reserve(self, messages: Iterable[Message]) -> None:
        self.left_out.update(call.id for message in messages for call in message.tool_calls)

    def _answer(self, call_id: str, answer: CallResult, seq: int) -> None:
        if not any(call.id == call_id for call in self._calls):
            return
        self.answers.setdefault(call_id, answer)
        if not self.open_calls:
            answers = [self.answers[call.id] for call in self._calls]
            self._add(Message.user(*(answer.result for answer in answers)), seq)
            self._expect(())
            self.final = next((answer for answer in answers if answer.final), None)


def merged(old: SessionSettings, new: SessionSettings) -> SessionSettings:
    """Return the old settings with the new values applied."""
    given = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not None}
    return msgspec.structs.replace(old, **given)


def combined(old: Requested | None, new: Requested) -> Requested:
    """Return what requests have after the new entry."""
    given = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not msgspec.UNSET}
    return msgspec.structs.replace(old, **given) if old else new


def changes(old: SessionSettings, new: SessionSettings) -> SessionSettings | None:
    """Return the settings that differ from the old ones, or None if none does."""
    different = {
        name: value
        for name in new.__struct_fields__
        if (value := getattr(new, name)) is not None and value != getattr(old, name)
    }
    if not new.effort and not old.effort:
        different.pop("effort", None)  # the default is stored only if it replaces another value
    return SessionSettings(**different) if different else None


def start_of_tail(entries: Sequence[Entry]) -> int | None:
    """Return the index of the first reply, from which replay can start: all earlier calls are closed by then."""
    for index, entry in enumerate(entries):
        if isinstance(entry, MessageEntry) and entry.message.role == "assistant":
            return index
    return None


def replayed(records: Iterable[Record]) -> Replay:
    """Return the state of a session after these entries."""
    replay = Replay()
    for record in records:
        replay.apply(record.entry, record.seq)
    return replay


def has_view(page: Iterable[Record]) -> bool:
    """Return whether these entries have the newest compaction and all messages that it kept."""
    replay = Replay(record.entry for record in page)
    return replay.summary is not None and replay.start >= 0


def without_rewound(records: Iterable[Record]) -> list[Record]:
    """Return the entries of the conversation as it is now: without those that a rewind left out."""
    kept: list[Record] = []
    former: list[list[Record]] = []
    replay = Replay()
    for record in records:
        match record.entry:
            case RewindEntry(undo=True):
                kept = former.pop() if former else kept
            case RewindEntry(dropped=dropped):
                former.append(kept)
                gone = replay.seqs[-dropped:] if dropped else []
                kept = [each for each in kept if not gone or each.seq < gone[0]]
        kept.append(record)
        replay.apply(record.entry, record.seq)
    return kept


def _unknown(call: ToolUseBlock, intent: Intent | None) -> ToolResultBlock:
    arguments = msgspec.json.encode(intent.input if intent else call.input).decode()
    if len(arguments) > 500:
        arguments = f"{arguments[:500]}…"
    text = (
        f"The outcome of this call is unknown: the program stopped while {call.name} was running. It may have run "
        f"in part, in full, or not at all, and it was not run again. Check before you repeat it. "
        f"Its arguments were: {arguments}"
    )
    return ToolResultBlock(call.id, (TextBlock(text),), is_error=True, is_unknown=True)
