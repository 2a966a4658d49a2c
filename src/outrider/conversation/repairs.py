"""Repairs that make any messages acceptable to every provider: clean blocks, unique call ids, one result for each call.

`violations` lists what is still wrong with messages that are to be sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import TypeVar

import msgspec

from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.text import clean, clean_value

T = TypeVar("T", bound=msgspec.Struct)
UNANSWERED = "No result: this call was not carried out to its end, so its outcome is unknown."


class Ids:
    """The call ids in use, and the next suffix for each id that occurred more than once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._next: dict[str, int] = {}

    def free(self, call_id: str, siblings: Set[str]) -> str:
        """Return the id if it is free, else the id with the first free suffix."""
        candidate = call_id
        number = self._next.get(call_id, 2)
        while not candidate or candidate in self.taken or candidate in siblings:
            candidate = f"{call_id or 'call'}-{number}"
            number += 1
        if candidate != call_id:
            self._next[call_id] = number - 1  # the id stays free until the message is added
        return candidate


class CallId(msgspec.Struct, frozen=True):
    """The id that the model gave a call, and the id that is sent."""

    original: str
    id: str


def clean_message(message: Message) -> Message:
    """Remove blank text and misplaced blocks, and clean all text. Return the same object if nothing changes."""
    blocks: list[Block] = []
    changed = False
    for block in message.content:
        cleaned = _clean_block(block, message.role)
        changed = changed or cleaned is not block
        if cleaned is not None:
            blocks.append(cleaned)
    return Message(message.role, tuple(blocks)) if changed else message


def _clean_block(block: Block, role: str) -> Block | None:
    if type(block) is TextBlock:
        return _clean_text(block)
    if type(block) is AttachmentBlock:
        return _clean_fields(block)
    if type(block) is ToolResultBlock:
        return _clean_result(block) if role == "user" else None
    if role != "assistant":
        return None
    if type(block) is ToolUseBlock:
        return _clean_call(block)
    if type(block) is ThinkingBlock:
        return _clean_thinking(block)
    return block if type(block) is RawBlock else _clean_fields(block)


def _clean_text(block: TextBlock) -> TextBlock | None:
    text = clean(block.text)
    if not text.strip():
        return None
    cleaned = block if text is block.text else msgspec.structs.replace(block, text=text)
    return _clean_citations(cleaned) if block.citations else cleaned


def _clean_thinking(block: ThinkingBlock) -> ThinkingBlock | None:
    thinking = clean(block.thinking)
    if not thinking.strip() and block.state is None:
        return None
    return block if thinking is block.thinking else ThinkingBlock(thinking, block.state)


def _clean_citations(block: TextBlock) -> TextBlock:
    kept = tuple(map(_clean_fields, block.citations))
    is_clean = all(new is old for new, old in zip(kept, block.citations, strict=True))
    return block if is_clean else msgspec.structs.replace(block, citations=kept)


def _clean_fields(block: T) -> T:
    fields = {name: getattr(block, name) for name in block.__struct_fields__ if name != "state"}
    cleaned = {name: clean_value(value) for name, value in fields.items()}
    if all(cleaned[name] is value for name, value in fields.items()):
        return block
    return msgspec.structs.replace(block, **cleaned)


def _clean_call(block: ToolUseBlock) -> ToolUseBlock:
    call_id, name, arguments = clean(block.id), clean(block.name), clean_value(block.input)
    raw = None if block.invalid_input is None else clean(block.invalid_input)
    is_clean = call_id is block.id and name is block.name and arguments is block.input and raw is block.invalid_input
    return block if is_clean else ToolUseBlock(call_id, name, arguments, raw, block.state)


def _clean_result(block: ToolResultBlock) -> ToolResultBlock:
    cleaned = [_clean_block(item, "user") for item in block.content]
    call_id = clean(block.tool_use_id)
    if call_id is block.tool_use_id and cleaned == list(block.content):  # the same objects are not compared
        return block
    content = tuple(item for item in cleaned if isinstance(item, TextBlock | AttachmentBlock))
    return ToolResultBlock(call_id, content, block.is_error, block.whole)


def with_unique_ids(message: Message, ids: Ids) -> tuple[Message, tuple[CallId, ...]]:
    """Give a new id to each call whose id is empty or in use. Return the message and its calls."""
    if not message.has_tool_calls:
        return message, ()
    calls: dict[str, CallId] = {}
    blocks: list[Block] = []
    renamed = False
    for block in message.content:
        if type(block) is ToolUseBlock:
            unique = ids.free(block.id, calls.keys())
            calls[unique] = CallId(block.id, unique)
            if unique != block.id:
                block = msgspec.structs.replace(block, id=unique)
                renamed = True
        blocks.append(block)
    return Message(message.role, tuple(blocks)) if renamed else message, tuple(calls.values())


def answered(calls: Sequence[CallId], messages: Sequence[Message]) -> Message:
    """Merge messages into one: the result of each call in call order, then all other blocks."""
    if len(messages) == 1 and _is_answer(calls, messages[0]):
        return messages[0]
    results: dict[str, list[ToolResultBlock]] = {}
    rest: list[Block] = []
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                results.setdefault(block.tool_use_id, []).append(block)
            else:
                rest.append(block)
    return Message("user", (*(_result_of(call, results) for call in calls), *rest))


def _is_answer(calls: Sequence[CallId], message: Message) -> bool:
    """Return whether the message begins with exactly one result for each call, in order."""
    results = message.tool_results
    if len(results) != len(calls):
        return False
    for call, result, block in zip(calls, results, message.content, strict=False):
        if block is not result or not result.tool_use_id == call.id == call.original:
            return False
    return True


def _result_of(call: CallId, results: dict[str, list[ToolResultBlock]]) -> ToolResultBlock:
    """Return the first unused result for the call, with the id that is sent."""
    waiting = results.get(call.original) or (results.get(call.id) if call.id != call.original else None)
    if not waiting:
        return unanswered(call.id)
    found = waiting.pop(0)
    if found.tool_use_id == call.id:
        return found
    return ToolResultBlock(call.id, found.content, found.is_error, found.whole)


def unanswered(call_id: str) -> ToolResultBlock:
    """Return the error result of a call that has no result."""
    return ToolResultBlock(call_id, (TextBlock(UNANSWERED),), is_error=True)


def without_results(message: Message) -> Message:
    if not any(isinstance(block, ToolResultBlock) for block in message.content):
        return message
    return Message("user", tuple(block for block in message.content if not isinstance(block, ToolResultBlock)))


def violations(messages: Sequence[Message]) -> list[str]:
    """Return the problems of messages to send; empty if every provider accepts them."""
    found: list[str] = []
    seen: Counter[str] = Counter()
    if messages and messages[0].role != "user":
        found.append("the first message is not the user's")
    for index, message in enumerate(messages):
        place = f"message {index + 1}"
        previous = messages[index - 1] if index else None
        following = messages[index + 1] if index + 1 < len(messages) else None
        if previous and previous.role == message.role:
            found.append(f"{place} has the role of the message before it")
        if clean_message(message) is not message or not message.content:
            found.append(f"{place} has blank, misplaced or unencodable content")
        seen.update(call.id for call in message.tool_calls)
        found += _pairing(message, previous, following, place)
    found += [f"the call id {name!r} is used {count} times" for name, count in seen.items() if count > 1 or not name]
    return found


def _pairing(message: Message, previous: Message | None, following: Message | None, place: str) -> Iterator[str]:
    if message.tool_calls:
        answers = [result.tool_use_id for result in following.tool_results] if following else []
        if answers != [call.id for call in message.tool_calls]:
            yield f"the calls of {place} are not answered one by one in the next message"
    results = message.tool_results
    if results and not (previous and previous.tool_calls):
        yield f"{place} has results without calls"
    if any(not isinstance(block, ToolResultBlock) for block in message.content[: len(results)]):
        yield f"the results of {place} do not come first"
