"""A conversation as plain data: dicts and JSON in, messages out, each mistake named with its place; and back."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeAlias, cast

import msgspec

from outrider.attachments import Attachment, sha256
from outrider.errors import AttachmentError, ConversationError
from outrider.messages import (
    BLOCK_TYPES,
    AttachmentBlock,
    Block,
    Message,
    Role,
    TextBlock,
    ToolResultBlock,
)
from outrider.store import AttachmentStore
from outrider.text import clean_value

MessageLike: TypeAlias = Message | Mapping[str, Any]


def to_json(conversation: Iterable[MessageLike], store: AttachmentStore | None = None) -> str:
    """The conversation as JSON: files by reference, or with their bytes when a store is given to read them from."""
    plain = [_plain(message, f"message {number}") for number, message in enumerate(read_conversation(conversation), 1)]
    if store is not None:
        for _, block in _attachments(plain):
            reference = msgspec.convert(block, AttachmentBlock)
            block["data"] = base64.b64encode(store.read(reference)).decode()
    return msgspec.json.encode(plain).decode()


def from_json(text: str | bytes, store: AttachmentStore) -> list[Message]:
    """The conversation that the JSON holds; bytes that it brings along go into the store, once all of it is sound."""
    if not isinstance(text, str | bytes | bytearray):
        raise TypeError(f"a conversation is read from JSON text, not from {type(text).__name__}")
    plain = parse_json(text)
    brought = [(place, block, block.pop("data")) for place, block in _attachments(plain) if "data" in block]
    conversation = read_conversation(plain)
    files = [_file(place, msgspec.convert(block, AttachmentBlock), data) for place, block, data in brought]
    for file in files:
        store.put(file, len(file.source) if isinstance(file.source, bytes) else 0)
    return conversation


def _plain(message: Message, place: str) -> Any:
    """A message as dicts and lists that JSON can hold."""
    try:
        return clean_value(msgspec.to_builtins(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConversationError(f"{place} holds what JSON cannot: {error}") from None


def _attachments(plain: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each attachment block of a conversation in plain form with its place, those of tool results included."""
    for number, message in _dicts(plain):
        for position, block in _dicts(message.get("content")):
            inside = [block]
            if block.get("type") == "tool_result":
                inside = [each for _, each in _dicts(block.get("content"))]
                inside += [each for _, each in _dicts([block.get("whole")])]
            place = f"message {number}, block {position}"
            yield from ((place, each) for each in inside if each.get("type") == "attachment")


def _dicts(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The dicts of a list with their numbers; none if it is no list."""
    items = value if isinstance(value, list | tuple) else ()
    return ((number, each) for number, each in enumerate(items, 1) if isinstance(each, dict))


def _file(place: str, reference: AttachmentBlock, data: Any) -> Attachment:
    """The file of a block that brings its bytes, if they are what the block says."""
    place = f"{place} ({reference.label})"
    try:
        content = base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise ConversationError(f"{place}: the data of the attachment is not base64") from None
    if (sha256(content), len(content)) != (reference.sha256, reference.size):
        raise ConversationError(f"{place}: the data of the attachment does not match its sha256 and size")
    file = Attachment(content, reference.mime_type, reference.name)
    try:
        file.type_of(content[:4096])
    except AttachmentError as error:
        raise ConversationError(f"{place}: {error}") from None
    return file


def read_conversation(value: Iterable[MessageLike]) -> list[Message]:
    """Messages, or dicts in the documented shape, as a list of messages of its own."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConversationError(
            f"a conversation is a list of messages, not {type(value).__name__}; "
            "put messages into […]; outrider.loads(…) reads them from JSON"
        )
    return [read_message(item, f"message {number}") for number, item in enumerate(value, 1)]


def read_message(value: MessageLike, place: str = "the message") -> Message:
    """A message, or a dict in the documented shape, as a message."""
    if isinstance(value, Message):
        _check_role(value.role, place)
        if all(isinstance(block, Block) for block in value.content):
            return value
        value = {"role": value.role, "content": value.content}
    if not isinstance(value, Mapping):
        raise ConversationError(f"{place} is {_kind(value)}; a message is a dict with role and content")
    role = _check_role(value.get("role"), place)
    unknown = sorted(set(value) - {"role", "content"}, key=str)
    if unknown:
        raise ConversationError(
            f"{place} has the unknown key {unknown[0]!r}; a message has role and content, "
            "and tool calls and results are blocks of the content"
        )
    return Message(role, tuple(block for _, block in _read_content(value.get("content"), place)))


def read_tool_result(value: ToolResultBlock | Mapping[str, Any], place: str = "the result") -> ToolResultBlock:
    """A result block, or a dict with tool_use_id, content and perhaps is_error, as a result block."""
    if isinstance(value, ToolResultBlock):
        return value
    if not isinstance(value, Mapping):
        raise ConversationError(f"{place} is {_kind(value)}; a tool result is a dict with tool_use_id and content")
    block = _read_block({**value, "type": value.get("type", "tool_result")}, place)
    if not isinstance(block, ToolResultBlock):
        raise ConversationError(f"{place} is a {value['type']} block; it must be a tool_result")
    return block


def read_tool_results(values: Iterable[ToolResultBlock | Mapping[str, Any]]) -> dict[str, ToolResultBlock]:
    """Results by the call that each answers."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"tool_results is a list of results, not {type(values).__name__}")
    results: dict[str, ToolResultBlock] = {}
    for number, value in enumerate(values, 1):
        result = read_tool_result(value, f"result {number}")
        if result.tool_use_id in results:
            raise ConversationError(f"two results answer the call {result.tool_use_id!r}; give one")
        results[result.tool_use_id] = result
    return results


def _read_content(content: Any, place: str) -> Iterator[tuple[str, Block]]:
    """The blocks of a content, each with its place as the writer counts; an empty string makes none."""
    if isinstance(content, str):
        content = [content]
    if not isinstance(content, list | tuple):
        raise ConversationError(f"the content of {place} is {_kind(content)}; it must be a string or a list of blocks")
    for number, item in enumerate(content, 1):
        if item != "":
            yield f"{place}, block {number}", _read_block(item, f"{place}, block {number}")


def _read_block(value: Any, place: str) -> Block:
    if isinstance(value, Block):
        return value
    if isinstance(value, str):
        return TextBlock(clean_value(value))
    if not isinstance(value, Mapping):
        raise ConversationError(f"{place} is {_kind(value)}; a block is a dict with a type")
    kind = value.get("type")
    if kind not in BLOCK_TYPES:
        raise ConversationError(f"{place} has the unknown type {kind!r}; known types: {', '.join(BLOCK_TYPES)}")
    try:
        fields = clean_value(dict(value))
        if kind == "tool_result":
            fields["content"] = _read_result_content(fields.get("content", ()), place)
        block: Block = msgspec.convert(fields, Block)
        return block
    except ConversationError:
        raise
    except (ValueError, RecursionError) as error:  # msgspec's own ValidationError is a ValueError too
        raise ConversationError(f"{place} ({kind}): {error}") from None


def _read_result_content(content: Any, place: str) -> list[TextBlock | AttachmentBlock]:
    blocks: list[TextBlock | AttachmentBlock] = []
    for inner, block in _read_content(content, place):
        if not isinstance(block, TextBlock | AttachmentBlock):
            kind = block.__struct_config__.tag
            raise ConversationError(f"{inner} is of type {kind}; a tool_result holds text and attachments")
        blocks.append(block)
    return blocks


def _check_role(role: Any, place: str) -> Role:
    if role in ("user", "assistant"):
        return cast(Role, role)
    advice = "a role is 'user' or 'assistant'"
    if role == "tool":
        advice = "put the result into a user message as a tool_result block"
    elif role in ("system", "developer"):
        advice = "the system prompt is not a message: give it to the agent as system="
    raise ConversationError(f"{place} has the role {role!r}; {advice}")


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"


def parse_json(text: str | bytes) -> Any:
    """Decoded JSON; what is broken is named with line and column, lone surrogates are let through."""
    text = text.removeprefix("\ufeff") if isinstance(text, str) else text
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        pass
    import json  # says where it broke, and reads lone surrogates

    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError:
        raise ConversationError("the conversation is nested too deeply to be one") from None
    except UnicodeError as error:
        raise ConversationError(f"the conversation is not UTF-8 text: {error}") from None
    except ValueError as error:
        raise ConversationError(f"the conversation is not valid JSON: {error}") from None


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number that JSON has")
