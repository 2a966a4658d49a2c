"""Rebuild a session from its entries: the messages, the settings and the calls that were open when it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from outrider.log.entries import (
    CallResult,
    CompactionEntry,
    Entry,
    Intent,
    MessageEntry,
    ResultsClearedEntry,
    SessionRecovered,
    SessionSettings,
    SteeringDelivered,
    SteeringQueued,
    SteeringWithdrawn,
)


class Replay:
    """The state of a session after applying entries in order."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.messages: list[Message] = []
        self.settings = SessionSettings()
        """The newest value of each setting."""
        self.intents: dict[str, Intent] = {}
        """The started calls of the newest reply, by call id."""
        self.answers: dict[str, CallResult] = {}
        """The results of the newest reply's calls, while other calls of it are still open."""
        self.final: CallResult | None = None
        """The result that ended the run, if no message followed."""
        self.summary: Message | None = None
        """The summary of the newest compaction."""
        self.start = 0
        """The index of the first message that is sent after it. Negative if replay began after that message."""
        self.cleared = 0
        """The index of the first message whose results were not cleared."""
        self.measured: tuple[int, Usage] | None = None
        """The index and the usage of the newest reply, if nothing was compacted or cleared since."""
        self.queued: dict[str, SteeringQueued] = {}
        """The messages that wait to be delivered, by their ids, the oldest first."""
        self._calls: tuple[ToolUseBlock, ...] = ()
        self._lost_entries = False
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Apply one entry. An unknown entry changes nothing."""
        match entry:
            case MessageEntry(message=message, usage=usage):
                if usage and message.role == "assistant":
                    self.measured = len(self.messages), usage
                self.messages.append(message)
                self._expect(message.tool_calls if message.role == "assistant" else ())
            case Intent(call_id=call_id):
                self.intents[call_id] = entry
            case CallResult(result=result):
                self._answer(result.tool_use_id, entry)
            case SessionSettings():
                self.settings = merged(self.settings, entry)
            case SessionRecovered():
                self._lost_entries = True
            case SteeringQueued() | SteeringWithdrawn() | SteeringDelivered():
                self._steer(entry)
            case CompactionEntry(summary=summary, kept=kept):
                self.summary, self.start, self.measured = summary, len(self.messages) - kept, None
            case ResultsClearedEntry(kept=kept):
                self.cleared, self.measured = max(self.cleared, len(self.messages) - kept), None

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

    def _answer(self, call_id: str, answer: CallResult) -> None:
        if not any(call.id == call_id for call in self._calls):
            return
        self.answers.setdefault(call_id, answer)
        if not self.open_calls:
            answers = [self.answers[call.id] for call in self._calls]
            self.messages.append(Message.user(*(answer.result for answer in answers)))
            self._expect(())
            self.final = next((answer for answer in answers if answer.final), None)


def merged(old: SessionSettings, new: SessionSettings) -> SessionSettings:
    """Return the old settings with the new values applied."""
    given = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not None}
    return msgspec.structs.replace(old, **given)


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


def _unknown(call: ToolUseBlock, intent: Intent | None) -> ToolResultBlock:
    arguments = msgspec.json.encode(intent.input if intent else call.input).decode()
    if len(arguments) > 500:
        arguments = f"{arguments[:500]}…"
    text = (
        f"The outcome of this call is unknown: the program stopped while {call.name} was running. It may have run "
        f"in part, in full, or not at all, and it was not run again. Check before you repeat it. "
        f"Its arguments were: {arguments}"
    )
    return ToolResultBlock(call.id, (TextBlock(text),), is_error=True)
