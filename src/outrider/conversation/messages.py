"""What a conversation is made of: messages of blocks, as plain frozen data.

The JSON form of each type is its fields, with `type` telling the blocks apart:

    {"role": "assistant", "content": [{"type": "text", "text": "I'll look."},
                                      {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}}]}
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1",
                                  "content": [{"type": "text", "text": "…"}], "is_error": true}]}

A string stands for one text block wherever content is read. `is_error` stands only when it is true. There is no
`tool` role and no system message: results go into a user message, the system prompt belongs to the agent.

All of it can be read by item as well: `message["role"]`, `block["type"]`, `dict(message)`. Items have the short form in
which people write messages: a content of one text is a string, and an assistant message has `has_tool_calls` and, where
there are any, `tool_calls`. What is read so is accepted wherever messages are, and a message with the role `tool`
as a user message with a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.conversation.items import ByItem


class _Plain(ByItem, msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Frozen, short in JSON, and loud about a field that it does not know: what is read is never half lost.

    Plain data has no cycles, so the garbage collector need not look at it: long conversations cost it nothing.
    """


class ProviderState(_Plain, frozen=True, gc=False):
    """What a provider wants back verbatim: a signature, an encrypted reasoning item. Opaque to everyone else."""

    provider: str
    model: str
    """Replayed only to the provider, model and route that made it."""
    data: Any
    route: str = ""


class _Block(_Plain, frozen=True, gc=False):
    """A part of a message, told from the others by its type."""

    @property
    def type(self) -> str:
        """Which block it is: `text`, `thinking`, `tool_use`, `tool_result` or `attachment`."""
        return str(self.__struct_config__.tag)

    def keys(self) -> tuple[str, ...]:
        """The names that its JSON form has: the type, and the fields except for those that say nothing."""
        fields, defaults = self.__struct_fields__, self.__struct_defaults__
        required = len(fields) - len(defaults)
        optional = zip(fields[required:], defaults, strict=True)
        return ("type", *fields[:required], *(name for name, default in optional if getattr(self, name) != default))


class TextBlock(_Block, frozen=True, gc=False, tag_field="type", tag="text"):
    """Words."""

    text: str
    state: ProviderState | None = None


class ThinkingBlock(_Block, frozen=True, gc=False, tag_field="type", tag="thinking"):
    """A model's reasoning, as far as it shows it."""

    thinking: str = ""
    state: ProviderState | None = None


class ToolUseBlock(_Block, frozen=True, gc=False, tag_field="type", tag="tool_use"):
    """A call that the model asks for."""

    id: str
    name: str
    input: dict[str, Any]
    invalid_input: str | None = None
    """The arguments as the model wrote them, when they are not a JSON object; `input` is then empty."""
    state: ProviderState | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Another name of `input`."""
        return self.input


class AttachmentBlock(_Block, frozen=True, gc=False, tag_field="type", tag="attachment"):
    """A file by reference: its bytes live in an attachment store under their SHA-256."""

    sha256: str
    mime_type: str
    size: int
    name: str = ""
    description: str = ""

    @property
    def label(self) -> str:
        """What to call it when speaking to a person or a model."""
        return self.name or f"{self.mime_type} {self.sha256[:12]}"


class ToolResultBlock(_Block, frozen=True, gc=False, tag_field="type", tag="tool_result"):
    """The one answer to a call."""

    tool_use_id: str
    content: tuple[TextBlock | AttachmentBlock, ...]
    is_error: bool = False
    whole: AttachmentBlock | None = None
    """Where the whole text is stored, when `content` has only its head and tail. Not sent to the model."""

    @property
    def text(self) -> str:
        """The words of the result, without its files."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def attachments(self) -> tuple[AttachmentBlock, ...]:
        """The files of the result."""
        return tuple(block for block in self.content if isinstance(block, AttachmentBlock))

    def __getitem__(self, name: str) -> Any:
        item = super().__getitem__(name)
        return _short(item) if name == "content" else item


Block: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | AttachmentBlock
Role: TypeAlias = Literal["user", "assistant"]
BLOCK_TYPES = ("text", "thinking", "tool_use", "tool_result", "attachment")


class Message(_Plain, frozen=True, gc=False):
    """One side's contribution: a role and a tuple of blocks.

    >>> Message.user("Hello").text
    'Hello'
    >>> dict(Message.assistant("Hi there!"))
    {'role': 'assistant', 'content': 'Hi there!', 'has_tool_calls': False}
    """

    role: Role
    content: tuple[Block, ...]
    """A string is taken too, and kept as one text block."""

    def __post_init__(self) -> None:
        content: object = self.content
        if isinstance(content, str | list):
            parts = [content] if isinstance(content, str) else content
            msgspec.structs.force_setattr(self, "content", blocks_of(parts))

    @classmethod
    def user(cls, *parts: str | Block) -> Message:
        """What the person, or a tool, says."""
        return cls("user", blocks_of(parts))

    @classmethod
    def assistant(cls, *parts: str | Block) -> Message:
        """What the model says."""
        return cls("assistant", blocks_of(parts))

    @property
    def text(self) -> str:
        """The words. Blocks side by side are one text; what stands between them makes a paragraph."""
        paragraphs: list[str] = []
        previous: Block | None = None
        for block in self.content:
            if isinstance(block, TextBlock):
                if isinstance(previous, TextBlock):
                    paragraphs[-1] += block.text
                else:
                    paragraphs.append(block.text)
            previous = block
        return "\n\n".join(paragraphs)

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls that the message asks for, in order."""
        return tuple([block for block in self.content if isinstance(block, ToolUseBlock)])

    @property
    def has_tool_calls(self) -> bool:
        """Whether the message asks for calls."""
        return any(isinstance(block, ToolUseBlock) for block in self.content)

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results that the message brings, in order."""
        return tuple([block for block in self.content if isinstance(block, ToolResultBlock)])

    def keys(self) -> tuple[str, ...]:
        """The names that its short form has: those of calls are the assistant's."""
        if self.role != "assistant":
            return "role", "content"
        calls = ("tool_calls",) if self.has_tool_calls else ()
        return "role", "content", "has_tool_calls", *calls

    def __getitem__(self, name: str) -> Any:
        item = super().__getitem__(name)
        return _short(item) if name == "content" else item


class Usage(_Plain, frozen=True, gc=False):
    """What a reply, a turn or a run has used."""

    input_tokens: int = 0
    """All that was read, the cached part included."""
    output_tokens: int = 0
    """All that was written, the reasoning included."""
    cached_tokens: int = 0
    """The part of the input that came from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that was reasoning."""
    cost: float | None = None
    """US dollars; None where the price is not known."""

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            sum(known) if known else None,
        )


def files_in(message: Message) -> list[AttachmentBlock]:
    """The files of a message, those of its results included."""
    files: list[AttachmentBlock] = []
    for block in message.content:
        if isinstance(block, AttachmentBlock):
            files.append(block)
        elif isinstance(block, ToolResultBlock):
            files += block.attachments
    return files


def blocks_of(parts: Iterable[str | Block]) -> tuple[Block, ...]:
    """Strings as text blocks; an empty string makes no block."""
    return tuple(TextBlock(part) if isinstance(part, str) else part for part in parts if part != "")


def _short(content: list[Block]) -> str | list[Block]:
    """The content as people write it: a string where that says the same, or the blocks."""
    match content:
        case []:
            return ""
        case [TextBlock(text=text, state=None)] if text:
            return text
    return content
