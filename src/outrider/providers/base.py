"""The seam between the loop and a model: one request in, a stream of deltas and one reply out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

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


Effort: TypeAlias = Literal["low", "medium", "high"]
"""How much a reasoning model thinks before it answers."""


class ModelSettings(msgspec.Struct, frozen=True):
    """How a model is to answer. None leaves a setting to the provider."""

    effort: Effort | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    """The longest reply, in tokens."""
    tool_choice: str | None = None
    """`auto`, `required`, `none` or the name of a tool."""
    options: dict[str, Any] = {}
    """Fields for the body of the request, as the API has them. They win over everything else."""

    def __post_init__(self) -> None:
        if self.effort not in (None, "low", "medium", "high"):
            raise ValueError(f"effort is {self.effort!r}; it must be low, medium or high")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature is {self.temperature!r}; it must be a number from 0 to 2")
        if self.max_tokens is not None and not self.max_tokens > 0:
            raise ValueError(f"max_tokens is {self.max_tokens!r}; it must be a number over 0")

    @property
    def after_first(self) -> ModelSettings:
        """The settings for the later requests of a run: a tool that must be called would be called without end."""
        return self if self.tool_choice is None else msgspec.structs.replace(self, tool_choice=None)


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
    settings: ModelSettings = ModelSettings()
    """How the model is to answer."""


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
