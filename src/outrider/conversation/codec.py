"""Convert conversations from and to dicts and JSON. Errors name the location of each mistake."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import msgspec

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.blocks import describe_type, is_sound, read_block, read_content
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    Role,
    ToolResultBlock,
    ToolUseBlock,
    unstored_in,
    with_stored,
)
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError, ConversationError
from outrider.struct_types import described
from outrider.text import clean_value

if TYPE_CHECKING:
    from pathlib import Path

MessageLike: TypeAlias = Message | Mapping[str, Any]

_KEYS = ("role", "content", "has_tool_calls", "tool_calls")
_TOOL_KEYS = (*_KEYS, "tool_use_id", "tool_call_id", "is_error")


def to_json(conversation: Iterable[MessageLike], store: AttachmentStore | None = None) -> str:
    """Encode a conversation as JSON. Its files are stored, and are references; with a store, bytes are included."""
    plain = [_plain(message, f"message {number}") for number, message in enumerate(read_conversation(conversation), 1)]
    if store is not None:
        for _, block in _attachments(plain):
            reference = msgspec.convert(block, described(AttachmentBlock))
            block["data"] = base64.b64encode(store.read(reference)).decode()
    return msgspec.json.encode(plain).decode()


def from_json(text: str | bytes, store: AttachmentStore) -> list[Message]:
    """Decode a conversation from JSON. Included bytes go into the store once the conversation is valid."""
    if not isinstance(text, str | bytes | bytearray):
        raise TypeError(f"a conversation is read from JSON text, not from {type(text).__name__}")
    plain = parse_json(text)
    included = [(place, block, block.pop("data")) for place, block in _attachments(plain) if "data" in block]
    conversation = read_conversation(plain)
    files = [_file(place, msgspec.convert(block, described(AttachmentBlock)), data) for place, block, data in included]
    for file in files:
        store.put(file, len(file.source) if isinstance(file.source, bytes) else 0)
    return conversation


def stored_messages(messages: Sequence[Message], store: AttachmentStore, folder: Path | None = None) -> list[Message]:
    """Return messages whose files are all stored. Relative paths are in the folder. Raises AttachmentError."""

    def put(file: Attachment) -> AttachmentBlock:
        if file.is_remote:
            raise AttachmentError(f"{file.url} is not fetched yet; pass the message in a prompt, which fetches it")
        return store.put(file.within(folder) if folder else file)

    return [with_stored(each, map(put, unstored_in(each))) if unstored_in(each) else each for each in messages]


def _plain(message: Message, place: str) -> Any:
    """Convert a message to dicts and lists for JSON."""
    try:
        return clean_value(msgspec.to_builtins(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConversationError(f"{place} has a value that JSON cannot hold: {error}") from None


def _attachments(plain: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each attachment block of a plain conversation with its location, including those of tool results."""
    for number, message in _dicts(plain):
        for position, block in _dicts(message.get("content")):
            inside = [block]
            if block.get("type") == "tool_result":
                inside = [each for _, each in _dicts(block.get("content"))]
                inside += [each for _, each in _dicts([block.get("whole")])]
            place = f"message {number}, block {position}"
            yield from ((place, each) for each in inside if each.get("type") == "attachment")


def _dicts(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the dicts of a list with their numbers; nothing if the value is not a list."""
    items = value if isinstance(value, list | tuple) else ()
    return ((number, each) for number, each in enumerate(items, 1) if isinstance(each, dict))


def _file(place: str, reference: AttachmentBlock, data: Any) -> Attachment:
    """Return the file of a block with included bytes, after checking them against the block."""
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
    """Convert messages, or dicts in the documented shape, to a new list of messages."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConversationError(
            f"a conversation is a list of messages, not {type(value).__name__}; "
            "put messages into […]; outrider.loads(…) reads them from JSON"
        )
    messages: list[Message] = []
    in_results = False
    for number, item in enumerate(value, 1):
        message = read_message(item, f"message {number}")
        is_result = message is not item and item["role"] == "tool"
        if is_result and in_results:  # all results of a turn go into one message
            message = Message("user", messages.pop().content + message.content)
        messages.append(message)
        in_results = is_result
    return messages


def refuse_stray_results(messages: Iterable[Message]) -> None:
    """Raise ConversationError for a result whose call is in no message before it: no model would see it."""
    known: set[str] = set()
    for number, message in enumerate(messages, 1):
        for result in message.tool_results:
            if result.tool_use_id not in known:
                raise ConversationError(
                    f"message {number} has a result for the call {result.tool_use_id!r}, which no message before it "
                    "makes; begin with the message that has the call, or leave out the result"
                )
        known.update(call.id for call in message.tool_calls)


def read_message(value: MessageLike, place: str = "the message") -> Message:
    """Convert a dict in the documented shape to a message. The role `tool` becomes `user`."""
    if isinstance(value, Message):
        _check_role(value.role, place)
        if all(isinstance(block, Block) and is_sound(block) for block in value.content):
            return value
        value = {"role": value.role, "content": value.content}
    if not isinstance(value, Mapping):
        raise ConversationError(f"{place} is {describe_type(value)}; a message is a dict with role and content")
    is_tool = value.get("role") == "tool"
    role = "user" if is_tool else _check_role(value.get("role"), place)
    _check_keys(value, _TOOL_KEYS if is_tool else _KEYS, place)
    calls = _read_calls(value.get("tool_calls"), role, place)
    if is_tool:
        blocks = _read_tool_message(value, place)
    elif calls and value.get("content") is None:
        blocks = []
    else:
        blocks = [block for _, block in read_content(value.get("content"), place)]
    message = Message(role, _with_calls(blocks, calls, place))
    _check_has_calls(value.get("has_tool_calls"), message, place)
    return message


def _check_keys(value: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    unknown = {name for name, item in value.items() if item is not None or name not in _TOOL_KEYS}.difference(known)
    if unknown:
        raise ConversationError(
            f"{place} has the unknown key {min(unknown, key=str)!r}; a message has role and content, "
            "an assistant's also tool_calls, and one of a tool tool_use_id"
        )


def _check_has_calls(has_calls: Any, message: Message, place: str) -> None:
    """Check that `has_tool_calls`, if given, matches the message."""
    if has_calls is None or has_calls is message.has_tool_calls:
        return
    if not isinstance(has_calls, bool):
        raise ConversationError(f"has_tool_calls of {place} is {describe_type(has_calls)}; it must be true or false")
    actual = "it has calls" if message.has_tool_calls else "it has no calls"
    raise ConversationError(f"has_tool_calls of {place} is {str(has_calls).lower()}, but {actual}; leave it out")


def _read_calls(value: Any, role: Role, place: str) -> list[ToolUseBlock] | None:
    """Read the calls in a message's `tool_calls`; None if the field is missing."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise ConversationError(f"tool_calls of {place} is {describe_type(value)}; it must be a list of calls")
    if value and role != "assistant":
        raise ConversationError(f"{place} has tool_calls; only a message with the role 'assistant' can have them")
    return [_read_call(call, f"{place}, call {number}") for number, call in enumerate(value, 1)]


def _read_call(value: Any, place: str) -> ToolUseBlock:
    if isinstance(value, ToolUseBlock):
        return value
    advice = "a call is a dict with id, name and arguments"
    if not isinstance(value, Mapping):
        raise ConversationError(f"{place} is {describe_type(value)}; {advice}")
    kind = value.get("type") or "tool_use"
    if kind != "tool_use":
        raise ConversationError(f"{place} has the type {kind!r}; {advice}, and no type or 'tool_use'")
    return cast(ToolUseBlock, read_block({**value, "type": kind}, place))


def _with_calls(blocks: list[Block], calls: list[ToolUseBlock] | None, place: str) -> tuple[Block, ...]:
    """Append the calls to the blocks, unless the blocks already contain them."""
    inside = [block for block in blocks if isinstance(block, ToolUseBlock)]
    if calls is None:
        return tuple(blocks)
    if not inside:
        return (*blocks, *calls)
    try:
        if len(calls) == len(inside) and all(map(_matches, calls, inside)):
            return tuple(blocks)
    except RecursionError:
        raise ConversationError(f"the tool_calls of {place} are nested too deeply") from None
    raise ConversationError(
        f"the tool_calls of {place} differ from the tool_use blocks of its content; leave out one of them"
    )


def _matches(call: ToolUseBlock, block: ToolUseBlock) -> bool:
    """Return whether a call, possibly without its optional fields, equals the block."""
    return (call.id, call.name, call.input) == (block.id, block.name, block.input) and all(
        a in (None, b) for a, b in ((call.invalid_input, block.invalid_input), (call.state, block.state))
    )


def _read_tool_message(value: Mapping[str, Any], place: str) -> list[Block]:
    """Read the results of a message with the role `tool`: one, given the id of its call, or those in its content."""
    ids = [value[name] for name in ("tool_use_id", "tool_call_id") if value.get(name) not in (None, "")]
    if len(ids) == 2 and ids[0] != ids[1]:
        raise ConversationError(f"{place} answers two calls, {ids[0]!r} and {ids[1]!r}; give one id")
    content, is_error = value.get("content"), value.get("is_error")
    if ids:
        return [read_tool_result({"tool_use_id": ids[0], "content": content, "is_error": is_error}, place)]
    if isinstance(content, list | tuple) and is_error is None:
        blocks = [block for _, block in read_content(content, place)]
        if blocks and all(isinstance(block, ToolResultBlock) for block in blocks):
            return blocks
    raise ConversationError(
        f"{place} has the role 'tool' and no tool_use_id; give the id of its call, "
        "or put the result into a user message as a tool_result block"
    )


def read_tool_result(value: ToolResultBlock | Mapping[str, Any], place: str = "the result") -> ToolResultBlock:
    """Convert a dict with tool_use_id, content and optionally is_error to a result block."""
    if not isinstance(value, Mapping | ToolResultBlock):
        raise ConversationError(
            f"{place} is {describe_type(value)}; a tool result is a dict with tool_use_id and content"
        )
    fields = {**value, "type": value.get("type") or "tool_result"} if isinstance(value, Mapping) else value
    block = read_block(fields, place)
    if not isinstance(block, ToolResultBlock):
        raise ConversationError(f"{place} is a {value['type']} block; it must be a tool_result")
    return block


def read_tool_results(values: Iterable[ToolResultBlock | Mapping[str, Any]]) -> dict[str, ToolResultBlock]:
    """Read results and index them by call id."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"tool_results is a list of results, not {type(values).__name__}")
    results: dict[str, ToolResultBlock] = {}
    for number, value in enumerate(values, 1):
        result = read_tool_result(value, f"result {number}")
        if result.tool_use_id in results:
            raise ConversationError(f"two results answer the call {result.tool_use_id!r}; give one")
        results[result.tool_use_id] = result
    return results


def _check_role(role: Any, place: str) -> Role:
    if role in ("user", "assistant"):
        return cast(Role, role)
    advice = "a role is 'user' or 'assistant'"
    if role == "tool":
        advice = "put the result into a user message as a tool_result block"
    elif role in ("system", "developer"):
        advice = "the system prompt is not a message: give it to the agent as system="
    raise ConversationError(f"{place} has the role {role!r}; {advice}")


def parse_json(text: str | bytes) -> Any:
    """Decode JSON. Errors give line and column; lone surrogates are accepted."""
    text = text.removeprefix("\ufeff") if isinstance(text, str) else text
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        pass
    import json  # reports positions, and accepts lone surrogates

    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError:
        raise ConversationError("the conversation is nested too deeply") from None
    except UnicodeError as error:
        raise ConversationError(f"the conversation is not UTF-8 text: {error}") from None
    except ValueError as error:
        raise ConversationError(f"the conversation is not valid JSON: {error}") from None


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")
