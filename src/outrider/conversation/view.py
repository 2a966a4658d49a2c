"""The sendable form of messages: what a request contains. It only grows, except for an open user message at its end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import islice
from typing import overload

import msgspec

from outrider.conversation.messages import Block, Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.repairs import CallId, Ids, answered, clean_message, with_unique_ids, without_results

BEGINNING = "(The conversation goes on from here.)"
WORTH_CLEARING = 300
"""Characters of a result from which its line is shorter by far."""
RANDOM_ID = 20
"""Characters from which a call's id is surely random. The ids of all large APIs are longer."""


class View:
    """Takes messages in order and keeps their sendable form, which satisfies the invariants of `history`."""

    def __init__(self) -> None:
        self._sendable: list[Message] = []
        self._ids = Ids()
        self._normalized: Message | None = None
        """The last message that `normalized` returned; `append` need not clean it again."""
        self._normalized_calls: tuple[CallId, ...] = ()
        """Its calls, whose ids are free."""
        self._shared = 0
        """The number of sendable messages that callers hold and that must not change."""
        self._calls: tuple[CallId, ...] = ()
        """The calls of the assistant message before the open user message."""
        self._open: list[Message] | None = None
        """The user messages since the last assistant message. They are sent as one, which may still grow."""

    def normalized(self, message: Message, *, knows_all_ids: bool = True) -> Message:
        """Return a model's message ready to be added: without blank text, and with a unique id for each call."""
        if message.role != "assistant":
            message = Message("assistant", message.content)
        message = clean_message(message)
        if not knows_all_ids:
            message = with_random_ids(message)
        self._normalized, self._normalized_calls = with_unique_ids(message, self._ids)
        return self._normalized

    @property
    def ids(self) -> Set[str]:
        """The call ids in use."""
        return self._ids.taken

    def reserve(self, ids: Iterable[str]) -> None:
        """Treat call ids as used from now on: they are unique in the whole conversation, and not only in this view."""
        self._ids.taken.update(ids)
        self._normalized = None

    def append(self, message: Message) -> None:
        """Add a message."""
        cleaned = message if message is self._normalized else clean_message(message)
        if not cleaned.content:
            return
        if cleaned.role == "assistant":
            self._append_assistant(cleaned)
        else:
            self._append_user(cleaned)

    def sendable(self) -> Sequence[Message]:
        """Return the messages to send. Later messages do not change the returned sequence."""
        if self._calls and self._open is None:
            return (*self._sendable, answered(self._calls, ()))
        self._shared = len(self._sendable)
        return Prefix(self._sendable, self._shared)

    def _append_assistant(self, message: Message) -> None:
        if self._calls and self._open is None:
            self._sendable.append(answered(self._calls, ()))
        elif not self._sendable:
            self._sendable.append(Message.user(BEGINNING))
        self._open = None
        if message is self._normalized:
            self._calls, self._normalized = tuple([CallId(each.id, each.id) for each in self._normalized_calls]), None
        else:
            message, self._calls = with_unique_ids(message, self._ids)
        self._ids.taken.update([call.id for call in self._calls])
        self._put(message)

    def _append_user(self, message: Message) -> None:
        opened = self._open or []
        merged = answered(self._calls, (*opened, message)) if self._calls else without_results(message)
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


class Prefix(Sequence[Message]):
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


def cleared(message: Message) -> Message:
    """Return the message with one line, which says how to read it again, for each long result; else the same object."""
    blocks = tuple(_cleared(block) if isinstance(block, ToolResultBlock) else block for block in message.content)
    same = all(new is old for new, old in zip(blocks, message.content, strict=True))
    return message if same else Message(message.role, blocks)


def _cleared(result: ToolResultBlock) -> ToolResultBlock:
    characters, files = len(result.text), result.attachments
    if characters < WORTH_CLEARING and not files:
        return result
    names = "".join(f", {file.label}" for file in files)
    line = f'[Cleared: {characters:,} characters{names}. Recall(reference="{result.tool_use_id}") shows it again.]'
    return msgspec.structs.replace(result, content=(TextBlock(line),))


def cuts(messages: Sequence[Message]) -> list[int]:
    """Return the indexes before which a conversation can be cut without parting a call from its result, in order.

    The end is one of them if no call waits for its result there.
    """
    found: list[int] = []
    run_has_results = False  # whether the user messages before the next reply have results
    if not (messages and messages[-1].role == "assistant" and messages[-1].tool_calls):
        found.append(len(messages))
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        run_has_results = message.role == "user" and (run_has_results or bool(message.tool_results))
        if not run_has_results:
            found.append(index)
    return found[::-1]


def with_random_ids(message: Message) -> Message:
    """Give new ids to calls with short ids such as `call_1`, which may have occurred before. Long ones are random."""
    blocks: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock) and len(block.id) < RANDOM_ID:
            block = msgspec.structs.replace(block, id=f"{block.id or 'call'}-{os.urandom(6).hex()}")
        blocks.append(block)
    return Message(message.role, tuple(blocks)) if message.has_tool_calls else message
