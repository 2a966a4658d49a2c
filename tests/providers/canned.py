"""Answers from a tin: an adapter that reads bytes which a test wrote instead of those of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.providers.base import Provider, Reply, Request, ToolSpec
from outrider.runtime.events import TextDelta, ThinkingDelta

LOOK = ToolSpec("look", "Look at a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
WAIT = ToolSpec("wait", "Do nothing.", {"type": "object", "properties": {}})


class CannedTransport:
    """Gives the same chunks for every request, and keeps what was asked."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = list(chunks)
        self.headers: Mapping[str, str] = {}
        self.body: Any = None

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, explain: Callable[..., Exception], idle: float
    ) -> AsyncIterator[bytes]:
        self.headers, self.body = headers, msgspec.json.decode(body)
        for chunk in self.chunks:
            yield chunk


def events(*chunks: Any, done: bool = True) -> bytes:
    """A stream of chunks; one that is bytes is sent as it is."""
    lines = [
        chunk if isinstance(chunk, bytes) else b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks
    ]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def request(*messages: Message, tools: tuple[ToolSpec, ...] = (), **fields: Any) -> Request:
    return Request(messages or (Message.user("Hello"),), fields.pop("store", MemoryStore()), tools=tools, **fields)


class Heard(msgspec.Struct):
    """What came out of a stream."""

    reply: Reply
    text: str
    thinking: str
    items: list[Any]


async def ask(model: Provider, chunks: Iterable[bytes], asked: Request | None = None) -> Heard:
    """Ask the model once and have it read these chunks."""
    model._transport = CannedTransport(chunks)  # type: ignore[attr-defined]
    items = [item async for item in model.stream(asked or request())]
    text = "".join(item.text for item in items if isinstance(item, TextDelta))
    thinking = "".join(item.text for item in items if isinstance(item, ThinkingDelta))
    assert isinstance(items[-1], Reply)
    assert not any(isinstance(item, Reply) for item in items[:-1])
    return Heard(items[-1], text, thinking, items)


def cuts(data: bytes) -> Iterable[tuple[bytes, bytes]]:
    """The data in two pieces, cut at every place."""
    return ((data[:place], data[place:]) for place in range(1, len(data)))
