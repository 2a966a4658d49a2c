"""The interface between the loop and a model: one request in, a stream of deltas and one reply out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.store import AttachmentStore
from outrider.conversation.usage import Usage
from outrider.providers.deltas import Delta, Notice
from outrider.tools.server_tool import ServerTool


class StopReason(StrEnum):
    """Why a reply ended. Whether it has calls is decided by its blocks, not by this reason."""

    END = "end"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_EXCEEDED = "context_exceeded"
    MALFORMED_CALL = "malformed_call"
    PAUSE = "pause"
    """The model wants to continue: a request with the same conversation continues the reply."""
    OTHER = "other"


REMARKABLE: Mapping[str, str] = {
    StopReason.MAX_TOKENS: "the reply was cut off at its length limit",
    StopReason.REFUSAL: "the model refused to answer",
    StopReason.CONTENT_FILTER: "the provider's content filter ended the reply",
    StopReason.CONTEXT_EXCEEDED: "the conversation is too long for the model",
    StopReason.MALFORMED_CALL: "the model made a malformed tool call",
}
"""Stop reasons that the user should see, with their messages."""

Effort: TypeAlias = Literal["none", "low", "medium", "high", "max"]
"""How much a reasoning model thinks before it answers. `none` and `max` are the least and the most that it offers."""
EFFORTS: tuple[Effort, ...] = get_args(Effort)
EffortChoice: TypeAlias = Effort | Literal["default"]
"""An effort as a person chooses it: one of the levels, or what the provider does if nothing is said."""
EFFORT_CHOICES: tuple[EffortChoice, ...] = (*EFFORTS, "default")


CacheLifetime: TypeAlias = Literal["5m", "1h"]
CACHE_LIFETIMES: tuple[CacheLifetime, ...] = ("5m", "1h")


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
    cache: CacheLifetime | None = None
    """How long the provider keeps the prompt cache after each request, at least, where that can be chosen."""

    def __post_init__(self) -> None:
        if self.cache not in (None, *CACHE_LIFETIMES):
            raise ValueError(f"cache is {self.cache!r}; it must be {' or '.join(CACHE_LIFETIMES)}")
        if self.effort not in (None, *EFFORTS):
            raise ValueError(f"effort is {self.effort!r}; it must be {', '.join(EFFORTS[:-1])} or {EFFORTS[-1]}")
        if self.temperature is not None and not (_is_number(self.temperature) and 0 <= self.temperature <= 2):
            raise ValueError(f"temperature is {self.temperature!r}; it must be a number from 0 to 2")
        if self.max_tokens is not None and not (_is_number(self.max_tokens) and self.max_tokens > 0):
            raise ValueError(f"max_tokens is {self.max_tokens!r}; it must be a number over 0")

    @property
    def after_first(self) -> ModelSettings:
        """The settings for the later requests of a run: a tool that must be called would be called without end."""
        return self if self.tool_choice is None else msgspec.structs.replace(self, tool_choice=None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON Schema of the arguments. Its root is an object."""
    is_answer: bool = False
    """Whether the call is the answer that the run is for, such as a report."""
    deferred: str = ""
    """The group in which the API searches for this tool, such as its server. Empty: the model sees it at once.

    Only for a provider that `searches_tools`.
    """


class Request(msgspec.Struct, frozen=True):
    """All that a model needs for one reply. Providers must not change it."""

    messages: Sequence[Message]
    """They satisfy the invariants of `history`."""
    store: AttachmentStore
    """Holds the bytes of attachments."""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    reminder: str = ""
    """Text for this request only. The model sees it after the last message, marked as not the user's."""
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    """The session's cache for adapters: rendered messages are kept here for the next request."""
    settings: ModelSettings = ModelSettings()
    """How the model is to answer."""
    idle_seconds: float = 600.0
    """Seconds without anything new, keep-alives aside, after which the stream counts as broken."""
    output_schema: Mapping[str, Any] | None = None
    """The JSON Schema that the text of the answer satisfies. Only for a `SchemaProvider` that enforces it."""
    server_tools: tuple[ServerTool, ...] = ()
    """Tools that the API runs itself."""
    situation: str = ""
    """What differs from session to session, such as the folder and the date. It begins the first message, marked as not
    the user's: whatever an API puts first, the prompt cache holds for the tools and the system prompt."""
    on_cancel: Callable[[Usage], None] | None = None
    """Called with what the API has counted so far, with its cost, if the stream is closed before its reply."""


class Reply(msgspec.Struct, frozen=True):
    """A model's complete reply."""

    message: Message
    stop_reason: StopReason = StopReason.END
    usage: Usage = Usage()
    stop_detail: str = ""
    """Why the reply ended, in the words of the API, such as the policy behind a refusal."""

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.message.text


@runtime_checkable
class Provider(Protocol):
    """A model that takes requests.

    `stream` yields any number of deltas and notices, and then exactly one `Reply` as its last item. It raises only
    `ProviderError`. A stream that ends without a reply is incomplete. It does not change the request, and it may be
    cancelled at any point. The text of deltas can be encoded as UTF-8. One provider may serve many sessions. It sends
    the request once: the session discards the deltas of a failed attempt and sends the request again if the error is
    `retryable`. A provider for tests may have `passes_assertions = True`: then an AssertionError ends the run and
    reaches its caller.
    """

    @property
    def name(self) -> str:
        """The model's name as the user writes it, for example "demo"."""

    def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Send one request."""


@runtime_checkable
class SchemaProvider(Provider, Protocol):
    """A model whose API can hold the text of an answer to a JSON Schema."""

    def enforces(self, schema: Mapping[str, Any], *, with_tools: bool) -> bool:
        """Return whether an answer satisfies this schema if a request has it as `output_schema`.

        `with_tools`: the requests have tools as well. Limits of values, such as `minLength`, may be left to the caller.
        """
