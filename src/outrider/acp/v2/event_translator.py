"""What a session does, in the order in which version 2 has it told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.acp.calls import outcome
from outrider.acp.event_translator import EventTranslator
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.state import CallState, Diff, Terminal, Text
from outrider.acp.v2.output import printed
from outrider.acp.v2.state import Foreground
from outrider.acp.v2.update_sender import DraftUpdateSender
from outrider.acp.v2.updates import Updates
from outrider.conversation.messages import Message, ToolResultBlock
from outrider.prompts import prompt
from outrider.runtime.events import Event, MessageAdded, ReplyDiscarded, ToolFinished, ToolStarted


class DraftEventTranslator(EventTranslator):
    """Takes the events of one session. Each message is known by its place, also what the person says."""

    def __init__(
        self, engine: Engine, teller: DraftUpdateSender, folder: Path, updates: Updates, foreground: Foreground
    ) -> None:
        super().__init__(engine, teller, folder, appends=True)
        self._teller = teller
        self._updates = updates
        self._foreground = foreground
        self._streamed: dict[str, int] = {}
        """The bytes that were told as they were printed, by call."""

    def show(self, event: Event) -> None:
        """Take one event."""
        match event:
            case MessageAdded(message=message):
                self._stands(event, message)
                return
            case ReplyDiscarded():
                self._teller.discard()
            case ToolStarted(call_id=call_id):
                self._foreground.started(call_id)
        super().show(event)
        if isinstance(event, ToolFinished):
            self._foreground.finished(event.call_id)

    def _stands(self, event: MessageAdded, message: Message) -> None:
        if not is_told(message):
            return
        if message.role == "user":
            self._engine.flush()
            self._teller.said(message)
        else:
            super().show(event)
        self._teller.stood()

    def _progressed(self, call_id: str, content: Any) -> None:
        if isinstance(content, dict) and isinstance(text := content.get("output"), str):
            shown = self.shown_id(call_id)
            self._streamed[shown] = self._streamed.get(shown, 0) + len(text.encode(errors="replace"))
        super()._progressed(call_id, content)

    def _outcome(self, state: CallState, event: ToolFinished) -> dict[str, Any]:
        details = event.details
        self._engine.flush()  # so that `Updates` knows the call of which it learns something
        if isinstance(details, dict):
            self._learn(state.id, details)
        fields = outcome(state, event.result, details)
        if Terminal(state.id) not in state.content:
            return fields
        output, remark = printed(event.result, details)
        if not self._is_told(state.id, details):
            self._updates.replaced(state.id, event.result.whole or output)
        kept = [item for item in state.content if isinstance(item, Diff | Terminal)]
        return fields | {"content": (*kept, Text(remark)) if remark else kept}

    def _is_told(self, call_id: str, details: Any) -> bool:
        """Whether all that was printed was told as it came. Of much at once, only the end is."""
        size = details.get("bytes") if isinstance(details, dict) else None
        streamed = self._streamed.pop(call_id, 0)
        return streamed > 0 if size is None else streamed == size

    def _learn(self, call_id: str, details: dict[str, Any]) -> None:
        if isinstance(diff := details.get("diff"), str):
            self._updates.made(call_id, diff)
        if isinstance(cwd := details.get("cwd"), str):
            self._updates.cwd = Path(cwd)


def is_told(message: Message) -> bool:
    """Whether a message is one for the editor: not results, which stand in their calls, nor a mark of ours."""
    if message.role == "assistant":
        return True
    has_words = any(not isinstance(block, ToolResultBlock) for block in message.content)
    return has_words and message.text != prompt("interrupted")
