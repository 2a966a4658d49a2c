"""The seam between the loop and a model: one request in, a stream of deltas and one reply out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from outrider.conversation.messages import Message, Usage
from outrider.conversation.store import AttachmentStore
from outrider.providers.deltas import Delta, Notice


class StopReason(StrEnum):
    """Why a reply ended. Whether it has calls is told by its blocks, never by this."""

    END = "end"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_EXCEEDED = "context_exceeded"
    MALFORMED_CALL = "malformed_call"
    PAUSE = "pause"
    """The model wants to go on: asking again with the same conversation continues the reply."""
    OTHER = "other"


REMARKABLE = {
    StopReason.MAX_TOKENS: "the reply was cut off at its limit of length",
    StopReason.REFUSAL: "the model refused to answer",
    StopReason.CONTENT_FILTER: "the provider's content filter ended the reply",
    StopReason.CONTEXT_EXCEEDED: "the conversation has become too long for the model",
    StopReason.MALFORMED_CALL: "the model made a call that makes no sense",
}
"""Ends of a reply that a person should be told of, and in which words."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments; its root is an object."""


class Request(msgspec.Struct, frozen=True):
    """All that a model needs for one reply. Nothing in it may be changed."""

    messages: Sequence[Message]
    """Sound: they satisfy the invariants of `history`."""
    store: AttachmentStore
    """Where the bytes of attachments are read."""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    reminder: str = ""
    """Words for this request alone, shown to the model after the last message and marked as not the user's."""
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    """The session's scratch paper for adapters: what was rendered once is kept here for its next request."""


class Reply(msgspec.Struct, frozen=True):
    """A model's complete answer."""

    message: Message
    stop_reason: StopReason = StopReason.END
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        """The words of the reply."""
        return self.message.text


@runtime_checkable
class Provider(Protocol):
    """A model that can be asked.

    `stream` yields any number of deltas and notices and then exactly one `Reply`, the last item. It raises
    `ProviderError` and nothing else; a stream that ends without a reply counts as torn. It does not change the request,
    and it may be cancelled at any point. The text of deltas can be encoded. One provider may serve many sessions.
    """

    @property
    def name(self) -> str:
        """The model as a user names it, for example "demo"."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Ask the model once."""
        ...
