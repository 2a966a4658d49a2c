"""The searchable parts of a conversation: what was said, each call, and each result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from outrider.conversation.encodings import decoded
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.errors import OutriderError
from outrider.text import clean

Kind: TypeAlias = Literal["user", "assistant", "call", "result"]


class Passage(msgspec.Struct, frozen=True):
    """One part of a conversation, with the reference by which it can be read again."""

    reference: str
    """`#N` for the words of message N, counted from 1; the id of a call for the call and for its result."""
    message: int
    """The number of the message that it belongs to."""
    kind: Kind
    tool: str
    """The name of the tool, for a call and a result."""
    text: str
    whole: AttachmentBlock | None = None
    """The stored file with the whole text, if the text of a result is only a part of it."""


class Found(msgspec.Struct, frozen=True):
    """A passage of a session that a search has found."""

    session: str
    reference: str
    """`#N` for message N, or the id of a call. `Log.recall` reads it."""
    message: int
    kind: Kind
    tool: str
    """The tool, for a call and a result."""
    time: float
    snippet: str
    """The surroundings of the match in one line."""
    seq: int = 0
    """The entry of the log that has the passage."""


class PassageReader:
    """Makes passages of a conversation that is read in order: messages, or results one at a time as in a log.

    `count` messages came before, and `calls` are the ids and tools of those that had no result yet.
    """

    def __init__(self, count: int = 0, calls: Mapping[str, str] | None = None) -> None:
        self.count = count
        """The number of messages so far."""
        self.calls = dict(calls or {})
        """The tools of the calls that have no result yet, by call id."""

    def message(self, message: Message) -> Iterator[Passage]:
        """Add a message; yield its passages."""
        self.count += 1
        number, kind = self.count, message.role
        if (said := clean(_said(message.content))) or not _has_calls_or_results(message):
            yield Passage(f"#{number}", number, kind, "", said)
        for result in message.tool_results:
            yield _result(result, number, self.calls.get(result.tool_use_id, ""))
        self.calls = {call.id: call.name for call in message.tool_calls} if message.role == "assistant" else {}
        for call in message.tool_calls:
            yield Passage(clean(call.id), number, "call", clean(call.name), f"{clean(call.name)} {_arguments(call)}")

    def result(self, result: ToolResultBlock) -> Iterator[Passage]:
        """Add the result of a call; yield its passage. With the last one, the message with all results is complete."""
        if (tool := self.calls.pop(result.tool_use_id, None)) is not None:
            yield _result(result, self.count + 1, tool)
            self.count += not self.calls


def passages_of(messages: Iterable[Message]) -> Iterator[Passage]:
    """Yield the passages of a whole conversation."""
    reader = PassageReader()
    for message in messages:
        yield from reader.message(message)


def _result(result: ToolResultBlock, number: int, tool: str) -> Passage:
    return Passage(clean(result.tool_use_id), number, "result", clean(tool), clean(_said(result.content)), result.whole)


def _said(content: Iterable[Block]) -> str:
    """Return the words of blocks, and the names of their files. Reasoning is left out."""
    parts: list[str] = []
    for block in content:
        match block:
            case TextBlock(text=text) | ServerToolResultBlock(text=text):
                parts.append(text)
            case AttachmentBlock(description=description):
                parts.append(f"[{block.label}]{f' {description}' if description else ''}")
            case ServerToolUseBlock(name=name):
                parts.append(f"{name} {_arguments(block)}")
    return "\n".join(part for part in parts if part.strip())


def _arguments(call: ToolUseBlock | ServerToolUseBlock) -> str:
    if isinstance(call, ToolUseBlock) and call.invalid_input is not None:
        return clean(call.invalid_input)
    try:
        return msgspec.json.encode(call.input, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):  # lone surrogates, or keys of another type
        return clean(repr(call.input))


def _has_calls_or_results(message: Message) -> bool:
    return any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in message.content)


def only_call(messages: Iterable[Message], reference: str) -> list[Message]:
    """Return the calls with an id and their results, each as a message of its own, without what is beside them."""
    found: list[Message] = []
    for message in messages:
        for block in message.content:
            match block:
                case ToolUseBlock(id=name) | ToolResultBlock(tool_use_id=name) if clean(name) == reference:
                    found.append(Message(message.role, (block,)))
    return found


def whole_text(read: Callable[[AttachmentBlock], bytes], whole: AttachmentBlock | None) -> str:
    """Return the text of the file that holds a whole result; empty if there is none, or if it is not text."""
    if whole is None or not whole.mime_type.startswith(("text/", "application/json")):
        return ""
    try:
        return decoded(read(whole))
    except OutriderError:  # the file was removed, or the log cannot be read
        return ""
