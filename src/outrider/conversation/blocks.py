"""Parse blocks from dicts and strings. Errors name the location of each mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import BLOCK_TYPES, AttachmentBlock, Block, TextBlock, ToolResultBlock
from outrider.errors import ConversationError
from outrider.struct_types import described
from outrider.text import clean_value

_OPTIONAL = {
    "text": ("state", "citations"),
    "thinking": ("thinking", "state"),
    "tool_use": ("input", "arguments", "invalid_input", "state"),  # one of the first two is required
    "tool_result": ("content", "is_error", "whole", "is_unknown"),
    "attachment": ("name", "description", "state", "url"),
    "server_tool_use": ("state",),
    "server_tool_result": ("text", "is_error", "state"),
    "raw": (),
}
"""The optional fields of each block, which may also be null."""


def read_content(content: Any, place: str) -> Iterator[tuple[str, Block]]:
    """Yield the blocks of content, each with its location counted from one. Skip empty strings."""
    if isinstance(content, str):
        content = [content]
    if not isinstance(content, list | tuple):
        raise ConversationError(
            f"the content of {place} is {describe_type(content)}; it must be a string or a list of blocks"
        )
    for number, item in enumerate(content, 1):
        if item != "":
            yield f"{place}, block {number}", read_block(item, f"{place}, block {number}")


def read_block(value: Any, place: str) -> Block:
    """Convert a string, or a dict in the documented shape, to a block."""
    if isinstance(value, Block):
        return value if is_sound(value) else _with_read_content(value, place)
    if isinstance(value, str):
        return TextBlock(clean_value(value))
    if isinstance(value, Attachment):
        return cast(Block, value)  # a session stores it
    if not isinstance(value, Mapping):
        raise ConversationError(f"{place} is {describe_type(value)}; a block is a dict with a type")
    kind = value.get("type")
    if kind not in BLOCK_TYPES:
        raise ConversationError(f"{place} has the unknown type {kind!r}; known types: {', '.join(BLOCK_TYPES)}")
    try:
        fields = clean_value(_without_nulls(value, kind))
        if kind == "tool_result":
            fields["content"] = _read_result_content(fields.get("content", ()), place)
        elif "arguments" in fields and kind == "tool_use":
            fields = _with_input(fields, place)
        block: Block = msgspec.convert(fields, described(Block))
        return block
    except ConversationError:
        raise
    except (ValueError, RecursionError) as error:  # msgspec's own ValidationError is a ValueError too
        raise ConversationError(f"{place} ({kind}): {error}") from None


def is_sound(block: Block) -> bool:
    """Return whether a block that the caller made holds what JSON can hold: a result has text and stored files only."""
    if type(block) is not ToolResultBlock:
        return True
    content: object = block.content
    return type(content) is tuple and all(type(item) in (TextBlock, AttachmentBlock) for item in content)


def _with_read_content(block: Block, place: str) -> Block:
    assert type(block) is ToolResultBlock  # only these can be unsound
    return msgspec.structs.replace(block, content=tuple(_read_result_content(block.content, place)))


def _without_nulls(value: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Drop optional fields that are null."""
    return {name: item for name, item in value.items() if item is not None or name not in _OPTIONAL[kind]}


def _with_input(fields: dict[str, Any], place: str) -> dict[str, Any]:
    """Rename the field `arguments` of a call to `input`."""
    arguments = fields["arguments"]
    if not isinstance(arguments, dict):
        raise ConversationError(f"the arguments of {place} are {describe_type(arguments)}; give them as a dict")
    if fields.get("input", arguments) != arguments:
        raise ConversationError(f"the arguments of {place} differ from its input; leave out one of them")
    return {**{name: item for name, item in fields.items() if name != "arguments"}, "input": arguments}


def _read_result_content(content: Any, place: str) -> list[TextBlock | AttachmentBlock]:
    blocks: list[TextBlock | AttachmentBlock] = []
    for inner, block in read_content(content, place):
        if not isinstance(block, TextBlock | AttachmentBlock):
            kind = block.__struct_config__.tag
            if kind is None:
                raise ConversationError(f"{inner} is an Attachment, which is not stored yet; pass it in tool_results")
            raise ConversationError(f"{inner} is of type {kind}; a tool_result holds text and attachments")
        blocks.append(block)
    return blocks


def describe_type(value: Any) -> str:
    """Describe the type of a value for an error message."""
    return "missing" if value is None else f"of type {type(value).__name__}"
