"""Replies of Chat Completions servers, with every liberty that servers are known to take."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import ProviderState, TextBlock, ThinkingBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.errors import (
    AuthenticationError,
    IncompleteStreamError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.base import Reply, StopReason
from outrider.providers.streams.stream import merge_deltas
from outrider.runtime.events import Delta, ServerToolFinished, ServerToolStarted, TextDelta, ToolCallDelta
from tests.lengths import only_long
from tests.providers.canned import LOOK, WAIT, ask, cuts, delta, events, request

FIRST = ToolUseBlock("c1", "look", {"path": "a"})
SECOND = ToolUseBlock("c2", "look", {"path": "b"})
NAMELESS = [msgspec.structs.replace(call, id="") for call in (FIRST, SECOND)]


def model(**settings: Any) -> OpenAIChat:
    return OpenAIChat("m", base_url="http://127.0.0.1:9/v1", **settings)


def piece(arguments: Any = None, *, name: str | None = None, **fields: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return fields | {"function": function}


def calls(*fragments: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return delta(finish, tool_calls=list(fragments))


def thought(field: str, text: str) -> ThinkingBlock:
    return ThinkingBlock(text, ProviderState("openai-chat", "m", {"field": field}, "127.0.0.1"))


# Name, stream, blocks of the reply, stop reason.
STREAMS: dict[str, tuple[bytes, list[Any], StopReason]] = {
    "text": (
        events(delta(role="assistant", content=""), delta(content="Grüß "), delta(content="dich 🌍"), delta("stop")),
        [TextBlock("Grüß dich 🌍")],
        StopReason.END,
    ),
    "keep-alives, carriage returns and trailing spaces": (
        b": keep-alive\r\n\r\n" + events(delta(content="Hi"), b"data:  \r\n\r\n: \r\n\r\n", delta("stop")),
        [TextBlock("Hi")],
        StopReason.END,
    ),
    "no [DONE]": (events(delta(content="Hi"), delta("stop"), done=False), [TextBlock("Hi")], StopReason.END),
    "no finish reason": (events(delta(content="Hi")), [TextBlock("Hi")], StopReason.END),
    "finish reason with the last words": (events(delta("stop", content="Hi")), [TextBlock("Hi")], StopReason.END),
    "empty finish reasons on the way": (
        events(delta("", content="Hi"), delta("stop")),
        [TextBlock("Hi")],
        StopReason.END,
    ),
    "content in parts": (
        events(delta(content=[{"type": "text", "text": "Hi"}]), delta("stop")),
        [TextBlock("Hi")],
        StopReason.END,
    ),
    "half a surrogate pair": (
        events(b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}],"x":NaN}\n\n', delta("stop")),
        [TextBlock("a\ufffd")],
        StopReason.END,
    ),
    "length": (events(delta(content="Hi"), delta("length")), [TextBlock("Hi")], StopReason.MAX_TOKENS),
    "content filter": (events(delta("content_filter")), [], StopReason.CONTENT_FILTER),
    "unheard-of finish": (events(delta("whim", content="Hi")), [TextBlock("Hi")], StopReason.OTHER),
    "refusal": (
        events(delta(refusal="I can"), delta(refusal="not."), delta("stop")),
        [TextBlock("I cannot.")],
        StopReason.REFUSAL,
    ),
    "reasoning_content": (
        events(delta(reasoning_content="Hm"), delta(reasoning_content="m."), delta(content="Yes"), delta("stop")),
        [thought("reasoning_content", "Hmm."), TextBlock("Yes")],
        StopReason.END,
    ),
    "reasoning": (
        events(delta(reasoning="Hmm.", content=""), delta(content="Yes"), delta("stop")),
        [thought("reasoning", "Hmm."), TextBlock("Yes")],
        StopReason.END,
    ),
    "reasoning under two names": (
        events(delta(reasoning_content="", reasoning=""), delta(reasoning_content="Hm", reasoning="Hm"), delta("stop")),
        [thought("reasoning_content", "Hm")],
        StopReason.END,
    ),
    "reasoning as null": (
        events(delta(reasoning_content=None, content="Yes"), delta("stop")),
        [TextBlock("Yes")],
        StopReason.END,
    ),
    "empty reasoning before a call": (
        events(delta(reasoning_content=""), calls(piece('{"path":"a"}', name="look", id="c1")), delta("tool_calls")),
        [thought("reasoning_content", ""), FIRST],
        StopReason.TOOL_USE,
    ),
    "calls as they should be": (
        events(
            delta(content="I'll look."),
            calls(piece("", name="look", id="c1", index=0)),
            calls(piece('{"path"', index=0)),
            calls(piece(':"a"}', index=0)),
            calls(piece("", name="look", id="c2", index=1)),
            calls(piece('{"path":"b"}', index=1)),
            delta("tool_calls"),
        ),
        [TextBlock("I'll look."), FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "interleaved calls": (
        events(
            calls(piece("", name="look", id="c1", index=0), piece("", name="look", id="c2", index=1)),
            calls(piece('{"path"', index=0), piece('{"path":', index=1)),
            calls(piece('"b"}', index=1), piece(':"a"}', index=0)),
            delta("tool_calls"),
        ),
        [FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "no index": (
        events(
            calls(piece("", name="look", id="c1")),
            calls(piece('{"path":"a"}')),
            calls(piece("", name="look", id="c2")),
            calls(piece('{"path":"b"}')),
            delta("tool_calls"),
        ),
        [FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "constant index": (
        events(
            calls(piece("", name="look", id="c1", index=0)),
            calls(piece('{"path":"a"}', index=0)),
            calls(piece("", name="look", id="c2", index=0)),
            calls(piece('{"path":"b"}', index=0)),
            delta("tool_calls"),
        ),
        [FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "constant index, one chunk": (
        events(
            calls(
                piece('{"path":"a"}', name="look", id="c1", index=0),
                piece('{"path":"b"}', name="look", id="c2", index=0),
            ),
            delta("tool_calls"),
        ),
        [FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "index from 1": (
        events(
            calls(piece('{"path":"a"}', name="look", id="c1", index=1)),
            calls(piece('{"path":"b"}', name="look", id="c2", index=2)),
            delta("tool_calls"),
        ),
        [FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "index that counts fragments": (
        events(
            calls(piece("", name="look", id="c1", index=0)),
            calls(piece('{"path"', index=1)),
            calls(piece(':"a"}', index=2)),
            delta("tool_calls"),
        ),
        [FIRST],
        StopReason.TOOL_USE,
    ),
    "a new id on every fragment": (
        events(
            calls(piece('{"path"', name="look", id="c1", index=0)),
            calls(piece(':"a"}', id="c7", index=0)),
            calls(piece('{"path"', name="look", id="c2", index=1)),
            calls(piece(':"b"}', id="c8", index=1)),
            delta("tool_calls"),
        ),
        [FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "one id for all, told apart by the index": (
        events(
            calls(piece('{"path"', name="look", id="c", index=0), piece('{"path":', name="look", id="c", index=1)),
            calls(piece(':"a"}', index=0), piece('"b"}', id="c", index=1)),
            delta("tool_calls"),
        ),
        [msgspec.structs.replace(call, id="c") for call in (FIRST, SECOND)],
        StopReason.TOOL_USE,
    ),
    "a new id and the name on every fragment": (
        events(
            calls(piece("", name="look", id="c1", index=0)),
            calls(piece('{"path"', name="look", id="c7", index=0)),
            calls(piece(':"a"}', name="look", id="c8", index=0)),
            delta("tool_calls"),
        ),
        [FIRST],
        StopReason.TOOL_USE,
    ),
    "the same id and name on every fragment": (
        events(
            calls(piece('{"path"', name="look", id="c1", index=0)),
            calls(piece(':"a"}', name="look", id="c1", index=0)),
            calls(piece("", name="look", id="c1", index=0)),
            delta("tool_calls"),
        ),
        [FIRST],
        StopReason.TOOL_USE,
    ),
    "a name in pieces": (
        events(
            calls(piece("", name="lo", id="c1", index=0)),
            calls(piece("", name="ok", index=0)),
            calls(piece('{"path":"a"}', index=0)),
            delta("tool_calls"),
        ),
        [FIRST],
        StopReason.TOOL_USE,
    ),
    "an id that comes late": (
        events(
            calls(piece("", name="look", index=0)),
            calls(piece('{"path":"a"}', id="c1", index=0)),
            delta("tool_calls"),
        ),
        [FIRST],
        StopReason.TOOL_USE,
    ),
    "arguments as an object": (
        events(calls(piece({"path": "a"}, name="look", id="c1", index=0)), delta("tool_calls")),
        [FIRST],
        StopReason.TOOL_USE,
    ),
    "several calls in one chunk": (
        events(
            calls(
                piece('{"path":"a"}', name="look", id="c1", index=0),
                piece('{"path":"b"}', name="look", id="c2", index=1),
                finish="tool_calls",
            )
        ),
        [FIRST, SECOND],
        StopReason.TOOL_USE,
    ),
    "calls without id and index in one chunk": (
        events(calls(piece({"path": "a"}, name="look"), piece({"path": "b"}, name="look")), delta("stop")),
        NAMELESS,
        StopReason.TOOL_USE,
    ),
    "calls without id and index one by one": (
        events(calls(piece('{"path":"a"}', name="look")), calls(piece('{"path":"b"}', name="look")), delta("stop")),
        NAMELESS,
        StopReason.TOOL_USE,
    ),
    "calls without id, index and arguments in one chunk": (
        events(calls(piece(name="wait"), piece(name="wait"), piece({"path": "a"}, name="look")), delta("stop")),
        [ToolUseBlock("", "wait", {}), ToolUseBlock("", "wait", {}), NAMELESS[0]],
        StopReason.TOOL_USE,
    ),
    "the name again after the whole call, without id": (
        events(calls(piece('{"path":"a"}', name="look")), calls(piece("", name="look")), delta("tool_calls")),
        [NAMELESS[0]],
        StopReason.TOOL_USE,
    ),
    "the same empty id for all": (
        events(
            calls(piece({"path": "a"}, name="look", id="", index=0)),
            calls(piece({"path": "b"}, name="look", id="", index=1)),
            delta("stop"),
        ),
        NAMELESS,
        StopReason.TOOL_USE,
    ),
    "a call without arguments": (
        events(calls(piece(name="wait", id="c1", index=0)), delta("stop")),
        [ToolUseBlock("c1", "wait", {})],
        StopReason.TOOL_USE,
    ),
    "arguments that are not JSON": (
        events(calls(piece('{"path":', name="look", id="c1", index=0)), delta("tool_calls")),
        [ToolUseBlock("c1", "look", {}, invalid_input='{"path":')],
        StopReason.TOOL_USE,
    ),
    "a call that was cut off before its arguments": (
        events(calls(piece("", name="wait", id="c1", index=0)), delta("length")),
        [ToolUseBlock("c1", "wait", {}, invalid_input="")],
        StopReason.MAX_TOKENS,
    ),
    "the old function_call": (
        events(
            delta(function_call={"name": "look", "arguments": ""}),
            delta(function_call={"arguments": '{"path":"a"}'}),
            delta("function_call"),
        ),
        [NAMELESS[0]],
        StopReason.TOOL_USE,
    ),
}


each_stream = pytest.mark.parametrize(("data", "blocks", "stop"), STREAMS.values(), ids=list(STREAMS))


@pytest.mark.sampled(10)
@each_stream
async def test_a_reply_is_the_same_however_its_bytes_arrive(data: bytes, blocks: list[Any], stop: StopReason) -> None:
    asked = request()
    whole = await ask(model(), [data], asked)
    assert list(whole.reply.message.content) == blocks
    assert whole.reply.stop_reason is stop
    for chunks in cuts(data):
        assert merge_deltas((await ask(model(), chunks, asked)).items) == whole.items
    assert merge_deltas((await ask(model(), [bytes([byte]) for byte in data], asked)).items) == whole.items
    assert (await ask(model(), [data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")])).items == whole.items


@each_stream
async def test_deltas_and_the_reply_say_the_same(data: bytes, blocks: list[Any], stop: StopReason) -> None:
    heard = await ask(model(), [data])
    assert heard.text == heard.reply.message.text
    assert heard.thinking == "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    shown = "".join(item.arguments for item in heard.items if isinstance(item, ToolCallDelta))
    meant = [msgspec.json.encode(call.input).decode() for call in heard.reply.message.tool_calls if call.input]
    if all(call.invalid_input is None for call in heard.reply.message.tool_calls):
        assert sorted(shown) == sorted("".join(meant))


@pytest.mark.parametrize("every", [11, *only_long(1)])
@each_stream
async def test_a_reply_that_is_cut_off_before_its_end_is_an_error(
    data: bytes, blocks: list[Any], stop: StopReason, every: int
) -> None:
    end, asked = _end_of(data), request()
    for place in {*range(0, end, every), end - 1}:
        with pytest.raises(IncompleteStreamError) as caught:
            await ask(model(), [data[:place]], asked)
        assert caught.value.retryable
    for place in range(end, len(data), every):
        assert list((await ask(model(), [data[:place]], asked)).reply.message.content) == blocks


def _end_of(data: bytes) -> int:
    """Where the chunk with the finish reason is whole, or the [DONE] of a server that gives none."""
    finished = [line for line in data.split(b"\n") if re.search(rb'"finish_reason":"\w', line)]
    last = finished[-1] if finished else b"data: [DONE]"
    return data.index(last) + len(last)


async def test_usage_comes_in_a_last_chunk_without_choices() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    data = events(delta(content="Hi", finish="stop"), {"choices": [], "usage": usage})
    assert (await ask(model(), [data])).reply.usage == Usage(100, 20, 64, 8, 12)
    for chunks in cuts(data):
        assert (await ask(model(), chunks)).reply.usage.total_tokens == 120


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": None}])
async def test_usage_may_be_missing(usage: Any) -> None:
    data = events(delta(content="Hi", finish="stop") | {"usage": usage})
    assert (await ask(model(), [data])).reply.usage == Usage()


async def test_cached_tokens_in_deepseeks_words_count() -> None:
    data = events(delta("stop", content="Hi") | {"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}})
    assert (await ask(model(), [data])).reply.usage == Usage(9, cached_tokens=5)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "slow down", "type": "rate_limit_error", "code": None}, RateLimitedError, True),
        ({"message": "The server had an error", "type": "server_error", "code": None}, UnavailableError, True),
        ({"message": "Provider returned error", "code": 502}, UnavailableError, True),
        ({"message": "over", "code": "429"}, RateLimitedError, True),
        ({"message": "oops", "type": "InternalServerError"}, UnavailableError, True),
        ({"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"},
         RequestRefusedError, False),
        ({"message": "bad key", "code": "invalid_api_key"}, AuthenticationError, False),
        ("model runner has unexpectedly stopped", ProviderError, False),
        ({"message": "who knows"}, ProviderError, False),
    ],
)  # fmt: skip
async def test_an_error_in_the_stream_is_a_typed_error(error: Any, kind: type[Exception], retryable: bool) -> None:
    for before in ((), (delta(content="Hi"),)):
        with pytest.raises(ProviderError) as caught:
            await ask(model(), [events(*before, {"error": error})])
        assert type(caught.value) is kind
        assert caught.value.retryable is retryable
        assert (error if isinstance(error, str) else error["message"]) in str(caught.value)


async def test_a_key_in_an_error_is_not_shown() -> None:
    with pytest.raises(ProviderError) as caught:
        await ask(model(api_key="hunter2secret"), [events({"error": {"message": "hunter2secret is wrong"}})])
    assert "hunter2" not in str(caught.value)


async def test_an_error_after_the_end_does_not_undo_the_reply() -> None:
    data = events(delta("stop", content="Hi"), {"error": {"message": "usage is down", "code": 500}})
    assert (await ask(model(), [data])).reply.text == "Hi"


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource"])
async def test_a_finish_that_is_a_breakdown_is_not_a_reply(reason: str) -> None:
    with pytest.raises(IncompleteStreamError):
        await ask(model(), [events(delta(content="Hi"), delta(reason))])


@pytest.mark.parametrize(
    "data", [b"", b"data: [DONE]\n\n", b": ping\n\n", b"data: {}\n\ndata: [DONE]\n\n", b"data: 7\n\n"]
)
async def test_a_stream_without_a_reply_is_torn(data: bytes) -> None:
    with pytest.raises(IncompleteStreamError):
        await ask(model(), [data])


async def test_only_the_first_of_several_choices_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": "stop"}]}
    assert (await ask(model(), [events(other, delta("stop", content="Yes"))])).reply.text == "Yes"


# Servers that do not stream


PLAIN = msgspec.json.format(
    msgspec.json.encode(
        {
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "I'll look.",
                        "reasoning_content": "Hmm.",
                        "tool_calls": [
                            piece('{"path":"a"}', name="look", id="c1"),
                            piece({"path": "b"}, name="look", id="c2"),
                        ],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4},
        }
    )
)


async def test_an_answer_that_is_not_streamed_is_understood() -> None:
    for chunks in [(PLAIN,), *cuts(b"\n  " + PLAIN)]:
        heard = await ask(model(), chunks)
        assert heard.reply.message.content == (
            thought("reasoning_content", "Hmm."),
            TextBlock("I'll look."),
            FIRST,
            SECOND,
        )
        assert heard.reply.usage == Usage(9, 4)
        assert (heard.text, heard.thinking) == ("I'll look.", "Hmm.")


async def test_an_answer_that_is_not_streamed_and_not_whole_is_torn() -> None:
    for place in range(len(PLAIN)):
        with pytest.raises(IncompleteStreamError):
            await ask(model(), [PLAIN[:place]])


async def test_an_error_that_is_not_streamed_is_a_typed_error() -> None:
    with pytest.raises(RateLimitedError, match="slow down"):
        await ask(model(), [b'{"error": {"message": "slow down", "code": 429}}'])


async def test_what_is_nested_too_deeply_to_be_read_is_torn() -> None:
    deep = b'data: {"choices": ' + b"[" * 50_000 + b"]" * 50_000 + b"}\n\n"  # Python 3.13 reads 5,000 levels
    for data in (deep, events(delta(content="a"), delta(content="b"), deep, delta("stop"))):
        with pytest.raises(IncompleteStreamError, match="cannot be decoded"):
            await ask(model(), [data])


async def test_what_comes_together_is_held_to_the_same_rules_as_what_comes_alone() -> None:
    """Two objects in one event, or one in two, are no chunks, though they would be a list of some with their likes."""
    text = msgspec.json.encode(delta(content="a"))
    halves = text[: len(text) // 2 + 1], text[len(text) // 2 + 1 :]
    for odd in (b"data: %b,%b\n\n" % (text, text), b"data: %b\n\ndata: %b\n\n" % halves):
        data = events(delta(content="Well. "), delta(content="Now: "), odd, delta(content="b"), delta("stop"))
        for chunks in ([data], *cuts(data)):
            with pytest.raises(IncompleteStreamError, match="cannot be decoded"):
                await ask(model(), chunks)


def test_pieces_of_one_call_are_told_as_one_and_those_of_two_are_not() -> None:
    pieces = [ToolCallDelta("a", "loo", '{"p'), ToolCallDelta("a", "look", 'ath"'), ToolCallDelta("b", "look", "{}")]
    assert merge_deltas([*pieces]) == [ToolCallDelta("a", "look", '{"path"'), pieces[2]]
    nameless = [ToolCallDelta("", "look", "{}"), ToolCallDelta("", "look", "{}")]
    assert merge_deltas([*nameless]) == nameless


def test_calls_of_server_tools_in_one_chunk_stay_apart() -> None:
    shown: list[Delta | Reply] = [
        ServerToolStarted("a", "web_search", {}),
        ServerToolStarted("b", "web_search", {}),
        ServerToolFinished("a", "web_search", "one"),
        ServerToolFinished("b", "web_search", "two"),
    ]
    assert merge_deltas([*shown]) == shown


# Calls written as text


CALL = '{"name": "look", "arguments": {"path": "a"}}'


def said(text: str, size: int = 3) -> bytes:
    """A reply with this text, so many characters in a chunk."""
    return events(*(delta(content=text[at : at + size]) for at in range(0, len(text), size)), delta("stop"))


async def test_without_tools_or_beside_real_calls_nothing_is_made_of_text() -> None:
    text = f"<tool_call>{CALL}</tool_call>"
    assert (await ask(model(), [said(text)])).reply.text == text
    data = events(delta(content=text), calls(piece({}, name="wait", id="c1"), finish="tool_calls"))
    heard = await ask(model(), [data], request(tools=(LOOK, WAIT)))
    assert heard.reply.message.content == (TextBlock(text), ToolUseBlock("c1", "wait", {}))
    assert heard.text == text


async def test_text_is_shown_as_it_comes() -> None:
    data = said("one two", 4)
    live = [event + b"\n\n" for event in data.split(b"\n\n")]
    heard = await ask(model(), live, request(tools=(LOOK,)))
    assert heard.items[:2] == [TextDelta("one "), TextDelta("two")]
    together = await ask(model(), [data], request(tools=(LOOK,)))
    assert together.items[0] == TextDelta("one two"), "what arrives together is shown together"
