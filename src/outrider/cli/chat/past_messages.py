"""The last messages of a session, shown when it is resumed, and its calls with what their tools said for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.tool_call_lines import whole_call_lines
from outrider.cli.styles import BOLD, styled
from outrider.coding import sentences
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import Message
from outrider.conversation.user_messages import is_failed_check
from outrider.log.entries import CallResult, MessageEntry, Record
from outrider.log.state import without_rewound
from outrider.runtime.entry_events import EntryEvents
from outrider.runtime.events import ThinkingDelta, ToolFinished
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.log.log import Log
    from outrider.runtime.session import Session


RECENT_MESSAGES = 8


def show_recent(current: CurrentSession, session: Session, view: SessionView) -> None:
    """Show the session's id and its last messages, as they were shown when they came."""
    view.write([styled(f"Session {session.id[:8]}, last messages:", BOLD), ""])
    events = EntryEvents()
    for record in _recent_records(current.log, session.id):
        entry = record.entry
        said = isinstance(entry, MessageEntry) and entry.message.role == "user" and entry.message
        if said and said.text.strip() and not is_failed_check(said):
            view.write([*view.message_lines(said.text), ""])
        for event in events.of(record):
            if not isinstance(event, ThinkingDelta):
                view.show(event)
    view.stop()
    if session.goal:
        view.write([safe_line(sentences.goal_is(session)), "/continue works on."])
    elif session.is_unfinished:
        view.write(["The last turn was interrupted. /continue resumes it; or send a new message."])


def _recent_records(log: Log, session: str) -> list[Record]:
    records = without_rewound(log.newest(session, ENTRIES))
    said = [index for index, record in enumerate(records) if isinstance(record.entry, MessageEntry)]
    return records[said[-RECENT_MESSAGES:][0] :] if said else []


ENTRIES = 500
"""How many of the newest entries of the log are read for it."""


def stored_details(log: Log, session: str) -> dict[str, Any]:
    """Return the details of the newest results of a session, by call id."""
    entries = (record.entry for record in log.newest(session, ENTRIES))
    return {entry.result.tool_use_id: entry.details for entry in entries if isinstance(entry, CallResult)}


class PastCalls:
    """The finished calls of messages."""

    def __init__(self, messages: Sequence[Message], details: Mapping[str, Any], folder: Path) -> None:
        self._messages = messages
        self._results = {result.tool_use_id: result for message in messages for result in message.tool_results}
        self._details = details
        self._folder = folder

    def __iter__(self) -> Iterator[tuple[str, ToolFinished]]:
        """Yield the title and the result of each call, in order."""
        for message in self._messages:
            yield from self.of(message)

    def of(self, message: Message) -> Iterator[tuple[str, ToolFinished]]:
        """Yield those of one message."""
        for call in message.tool_calls:
            if result := self._results.get(call.id):
                event = ToolFinished(call.id, call.name, result, self._details.get(call.id))
                yield safe_line(title(call.name, call.input, self._folder)), event


def last_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages since the user's last one."""
    start = next((at for at in reversed(range(len(messages))) if _is_from_user(messages[at])), 0)
    return messages[start:]


def whole_output(messages: Sequence[Message], details: Mapping[str, Any], folder: Path, width: int) -> str:
    """Return the calls of these messages with their whole output, the newest first."""
    lines: list[str] = []
    for call_title, event in reversed(list(PastCalls(messages, details, folder))):
        lines += [*whole_call_lines(event, call_title, width), ""]
    return "\n".join(lines) or "There are no calls since your last message.\n"


def _is_from_user(message: Message) -> bool:
    return message.role == "user" and not message.tool_results
