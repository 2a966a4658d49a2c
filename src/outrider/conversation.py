"""A conversation as plain data: dicts and JSON in, messages out, each mistake named with its place; and back."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from outrider.attachments import Attachment, sha256
from outrider.errors import ConversationError
from outrider.messages import (
    BLOCK_TYPES,
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ToolResultBlock,
    blocks_of,
)
from outrider.store import AttachmentStore
from outrider.text import clean_value

MessageLike: TypeAlias = Message | Mapping[str, Any]


def to_json(conversation: Iterable[MessageLike], store: AttachmentStore | None = None) -> str:
    """The conversation as JSON: files by reference, or with their bytes when a store is given to read them from."""
    plain = msgspec.to_builtins(read_conversation(conversation))
    if store is not None:
        for block in _attachments(plain):
            reference = msgspec.convert(block, AttachmentBlock)
            block["data"] = base64.b64encode(store.read(reference)).decode()
    return msgspec.json.encode(clean_value(plain)).decode()


def from_json(text: str | bytes, store: AttachmentStore) -> list[Message]:
    """The conversation that the JSON holds; bytes that it brings along go into the store."""
    plain = parse_json(text)
    for block in _attachments(plain):
        if "data" in block:
            _unpack(block, store)
    return read_conversation(plain)


def _attachments(plain: Any) -> Iterator[dict[str, Any]]:
    """Each attachment block of a conversation in plain form, those inside tool results included."""
    for owner in plain if isinstance(plain, list | tuple) else ():
        content = owner.get("content") if isinstance(owner, dict) else None
        for block in content if isinstance(content, list | tuple) else ():
            if not isinstance(block, dict):
                continue
            if block.get("type") == "attachment":
                yield block
            elif block.get("type") == "tool_result":
                whole = block.get("whole")
                yield from _attachments([block, {"content": [whole] if whole else []}])


def _unpack(block: dict[str, Any], store: AttachmentStore) -> None:
    """Move the bytes of a block into the store, so that the block is a mere reference again."""
    try:
        data = base64.b64decode(block.pop("data"), validate=True)
    except (TypeError, binascii.Error):
        raise ConversationError(f"the data of attachment {block.get('name', '')!r} is not base64") from None
    if sha256(data) != block.get("sha256"):
        raise ConversationError(f"the data of attachment {block.get('name', '')!r} does not match its sha256")
    kind, name = block.get("mime_type"), block.get("name")
    store.put(Attachment(data, kind if isinstance(kind, str) else "", name if isinstance(name, str) else ""), len(data))


def read_conversation(value: Iterable[MessageLike]) -> list[Message]:
    """Messages, or dicts in the documented shape, as a list of messages of its own."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConversationError(
            f"a conversation is a list of messages, not {type(value).__name__}; "
            "use outrider.loads(…) to read one from JSON"
        )
    return [read_message(item, f"message {number}") for number, item in enumerate(value, 1)]


def read_message(value: MessageLike, place: str = "the message") -> Message:
    """A message, or a dict in the documented shape, as a message."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise ConversationError(f"{place} is {_kind(value)}; a message is a dict with role and content")
    role = value.get("role")
    if role not in ("user", "assistant"):
        raise ConversationError(f"{place} {_role_advice(role)}")
    unknown = sorted(set(value) - {"role", "content"})
    if unknown:
        raise ConversationError(
            f"{place} has the unknown key {unknown[0]!r}; a message has role and content, "
            "and tool calls and results are blocks of the content"
        )
    return Message(role, tuple(_read_content(value.get("content"), place)))


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


def _read_content(content: Any, place: str) -> Iterable[Block]:
    if isinstance(content, str):
        return blocks_of([clean_value(content)])
    if not isinstance(content, list | tuple):
        raise ConversationError(f"the content of {place} is {_kind(content)}; it must be a string or a list of blocks")
    return [_read_block(item, f"{place}, block {number}") for number, item in enumerate(content, 1)]


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
    fields = clean_value(dict(value))
    if kind == "tool_result":
        fields["content"] = _read_content(fields.get("content", ()), place)
    try:
        block: Block = msgspec.convert(fields, Block)
        return block
    except msgspec.ValidationError as error:
        raise ConversationError(f"{place} ({kind}): {error}") from None


def _role_advice(role: Any) -> str:
    if role == "tool":
        return "has the role 'tool'; put the result into a user message as a tool_result block"
    if role in ("system", "developer"):
        return f"has the role {role!r}; the system prompt is not a message: give it to the agent as system="
    return f"has the role {role!r}; a role is 'user' or 'assistant'"


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"


def parse_json(text: str | bytes) -> Any:
    """Decoded JSON; what is broken is named with line and column, lone surrogates are let through."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        pass  # the standard library says where it broke, and reads lone surrogates
    except RecursionError:
        raise ConversationError("the conversation is nested too deeply to be one") from None
    try:
        return json.loads(text)
    except UnicodeError as error:
        raise ConversationError(f"the conversation is not UTF-8 text: {error}") from None
    except ValueError as error:
        raise ConversationError(f"the conversation is not valid JSON: {error}") from None
