"""The last messages of a session, shown when it is resumed, and its calls with what their tools said for people."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.keyboard import Keyboard
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.tool_call_lines import whole_call_lines
from outrider.cli.chat.turn import TurnRunner
from outrider.cli.styles import BOLD, styled
from outrider.cli.user_programs import page
from outrider.coding import sentences
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import Message
from outrider.conversation.user_messages import is_from_user
from outrider.log.entries import CallResult, MessageEntry, Record
from outrider.log.session_id import shown_id
from outrider.log.state import without_rewound
from outrider.processes.programs import Programs
from outrider.prompts import prompt
from outrider.runtime.entry_events import EntryEvents
from outrider.runtime.events import ThinkingDelta, ToolFinished
from outrider.text.visible import safe_line
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.log.log import Log
    from outrider.runtime.session import Session


RECENT_MESSAGES = 8


def show_recent(current: CurrentSession, session: Session, view: SessionView) -> None:
    """Show the session's id and its last messages, as they were shown when they came."""
    view.write([styled(f"Session {shown_id(session.id)}, last messages:", BOLD), ""])
    events = EntryEvents()
    for record in _recent_records(current.log, session.id):
        entry = record.entry
        if isinstance(entry, MessageEntry):
            _show_said(entry.message, view)
        for event in events.of(record):
            if not isinstance(event, ThinkingDelta):
                view.show(event)
    view.stop()
    if session.goal:
        view.write([safe_line(sentences.goal_is(session)), "/continue works on."])
    elif session.is_unfinished:
        view.write(["The last turn was interrupted. /continue resumes it; or send a new message."])


def _show_said(message: Message, view: SessionView) -> None:
    """Show what the user said, or that the user interrupted. What else the runtime tells the model has events."""
    if is_from_user(message) and message.text.strip():
        view.write([*view.message_lines(message.text), ""])
    elif message.role == "user" and message.text == prompt("interrupted"):
        view.note(message.text.strip("[]"))
        view.write([""])


def _recent_records(log: Log, session: str) -> list[Record]:
    records = without_rewound(log.newest(session, ENTRIES))
    said = [index for index, record in enumerate(records) if isinstance(record.entry, MessageEntry)]
    return records[said[-RECENT_MESSAGES:][0] :] if said else []


ENTRIES = 500
"""How many of the newest entries of the log are read for it."""


class OutputPager:
    """Shows the calls since the user's last message with their whole output, also while the agent works on."""

    def __init__(
        self, current: CurrentSession, view: SessionView, turn: TurnRunner, keyboard: Keyboard, programs: Programs
    ) -> None:
        self._current, self._view, self._turn = current, view, turn
        self._keyboard, self._programs = keyboard, programs
        self._paging: asyncio.Future[None] | None = None

    def text(self) -> str:
        """Return the calls, the newest first."""
        lines: list[str] = []
        if session := self._current.session:
            messages = _last_turn(session.history.tail)
            entries = (record.entry for record in self._current.log.newest(session.id, ENTRIES))
            details = {each.result.tool_use_id: each.details for each in entries if isinstance(each, CallResult)}
            results = {result.tool_use_id: result for message in messages for result in message.tool_results}
            for call in reversed([each for message in messages for each in message.tool_calls if each.id in results]):
                event = ToolFinished(call.id, call.name, results[call.id], details.get(call.id))
                shown = safe_line(title(call.name, call.input, self._current.folder))
                lines += [*whole_call_lines(event, shown, self._view.region.width), ""]
        return "\n".join(lines) or "There are no calls since your last message.\n"

    def open(self) -> None:
        """Show the text in the pager during a turn. What the agent writes meanwhile waits."""
        if self._paging is None:
            self._paging = asyncio.ensure_future(self._page())

    async def closed(self) -> None:
        """Wait for the pager, which has the terminal."""
        if self._paging:
            await self._paging

    async def _page(self) -> None:
        try:
            text = self.text()
            with self._keyboard.paused(), self._view.region.held():
                await Threads().run(page, text, self._programs)
        finally:
            self._paging = None
        if self._turn.is_running:
            self._view.draw()


def _last_turn(messages: Sequence[Message]) -> Sequence[Message]:
    said = [each.role == "user" and not each.tool_results for each in messages]
    start = next((at for at in reversed(range(len(messages))) if said[at]), 0)
    return messages[start:]
