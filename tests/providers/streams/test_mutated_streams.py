"""Streams with server tools, mutated in every way and with several events in a chunk, give a reply or an error of ours.

A reply can be stored and sent back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from outrider import dumps, loads
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import ProviderError
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.hosted import adapter_of
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply, Request
from outrider.providers.streams.stream import ReplyParser, merge_deltas
from tests.lengths import only_long
from tests.providers.canned import delta
from tests.searches import STREAMS

CALL = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}
GROQ = [
    delta(reasoning="Hm"),
    delta(executed_tools=[{"index": 0, "type": "search", "arguments": '{"query": "x"}'}]),
    delta(executed_tools=[{"index": 0, "type": "search", "output": "found"}]),
    delta(content=[{"type": "text", "text": "Hi"}, {"type": "reference", "reference_ids": [1]}]),
    delta(tool_calls=[CALL, {"index": 1, "id": "d", "custom": {"name": "look", "input": "a"}}]),
    delta("tool_calls", annotations=[{"url_citation": {"url": "https://a.test"}}]),
    {"choices": [], "usage": {"prompt_tokens": 5, "server_tool_use": {"web_search_requests": 1}}},
]
PICTURE = {"type": "image_generation_call", "id": "ig", "status": "failed", "result": None}
RAW = {"type": "shell_call", "id": "sh", "call_id": "c", "action": {"commands": ["ls"]}}
MORE: dict[str, list[Any]] = {
    "openai": [{"type": "response.output_item.done", "output_index": 7, "item": each} for each in (PICTURE, RAW)],
    "gemini": [{"candidates": [{"content": {"parts": [{"fileData": {"fileUri": "u"}}]}}]}],
    "anthropic": [
        {"type": "content_block_start", "index": 9, "content_block": {"type": "compaction", "content": "x"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "compaction_delta", "content": "y"}},
    ],
}
MODELS: dict[str, ApiProvider] = {
    "anthropic": Anthropic("claude-opus-4-7", api_key="key"),
    "openai": OpenAIResponses("gpt-5.6", api_key="key"),
    "groq": adapter_of("groq")("compound", api_key="key"),
    "gemini": Gemini("gemini-3-pro", api_key="key"),
}
DEEP = b"[" * 150 + b"]" * 150
ODD = [b"null", b"true", b"0", b"-1", b"1.5", b"1000000000000000000", b'""', b'"x"', b"[]", b"[null]", b"{}", DEEP]


def seed_of(api: str) -> list[Any]:
    """The events of a whole stream, with what it seldom has before its end."""
    if api == "groq":
        return GROQ
    lines = STREAMS[api].split(b"\n")
    told = [msgspec.json.decode(line[6:]) for line in lines if line.startswith(b"data: {")]
    return [*told[:-2], *MORE[api], *told[-2:]]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a value, with each of its keys."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def mutated(told: list[Any], chance: random.Random) -> list[Any]:
    found = msgspec.json.decode(msgspec.json.encode(told))
    for _ in range(chance.randint(1, 4)):
        where = list(places(found))
        holder, key = chance.choice(where)
        other, name = chance.choice(where)
        match chance.randint(0, 5):
            case 0:
                del holder[key]
            case 1:
                holder[key] = msgspec.json.decode(msgspec.json.encode(other[name]))
            case 2:
                found.insert(chance.randrange(len(found) + 1), chance.choice(found))
            case 3:
                chance.shuffle(found)
            case _:
                holder[key] = msgspec.json.decode(chance.choice(ODD))
        found = found or [{}]
    return found


def chunks(told: list[Any], chance: random.Random) -> Iterator[bytes]:
    """The events in chunks that have several of them, or a part of one."""
    data = b"".join(b"data: %b\n\n" % msgspec.json.encode(each) for each in told)
    while data:
        size = chance.choice((40, 1000, 100_000))
        yield data[:size]
        data = data[size:]


def play(model: ApiProvider, told: list[Any], chance: random.Random) -> bool:
    """Read a stream; store its reply and send it back. Return whether it had one."""
    store = MemoryStore()
    parser = ReplyParser(model.incoming(store=store), "X")
    shown: list[Any] = []
    try:
        for chunk in chunks(told, chance):
            shown += merge_deltas(parser.feed(chunk))
        shown += parser.finish()
    except ProviderError:
        return False
    assert isinstance(shown[-1], Reply)
    assert parser.usage is None or parser.usage.context >= 0
    message = shown[-1].message
    calls = {call.id: call for call in message.tool_calls}
    results = tuple(ToolResultBlock(name, (TextBlock("ok"),)) for name in calls)
    if message.content:
        [again] = loads(dumps([message]))
        model.render(Request((Message.user("Hello"), again, Message("user", (*results, TextBlock("Go on")))), store))
    return True


@pytest.mark.parametrize("count", [250, *only_long(6_000)])
@pytest.mark.parametrize("api", MODELS)
def test_a_mutated_stream_gives_a_reply_or_an_error_of_ours(api: str, count: int) -> None:
    told = seed_of(api)
    assert play(MODELS[api], told, random.Random(0))
    replies = 0
    for number in range(count):
        chance = random.Random(f"{api} {count} {number}")
        stream = mutated(told, chance)
        try:
            replies += play(MODELS[api], stream, chance)
        except Exception as error:
            raise AssertionError(f"stream {number} of {api}: {msgspec.json.encode(stream)[:5000]!r}") from error
    assert replies > 0.85 * count  # most are odd, and all the same a reply
