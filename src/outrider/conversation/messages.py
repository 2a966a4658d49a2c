"""Messages and their blocks, as plain frozen data.

The JSON form of each type is its fields; the field `type` distinguishes the blocks:

    {"role": "assistant", "content": [{"type": "text", "text": "I'll look."},
                                      {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}}]}
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1",
                                  "content": [{"type": "text", "text": "…"}], "is_error": true}]}

Wherever content is read, a string means one text block. `is_error` is written only if true. There is no `tool` role and
no system message: results go into a user message, and the system prompt belongs to the agent.

Fields can also be read as items: `message["role"]`, `block["type"]`, `dict(message)`. Items are plain data, which
`json.dumps` takes, in the short form of messages: content with a single text is a string, and an assistant message has
`has_tool_calls` and, if there are calls, `tool_calls`, each with `id`, `name` and `arguments`. The short form is
accepted wherever messages are. A message with the role `tool` is accepted as a user message with a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, cast, final, get_args

import msgspec

from outrider.conversation.attachments import Attachment, not_a_part
from outrider.conversation.items import PlainStruct, plain
from outrider.errors import ConversationError


class ProviderState(PlainStruct, frozen=True, gc=False):
    """Opaque data that a provider wants back verbatim: a signature, an encrypted reasoning item."""

    provider: str
    model: str
    """The state is sent only to the provider, model and route that created it."""
    data: Any
    route: str = ""


class _Block(PlainStruct, frozen=True, gc=False):
    """A part of a message.

    Blocks have no subclasses: `type(block) is TextBlock` is several times faster than `isinstance`, which asks the
    metaclass of structs.
    """

    @property
    def type(self) -> str:
        """The type: one of `BLOCK_TYPES`."""
        return str(self.__struct_config__.tag)

    def keys(self) -> tuple[str, ...]:
        """Return the names in its JSON form: the type, and the fields that differ from their defaults."""
        fields, defaults = self.__struct_fields__, self.__struct_defaults__
        required = len(fields) - len(defaults)
        optional = zip(fields[required:], defaults, strict=True)
        return ("type", *fields[:required], *(name for name, default in optional if getattr(self, name) != default))


class Citation(PlainStruct, frozen=True, gc=False):
    """A source of a text, as the model's API names it."""

    url: str = ""
    """The address. Empty if the source is a file."""
    title: str = ""
    text: str = ""
    """The words of the source."""
    start: int | None = None
    """The first character that the source supports, counted in the text of the block; None for the whole block."""
    end: int | None = None
    """The character after the last one."""

    @property
    def label(self) -> str:
        """A name for people: the title, or the address."""
        return " ".join(self.title.split()) or self.url


@final
class TextBlock(_Block, frozen=True, gc=False, tag_field="type", tag="text"):
    """Text."""

    text: str
    state: ProviderState | None = None
    citations: tuple[Citation, ...] = ()
    """The sources of the text, if the API names any."""


@final
class ThinkingBlock(_Block, frozen=True, gc=False, tag_field="type", tag="thinking"):
    """The visible part of a model's reasoning."""

    thinking: str = ""
    state: ProviderState | None = None


@final
class ToolUseBlock(_Block, frozen=True, gc=False, tag_field="type", tag="tool_use"):
    """A tool call by the model."""

    id: str
    name: str
    input: dict[str, Any]
    invalid_input: str | None = None
    """The model's raw arguments, if they are not a JSON object; `input` is then empty."""
    state: ProviderState | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """An alias of `input`."""
        return self.input


@final
class AttachmentBlock(_Block, frozen=True, gc=False, tag_field="type", tag="attachment"):
    """A reference to a file, whose bytes are in an attachment store under their SHA-256."""

    sha256: str
    mime_type: str
    size: int
    name: str = ""
    description: str = ""
    state: ProviderState | None = None
    """The state of a picture that a model has made."""
    url: str = ""
    """Where the bytes were fetched from. An API that takes URLs gets it instead of the bytes."""

    @property
    def label(self) -> str:
        """A name for people and models."""
        return self.name or f"{self.mime_type} {self.sha256[:12]}"


Outcome: TypeAlias = Literal["done", "failed", "unknown"]


@final
class ToolResultBlock(_Block, frozen=True, gc=False, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: str
    content: tuple[TextBlock | AttachmentBlock, ...]
    is_error: bool = False
    whole: AttachmentBlock | None = None
    """The full text, stored as a file, if `content` has only its head and tail. Not sent to the model."""
    is_unknown: bool = False
    """Whether the call may have changed something although it failed: it was stopped while it ran."""

    @property
    def outcome(self) -> Outcome:
        """`done`, `failed`, or `unknown`: the call was stopped while it ran, and may have changed something."""
        return "unknown" if self.is_unknown else "failed" if self.is_error else "done"

    @property
    def text(self) -> str:
        """The text of the result, without its files."""
        return "".join([block.text for block in self.content if type(block) is TextBlock])

    @property
    def attachments(self) -> tuple[AttachmentBlock, ...]:
        """The files of the result."""
        return tuple([block for block in self.content if type(block) is AttachmentBlock])

    def __getitem__(self, name: str) -> Any:
        return _short(self.content) if name == "content" else super().__getitem__(name)


@final
class ServerToolUseBlock(_Block, frozen=True, gc=False, tag_field="type", tag="server_tool_use"):
    """A call of a tool that the model's API runs itself, such as a web search. Its result is in the same message."""

    id: str
    name: str
    input: dict[str, Any]
    state: ProviderState | None = None


@final
class ServerToolResultBlock(_Block, frozen=True, gc=False, tag_field="type", tag="server_tool_result"):
    """What a tool of the model's API found or printed. Pictures that it made follow as attachments."""

    tool_use_id: str
    text: str = ""
    is_error: bool = False
    state: ProviderState | None = None


@final
class RawBlock(_Block, frozen=True, gc=False, tag_field="type", tag="raw"):
    """A part of a reply that only its API understands, such as a compaction of its own. It goes back as it came."""

    kind: str
    """The type of the part in the API."""
    state: ProviderState


Block: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | AttachmentBlock
    | ServerToolUseBlock
    | ServerToolResultBlock
    | RawBlock
)
_BLOCKS = frozenset(get_args(Block))
Role: TypeAlias = Literal["user", "assistant"]
BLOCK_TYPES = tuple(str(each.__struct_config__.tag) for each in get_args(Block))


@final
class Message(PlainStruct, frozen=True, gc=False):
    """A role and a tuple of blocks.

    >>> Message.user("Hello").text
    'Hello'
    >>> dict(Message.assistant("Hi there!"))
    {'role': 'assistant', 'content': 'Hi there!', 'has_tool_calls': False}
    """

    role: Role
    content: tuple[Block, ...]
    """The constructor also accepts a string, which becomes one text block.

    A file is an `Attachment` until the message goes into a session, which stores it and puts a reference in its place.
    """

    def __post_init__(self) -> None:
        content: object = self.content
        if type(content) is not tuple and isinstance(content, str | list):  # a union is slow, and most are tuples
            parts = [content] if isinstance(content, str) else content
            msgspec.structs.force_setattr(self, "content", blocks_of(parts))

    @classmethod
    def user(cls, *parts: str | Attachment | Block) -> Message:
        """Create a user message of texts, files and blocks, for a prompt or tool results. Raises TypeError."""
        return cls("user", blocks_of(parts))

    @classmethod
    def assistant(cls, *parts: str | Attachment | Block) -> Message:
        """Create an assistant message. Raises TypeError."""
        return cls("assistant", blocks_of(parts))

    @property
    def text(self) -> str:
        """The text. Adjacent text blocks are joined; other blocks between them separate paragraphs."""
        paragraphs: list[str] = []
        previous: Block | None = None
        for block in self.content:
            if type(block) is TextBlock:
                if type(previous) is TextBlock:
                    paragraphs[-1] += block.text
                else:
                    paragraphs.append(block.text)
            previous = block
        return "\n\n".join(paragraphs)

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls, in order."""
        return tuple([block for block in self.content if type(block) is ToolUseBlock])

    @property
    def has_tool_calls(self) -> bool:
        """Whether the message has tool calls."""
        return ToolUseBlock in map(type, self.content)

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The tool results, in order."""
        return tuple([block for block in self.content if type(block) is ToolResultBlock])

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources of the text, each once, in order. Sources with the same address and title count as one."""
        found: dict[tuple[str, str], Citation] = {}
        for block in self.content:
            if isinstance(block, TextBlock):
                for each in block.citations:
                    found.setdefault((each.url, each.label), each)
        return tuple(found.values())

    def keys(self) -> tuple[str, ...]:
        """Return the names in its short form. Only assistant messages have those of calls."""
        if self.role != "assistant":
            return "role", "content"
        calls = ("tool_calls",) if self.has_tool_calls else ()
        return "role", "content", "has_tool_calls", *calls

    def _repr_html_(self) -> str:
        """Return the message as a notebook shows it."""
        from outrider.conversation.html import message_html  # only notebooks need it

        return message_html(self)

    def __getitem__(self, name: str) -> Any:
        if name == "tool_calls":
            return plain_calls(self.tool_calls)
        if name == "content" and (files := unstored_in(self)):
            raise ConversationError(
                f"{files[0].label} is not stored yet, so the message has no plain form; dumps() has it"
            )
        return _short(self.content) if name == "content" else super().__getitem__(name)


def files_in(message: Message) -> list[AttachmentBlock]:
    """Return the files of a message, including those of its results."""
    files: list[AttachmentBlock] = []
    for block in message.content:
        if type(block) is AttachmentBlock:
            files.append(block)
        elif type(block) is ToolResultBlock:
            files += block.attachments
    return files


def blocks_of(parts: Iterable[str | Attachment | Block]) -> tuple[Block, ...]:
    """Convert strings to text blocks and drop empty strings. A file stays as it is. Raises TypeError."""
    found: list[Block] = []
    for part in parts:
        if isinstance(part, str):
            if part:
                found.append(TextBlock(part))
        elif type(part) in _BLOCKS or isinstance(part, Attachment):
            found.append(cast(Block, part))
        else:
            raise not_a_part("a message is made of texts, Attachments and blocks", part)
    return tuple(found)


def unstored_in(message: Message) -> list[Attachment]:
    """Return the files of a message that are not stored yet."""
    content: Iterable[object] = message.content
    return [part for part in content if isinstance(part, Attachment)]


def with_stored(message: Message, stored: Iterable[AttachmentBlock]) -> Message:
    """Return the message with these references in place of its files that were not stored yet."""
    references = iter(stored)
    content: Iterable[Any] = message.content
    return Message(
        message.role, tuple([next(references) if isinstance(part, Attachment) else part for part in content])
    )


def plain_calls(calls: Iterable[ToolUseBlock]) -> list[dict[str, Any]]:
    """Return calls as dicts, whose `arguments` are the `input` of the block."""
    return [{**plain(call), "arguments": call.input} for call in calls]


def _short(content: Sequence[Block]) -> Any:
    """Return the short form of content: a string if nothing is lost, else the blocks as dicts."""
    match content:
        case []:
            return ""
        case [TextBlock(text=text, state=None, citations=())] if text:
            return text
    return plain(content)
