"""Sends the session updates of one session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType

from outrider.acp import schema
from outrider.acp.client import EditorClient
from outrider.acp.content import file_content
from outrider.acp.schema import ContentBlock, TextContent
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock
from outrider.providers.rendering.server_tools import source_lines
from outrider.text import clean

_PLAN_STATUSES = ("pending", "in_progress", "completed")


class UpdateSender:
    """Sends updates in order. Text of the same moment is one update; for a slow editor it waits and grows."""

    def __init__(
        self,
        client: EditorClient,
        session: str,
        read_attachment: Callable[[AttachmentBlock], bytes],
        context_usage: Callable[[], tuple[int | None, float | None]],
    ) -> None:
        self.client = client
        self._session = session
        self._read_attachment = read_attachment
        self._context_usage = context_usage
        """Returns the size of the context window in tokens, and the cost of the session so far."""
        self._chunk: type[schema.AgentMessageChunk | schema.AgentThoughtChunk] = schema.AgentMessageChunk
        self._pending: list[str] = []
        """Text that is not sent yet."""
        self._is_scheduled = False
        self.has_sent_title = False
        """Whether the editor knows the title of the session."""

    def send(self, update: schema.SessionUpdate) -> int:
        """Send an update, after any pending text. Return its size in bytes; 0 if the editor is gone."""
        if self._pending:
            self.flush()
        return self.client.send_update(self._session, update)

    def send_text(self, text: str) -> None:
        self._stream(schema.AgentMessageChunk, text)

    def send_thought(self, text: str) -> None:
        self._stream(schema.AgentThoughtChunk, text)

    def _stream(self, chunk: type[schema.AgentMessageChunk | schema.AgentThoughtChunk], text: str) -> None:
        if chunk is not self._chunk:
            self.flush()
            self._chunk = chunk
        self._pending.append(text)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.client.when_drained(self._on_drained)

    def _on_drained(self) -> None:
        self._is_scheduled = False
        self.flush()

    def flush(self) -> None:
        if self._pending:
            text, self._pending = clean("".join(self._pending)), []
            self.client.send_update(self._session, self._chunk(TextContent(text)))

    def send_user_message(self, message: Message) -> None:
        """Send a message of the user, when a session is replayed or someone talks to it from elsewhere."""
        for block in message.content:
            if content := self._content(block):
                self.send(schema.UserMessageChunk(content))

    def send_sources(self, message: Message) -> None:
        """Send the sources of the model's text as links."""
        if sources := source_lines(message.citations):
            self.send(schema.AgentMessageChunk(TextContent(clean(f"\n\nSources:\n\n{sources}\n"))))

    def send_pictures(self, message: Message) -> None:
        for block in message.content:
            if isinstance(block, AttachmentBlock) and (content := self._content(block)):
                self.send(schema.AgentMessageChunk(content))

    def _content(self, block: object) -> ContentBlock | None:
        if isinstance(block, TextBlock):
            return TextContent(block.text)
        return file_content(block, self._read_attachment) if isinstance(block, AttachmentBlock) else None

    def send_notice(self, text: str, severity: str = "warning") -> None:
        """Send a notice; as a thought to editors that do not support notices."""
        if self.client.takes_notices:
            self.send(schema.NoticeUpdate(severity, clean(text)))
        else:
            self.send(schema.AgentThoughtChunk(TextContent(f"{clean(text)}\n")))

    def send_title(self, title: str) -> None:
        self.has_sent_title = True
        self.send(schema.SessionInfoUpdate(title))

    def send_plan(self, todos: list[Any]) -> None:
        entries = [
            schema.PlanEntry(str(each.get("content", "")), status if status in _PLAN_STATUSES else "pending", "medium")
            for each in todos
            if isinstance(each, dict)
            for status in [each.get("status")]
        ]
        self.send(schema.Plan(entries))

    def send_usage(self, used: int) -> None:
        """Send how many tokens of the context window are used, if its size is known."""
        window, cost = self._context_usage()
        if window:
            self.send(schema.UsageUpdate(used, window, UNSET if cost is None else schema.Cost(cost, "USD")))

    def send_compaction(self, id: str, status: str, summary: str = "") -> None:
        """Send the state of a compaction, to an editor that takes it."""
        blocks: list[ContentBlock] | UnsetType = [TextContent(clean(summary))] if summary else UNSET
        self.send(schema.CompactionUpdate(id, status, blocks))
