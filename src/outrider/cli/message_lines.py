"""`--input-format stream-json`: user messages on standard input, one JSON object per line.

A line that arrives while the agent works steers it; any other begins the next run.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal, TypeAlias

import msgspec

from outrider.cli.options import UsageError
from outrider.conversation.attachments import Attachment
from outrider.errors import ConversationError
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.struct_types import described
from outrider.text import human_size

MAX_LINE_BYTES = 50 * 1024 * 1024
"""Limit for one line: a large attachment fits."""
Parts: TypeAlias = list[str | Attachment]


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _File(msgspec.Struct, tag_field="type", tag="attachment"):
    data: bytes
    mime_type: str = ""
    name: str = ""


class _Message(msgspec.Struct):
    role: Literal["user"]
    content: str | list[_Text | _File]


class _Line(msgspec.Struct, tag_field="type", tag="user"):
    message: _Message


class MessageLines:
    """The messages of a file descriptor, read in a thread."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._messages: deque[Parts | UsageError | None] = deque()
        """What was read; None for the end of the input."""
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="messages on standard input", daemon=True).start()

    async def next(self) -> Parts | None:
        """Return the next message and keep it; None at the end. Raises UsageError for a line that is no message."""
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        if isinstance(found := self._messages[0], UsageError):
            raise found
        return found

    def taken(self) -> None:
        """Drop the message that `next` has returned."""
        self._messages.popleft()

    def _read(self) -> None:
        for message in read_messages(self._descriptor):
            try:
                self._loop.call_soon_threadsafe(self._add, message)
            except RuntimeError:  # the loop was closed: the program ends
                return

    def _add(self, message: Parts | UsageError | None) -> None:
        self._messages.append(message)
        self._arrived.set()


async def converse(
    session: Session,
    first: Parts,
    lines: MessageLines,
    prepare: Callable[[Parts], Awaitable[Parts]],
    run: Callable[[Parts], Awaitable[RunResult]],
) -> RunResult | None:
    """Answer all messages. Return the result of the last run; None if there was no message.

    `run` answers one. A run that fails, reaches a limit or is cancelled ends the conversation.
    """
    result: RunResult | None = None
    prompt: Parts | None = first
    if not prompt and not session.is_unfinished:
        prompt = await _next(lines)
    while prompt is not None:
        steering = asyncio.ensure_future(_steer(session, lines, prepare))
        try:
            result = await run(await prepare(prompt))
        finally:
            steering.cancel()
            await asyncio.wait([steering])
        if result.status != "done":
            break
        prompt = [] if session.queued else await _next(lines)
    return result


async def _next(lines: MessageLines) -> Parts | None:
    message = await lines.next()
    lines.taken()
    return message


async def _steer(session: Session, lines: MessageLines, prepare: Callable[[Parts], Awaitable[Parts]]) -> None:
    try:
        while (message := await lines.next()) is not None:
            await session.steer(await prepare(message))
            lines.taken()
    except (UsageError, ConversationError):
        return  # the next run reports the line, or begins with it


def read_messages(descriptor: int) -> Iterator[Parts | UsageError | None]:
    """Yield the messages of a descriptor, then None. A line that is no message is yielded as an error, and ends it."""
    rest, number = b"", 0
    while True:
        try:
            chunk = os.read(descriptor, 65536)  # not sys.stdin: its lock would block the end of the program
        except OSError as error:
            yield UsageError(f"standard input cannot be read: {error.strerror}")
            return
        *lines, rest = (rest + chunk).split(b"\n") if chunk else (rest, b"")
        if len(rest) > MAX_LINE_BYTES:
            lines.append(rest)
        for line in lines:
            number += 1
            if line.strip():
                message = _message(line, number)
                yield message
                if isinstance(message, UsageError):
                    return
        if not chunk:
            yield None
            return


def _message(line: bytes, number: int) -> Parts | UsageError:
    if len(line) > MAX_LINE_BYTES:
        return UsageError(f"standard input, line {number} has more than {human_size(MAX_LINE_BYTES)}")
    try:
        content = msgspec.json.decode(line, type=described(_Line)).message.content
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        example = '{"type": "user", "message": {"role": "user", "content": "Hello"}}'
        return UsageError(f"standard input, line {number} is not a message: {error}; write it as {example}")
    parts: Parts = [content] if isinstance(content, str) else [_part(block) for block in content]
    if not any(not isinstance(part, str) or part.strip() for part in parts):
        return UsageError(f"standard input, line {number} has an empty message")
    return parts


def _part(block: _Text | _File) -> str | Attachment:
    if isinstance(block, _Text):
        return block.text
    return Attachment(block.data, block.mime_type, block.name or "standard input")
