"""A session out of its entries: the messages, who answered, and what was going on when it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.log.entries import CallResult, Entry, Intent, MessageEntry, SessionRecovered, SessionSettings


class Replay:
    """Takes entries in order, and knows the session as it then stood."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.messages: list[Message] = []
        self.settings = SessionSettings()
        """The newest value of each."""
        self.intents: dict[str, Intent] = {}
        """Calls of the newest reply that were begun, by id."""
        self.answers: dict[str, CallResult] = {}
        """Calls of the newest reply that have their answer while others still wait for theirs."""
        self.final: CallResult | None = None
        """The answer that ended the run, if nothing was said since."""
        self._waiting: tuple[ToolUseBlock, ...] = ()
        self._had_losses = False
        for entry in entries:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """What the entry changes. One that this version does not know changes nothing."""
        match entry:
            case MessageEntry(message=message):
                self.messages.append(message)
                self._expect(message.tool_calls if message.role == "assistant" else ())
            case Intent(call_id=call_id):
                self.intents[call_id] = entry
            case CallResult(result=result):
                self._answer(result.tool_use_id, entry)
            case SessionSettings():
                self.settings = merged(self.settings, entry)
            case SessionRecovered():
                self._had_losses = True

    def unsettled(self) -> list[CallResult]:
        """Answers for the calls that were begun and may not be begun again: what they did is not known.

        After a loss of entries nobody knows which calls were begun: then it is all that are open.
        """
        return [
            CallResult(_unknown(call, self.intents.get(call.id)))
            for call in self.open_calls
            if self._had_losses or self._was_begun_for_good(call)
        ]

    @property
    def open_calls(self) -> list[ToolUseBlock]:
        """The calls of the newest reply that have no answer."""
        return [call for call in self._waiting if call.id not in self.answers]

    def _was_begun_for_good(self, call: ToolUseBlock) -> bool:
        intent = self.intents.get(call.id)
        return intent is not None and intent.effect not in ("read", "idempotent")

    def _expect(self, calls: tuple[ToolUseBlock, ...]) -> None:
        self._waiting, self.final, self._had_losses = calls, None, False
        self.intents, self.answers = {}, {}

    def _answer(self, call_id: str, answer: CallResult) -> None:
        if not any(call.id == call_id for call in self._waiting):
            return
        self.answers.setdefault(call_id, answer)
        if not self.open_calls:
            answers = [self.answers[call.id] for call in self._waiting]
            self.messages.append(Message.user(*(answer.result for answer in answers)))
            self._expect(())
            self.final = next((answer for answer in answers if answer.final), None)


def merged(old: SessionSettings, new: SessionSettings) -> SessionSettings:
    """The newest value of each setting."""
    given = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not None}
    return msgspec.structs.replace(old, **given)


def changes(old: SessionSettings, new: SessionSettings) -> SessionSettings | None:
    """What of the new is different; None if nothing is."""
    different = {
        name: value
        for name in new.__struct_fields__
        if (value := getattr(new, name)) is not None and value != getattr(old, name)
    }
    return SessionSettings(**different) if different else None


def beginning_of_tail(entries: Sequence[Entry]) -> int | None:
    """The first place at which the entries can be cut: a reply. What was going on before it ended with it."""
    for index, entry in enumerate(entries):
        if isinstance(entry, MessageEntry) and entry.message.role == "assistant":
            return index
    return None


def _unknown(call: ToolUseBlock, intent: Intent | None) -> ToolResultBlock:
    asked = msgspec.json.encode(intent.input if intent else call.input).decode()
    if len(asked) > 500:
        asked = f"{asked[:500]}…"
    text = (
        f"The outcome of this call is unknown: the program stopped while {call.name} was running. It may have been "
        f"carried out in part, in full, or not at all, and it was not run again. Check before you repeat it. "
        f"It was asked for: {asked}"
    )
    return ToolResultBlock(call.id, (TextBlock(text),), is_error=True)
