"""An editor that speaks version 1 of the protocol is told what happens in one session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import UNSET

from outrider.acp.client import Client
from outrider.acp.content import shown_file
from outrider.acp.schema.content import ContentBlock, TextContent
from outrider.acp.schema.notifications import (
    AgentChunk,
    Cost,
    NoticeTold,
    Plan,
    PlanEntry,
    SessionUpdate,
    ThoughtChunk,
    UsageChanged,
    UserChunk,
)
from outrider.acp.wire import ClosedError
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, Usage
from outrider.text import clean

SLOW_SECONDS = 0.2
"""How long words wait for more of them while the editor takes less than it is told."""
_STATUSES = ("pending", "in_progress", "completed")


class UpdateSender:
    """Tells of one session. A Telling."""

    def __init__(
        self,
        client: Client,
        session: str,
        read: Callable[[AttachmentBlock], bytes],
        spent: Callable[[], tuple[int | None, float | None]],
    ) -> None:
        self._client = client
        self._session = session
        self._read = read
        self._spent = spent
        """How much the model can take in, and what all of it cost so far."""
        self._chunk: type[AgentChunk | ThoughtChunk] = AgentChunk
        self._waiting: list[str] = []
        """Words that came at the same moment, or while the editor was slow: they go out together."""
        self._timer: asyncio.Handle | None = None

    def tell(self, update: SessionUpdate) -> int:
        """Anything that the protocol has a word for, after the words that wait; the bytes that it took."""
        self.flush()
        return self._client.tell(self._session, update)

    def words(self, text: str) -> None:
        """More of what the model says."""
        self._stream(AgentChunk, text)

    def thoughts(self, text: str) -> None:
        """More of what the model thinks."""
        self._stream(ThoughtChunk, text)

    def _stream(self, chunk: type[AgentChunk | ThoughtChunk], text: str) -> None:
        if chunk is not self._chunk:
            self.flush()
            self._chunk = chunk
        self._waiting.append(text)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            slow = self._client.is_congested
            self._timer = loop.call_later(SLOW_SECONDS, self.flush) if slow else loop.call_soon(self.flush)

    def flush(self) -> None:
        """Tell the words that wait."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            text, self._waiting = clean("".join(self._waiting)), []
            with suppress(ClosedError):
                self._client.tell(self._session, self._chunk(TextContent(text)))

    def said(self, message: Message) -> None:
        """What the person said, when a session is loaded."""
        for block in message.content:
            shown = self._shown(block)
            if shown:
                self.tell(UserChunk(shown))

    def _shown(self, block: object) -> ContentBlock | None:
        if isinstance(block, TextBlock):
            return TextContent(block.text)
        return shown_file(block, self._read) if isinstance(block, AttachmentBlock) else None

    def notice(self, text: str) -> None:
        """Something to know; among the thoughts, for editors that have no place for it."""
        if self._client.takes_notices:
            self.tell(NoticeTold("warning", clean(text)))
        else:
            self.tell(ThoughtChunk(TextContent(f"{clean(text)}\n")))

    def plan(self, todos: list[Any]) -> None:
        """The plan has changed."""
        entries = [
            PlanEntry(str(each.get("content", "")), status if status in _STATUSES else "pending", "medium")
            for each in todos
            if isinstance(each, dict)
            for status in [each.get("status")]
        ]
        self.tell(Plan(entries))

    def usage(self, usage: Usage) -> None:
        """How full the context is; only where it is known how much there can be."""
        window, cost = self._spent()
        if window:
            self.tell(UsageChanged(usage.total_tokens, window, UNSET if cost is None else Cost(cost, "USD")))
