"""An editor that speaks version 2 of the protocol is told what happens in one session: every message has an id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex

from outrider.acp.schema import notifications
from outrider.acp.schema.content import ContentBlock, TextContent
from outrider.acp.schema.notifications import NoticeTold
from outrider.acp.update_sender import UpdateSender
from outrider.acp.v2.schema import (
    AgentChunk,
    AgentMessage,
    AgentThought,
    AnyUpdate,
    Notification,
    ThoughtChunk,
    UserMessage,
)
from outrider.acp.v2.words import in_draft
from outrider.acp.wire import ClosedError
from outrider.conversation.messages import Message
from outrider.text import clean


class DraftUpdateSender(UpdateSender):
    """Tells of one session. The id of a message is its place, so that it is the same when the session is resumed."""

    _place = 0
    """How many messages stand in the conversation."""
    _attempts = 0
    """How often something was said at this place that does not stand there."""
    _apart = ""
    """The id of what is said now and stands in no conversation."""
    _told: frozenset[type] = frozenset()
    """What of the reply at this place was told: words, or thoughts."""

    def tell(self, update: AnyUpdate) -> int:
        """Anything that the protocol has a word for, after the words that wait; the bytes that it took."""
        self.flush()
        return self._send(update)

    def said(self, message: Message) -> None:
        """What the person said."""
        self.tell(UserMessage(self.said_id, [shown for block in message.content if (shown := self._shown(block))]))

    @property
    def said_id(self) -> str:
        """The id of what the person says now."""
        return f"message-{self._place + 1}"

    def stood(self) -> None:
        """What was told last stands in the conversation; what comes now is another message."""
        self.flush()
        self._place += 1
        self._attempts, self._told = 0, frozenset()

    def stopped(self) -> None:
        """What was told since the last message that stands is not gone on with."""
        self.flush()
        if self._told:
            self._attempts += 1
            self._told = frozenset()

    def discard(self) -> None:
        """What was told of the reply does not count, and is not to be seen any more."""
        self.flush()
        if notifications.AgentChunk in self._told:
            self.tell(AgentMessage(self._reply_id, None))
        if notifications.ThoughtChunk in self._told:
            self.tell(AgentThought(self._reply_id, None))
        self.stopped()

    @contextmanager
    def apart(self, said: Sequence[ContentBlock]) -> Iterator[str]:
        """What the person says to the program and not to the model, and what is said to that; the id of both."""
        self.flush()
        self._apart = f"apart-{token_hex(8)}"
        try:
            self.tell(UserMessage(self._apart, list(said)))
            yield self._apart
            self.flush()
        finally:
            self._apart = ""

    def notice(self, text: str) -> None:
        """Something to know."""
        self.tell(NoticeTold("warning", clean(text)))

    @property
    def _reply_id(self) -> str:
        return self._apart or f"message-{self._place + 1}{f'-{self._attempts}' if self._attempts else ''}"

    def _say(self, chunk: type[notifications.AgentChunk | notifications.ThoughtChunk], text: str) -> None:
        kind = AgentChunk if chunk is notifications.AgentChunk else ThoughtChunk
        if not self._apart:
            self._told |= {chunk}
        self._send(kind(self._reply_id, TextContent(text)))

    def _send(self, update: AnyUpdate) -> int:
        if (drafted := in_draft(update)) is None:
            return 0
        size = self._client.connection.notify("session/update", Notification(self._session, drafted))
        if not size:
            raise ClosedError
        return size
