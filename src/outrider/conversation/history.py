"""An append-only conversation and its sendable form, which every provider accepts.

The sendable form satisfies these invariants for any input (`violations` lists those that do not hold):
- it begins with a user message, and user and assistant alternate;
- each tool call has a unique id and exactly one result, in the next message, results first, in call order;
- no message and no text is blank, no block is in a message of the wrong role, and all text can be encoded.

A call without a result gets an error result. Duplicate results and results without a call are left out. The history
itself keeps the messages as they were added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import islice
from typing import overload

import msgspec

from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Citation,
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.text import clean, clean_value

UNANSWERED = "No result: this call was not carried out to its end, so its outcome is unknown."
BEGINNING = "(The conversation goes on from here.)"


def repair(messages: Iterable[Message]) -> list[Message]:
    """Return the messages in the form that every provider accepts. Pure and idempotent."""
    return list(History(messages).sendable())


class History:
    """Append-only messages with their sendable form, which is updated incrementally.

    A long conversation may start with its tail only: `earlier` loads the rest on first use.
    """

    def __init__(
        self, messages: Iterable[Message] = (), earlier: Callable[[], Iterable[Message]] | None = None
    ) -> None:
        self._earlier = earlier
        self._messages: list[Message] = []
        self._sendable: list[Message] = []
        self._ids = _Ids()
        self._normalized: Message | None = None
        """The last message that `normalized` returned; `append` need not clean it again."""
        self._shared = 0
        """The number of sendable messages that callers hold and that must not change."""
        self._calls: tuple[_Call, ...] = ()
        """The calls of the assistant message before the open user message."""
        self._open: list[Message] | None = None
        """The user messages since the last assistant message. They are sent as one, which may still grow."""
        for message in messages:
            self.append(message)

    def __len__(self) -> int:
        self.load()
        return len(self._messages)

    def __bool__(self) -> bool:
        return bool(self._messages or self._earlier)

    @property
    def messages(self) -> list[Message]:
        """A copy of all messages as they were added."""
        self.load()
        return self._messages.copy()

    @property
    def tail(self) -> list[Message]:
        """A copy of the loaded messages: all of them, or the tail of a long conversation."""
        return self._messages.copy()

    @property
    def last(self) -> Message | None:
        """The newest message."""
        return self._messages[-1] if self._messages else None

    @property
    def pending(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the newest assistant message that have no result yet.

        Empty if a user message with anything but results followed: the conversation has then moved on.
        """
        answered: set[str] = set()
        for message in reversed(self._messages):
            if message.role == "assistant":
                return tuple(call for call in message.tool_calls if call.id not in answered)
            if any(not isinstance(block, ToolResultBlock) for block in message.content):
                return ()
            answered.update(result.tool_use_id for result in message.tool_results)
        return ()

    def normalized(self, message: Message) -> Message:
        """Return a model's message ready to be added: without blank text, and with a unique id for each call."""
        self.load()
        if message.role != "assistant":
            message = Message("assistant", message.content)
        self._normalized = _with_unique_ids(_clean(message), self._ids)[0]
        return self._normalized

    def append(self, message: Message) -> None:
        """Add a message. The sendable form only grows, except for an open user message at its end."""
        self._messages.append(message)
        cleaned = message if message is self._normalized else _clean(message)
        if not cleaned.content:
            return
        if cleaned.role == "assistant":
            self._append_assistant(cleaned)
        else:
            self._append_user(cleaned)

    def sendable(self) -> Sequence[Message]:
        """Return the messages to send. Later messages do not change the returned sequence."""
        self.load()
        if self._calls and self._open is None:
            return (*self._sendable, _answered(self._calls, ()))
        self._shared = len(self._sendable)
        return _Prefix(self._sendable, self._shared)

    @property
    def is_loaded(self) -> bool:
        """Whether all messages are loaded, and not only the tail of a long conversation."""
        return self._earlier is None

    def load(self) -> None:
        """Load the earlier messages, which may take a moment."""
        if not self.is_loaded:
            tail = self.tail
            self.replace_with(self.loaded(tail), len(tail))

    def loaded(self, tail: Sequence[Message]) -> History:
        """Return a new history of the earlier messages and this tail. Thread-safe: it does not change this one."""
        return History((*(self._earlier() if self._earlier else ()), *tail))

    def replace_with(self, loaded: History, count: int) -> None:
        """Take over the state of a loaded history that was built from the first `count` messages of the tail."""
        if not self.is_loaded:
            for message in self._messages[count:]:
                loaded.append(message)
            self.__dict__.update(loaded.__dict__)

    def _append_assistant(self, message: Message) -> None:
        if self._calls and self._open is None:
            self._sendable.append(_answered(self._calls, ()))
        elif not self._sendable:
            self._sendable.append(Message.user(BEGINNING))
        self._open = None
        message, self._calls = _with_unique_ids(message, self._ids)
        self._ids.taken.update([call.id for call in self._calls])
        self._put(message)

    def _append_user(self, message: Message) -> None:
        opened = self._open or []
        merged = _answered(self._calls, (*opened, message)) if self._calls else _without_results(message)
        if not merged.content:
            return
        if opened and self._calls:
            self._replace_last(merged)
        else:
            self._put(merged)
        self._open = [*opened, message]

    def _put(self, message: Message) -> None:
        """Add to the sendable form. Adjacent messages of the same role are merged."""
        if self._sendable and self._sendable[-1].role == message.role:
            self._replace_last(Message(message.role, self._sendable[-1].content + message.content))
        else:
            self._sendable.append(message)

    def _replace_last(self, message: Message) -> None:
        if self._shared >= len(self._sendable):
            # Copy the list, so that requests that hold a prefix of the old one do not change.
            self._sendable, self._shared = self._sendable.copy(), 0
        self._sendable[-1] = message


class _Ids:
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


class _Call(msgspec.Struct, frozen=True):
    """The id that the model gave a call, and the id that is sent."""

    original: str
    id: str


class _Prefix(Sequence[Message]):
    """The first messages of an append-only list: a snapshot without a copy."""

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message], length: int) -> None:
        self._messages = messages
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if start < 0:  # backwards from before the beginning
                return []
            # A backward slice to the beginning has the stop -1, which a list would read as its last index.
            return self._messages[start : None if stop < 0 else stop : step]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._messages[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._messages, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


def _clean(message: Message) -> Message:
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
    match block:
        case TextBlock(text=text):
            if not text.strip():
                return None
            cleaned = msgspec.structs.replace(block, text=clean(text)) if clean(text) is not text else block
            return _clean_citations(cleaned) if block.citations else cleaned
        case ToolResultBlock() if role == "user":
            return _clean_result(block)
        case ToolUseBlock() if role == "assistant":
            return _clean_call(block)
        case ThinkingBlock(thinking=thinking) if role == "assistant":
            if not thinking.strip() and block.state is None:
                return None
            return block if clean(thinking) is thinking else ThinkingBlock(clean(thinking), block.state)
        case AttachmentBlock():
            return _clean_attachment(block)
        case ServerToolUseBlock() | ServerToolResultBlock() if role == "assistant":
            return _clean_server_block(block)
    return None


def _clean_citations(block: TextBlock) -> TextBlock:
    fields = [(each.url, each.title, each.text) for each in block.citations]
    if all(clean(field) is field for each in fields for field in each):
        return block
    kept = tuple(
        Citation(clean(each.url), clean(each.title), clean(each.text), each.start, each.end) for each in block.citations
    )
    return msgspec.structs.replace(block, citations=kept)


def _clean_server_block(block: ServerToolUseBlock | ServerToolResultBlock) -> Block:
    fields = {name: getattr(block, name) for name in block.__struct_fields__ if name != "state"}
    cleaned = {name: clean_value(value) for name, value in fields.items()}
    if all(cleaned[name] is value for name, value in fields.items()):
        return block
    return msgspec.structs.replace(block, **cleaned)


def _clean_attachment(block: AttachmentBlock) -> AttachmentBlock:
    fields = (block.sha256, block.mime_type, block.name, block.description, block.url)
    if all(clean(field) is field for field in fields):
        return block
    digest, mime_type, name, description, url = map(clean, fields)
    return AttachmentBlock(digest, mime_type, block.size, name, description, block.state, url)


def _clean_call(block: ToolUseBlock) -> ToolUseBlock:
    raw = block.invalid_input
    fields = (clean(block.id), clean(block.name), clean_value(block.input), raw if raw is None else clean(raw))
    if all(a is b for a, b in zip(fields, (block.id, block.name, block.input, raw), strict=True)):
        return block
    return ToolUseBlock(*fields, block.state)


def _clean_result(block: ToolResultBlock) -> ToolResultBlock:
    cleaned = [_clean_block(item, "user") for item in block.content]
    call_id = clean(block.tool_use_id)
    if call_id is block.tool_use_id and all(a is b for a, b in zip(cleaned, block.content, strict=True)):
        return block
    content = tuple(item for item in cleaned if isinstance(item, TextBlock | AttachmentBlock))
    return ToolResultBlock(call_id, content, block.is_error, block.whole)


def _with_unique_ids(message: Message, ids: _Ids) -> tuple[Message, tuple[_Call, ...]]:
    """Give a new id to each call whose id is empty or in use. Return the message and its calls."""
    calls: dict[str, _Call] = {}
    blocks: list[Block] = []
    renamed = False
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            unique = ids.free(block.id, calls.keys())
            calls[unique] = _Call(block.id, unique)
            if unique != block.id:
                block = msgspec.structs.replace(block, id=unique)
                renamed = True
        blocks.append(block)
    return Message(message.role, tuple(blocks)) if renamed else message, tuple(calls.values())


def _answered(calls: Sequence[_Call], messages: Sequence[Message]) -> Message:
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


def _is_answer(calls: Sequence[_Call], message: Message) -> bool:
    """Return whether the message begins with exactly one result for each call, in order."""
    ids = [block.tool_use_id for block in message.content if isinstance(block, ToolResultBlock)]
    if ids != [call.id for call in calls] or any(call.id != call.original for call in calls):
        return False
    return all(isinstance(block, ToolResultBlock) for block in message.content[: len(ids)])


def _result_of(call: _Call, results: dict[str, list[ToolResultBlock]]) -> ToolResultBlock:
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


def _without_results(message: Message) -> Message:
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
        if _clean(message) is not message or not message.content:
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
