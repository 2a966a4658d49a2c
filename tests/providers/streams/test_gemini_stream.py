"""Replies of Gemini: what its streams become, whatever they are like and wherever they are cut."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.history import History
from outrider.conversation.messages import Block, Message, ProviderState, TextBlock, ThinkingBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.errors import (
    AuthenticationError,
    IncompleteStreamError,
    ProviderError,
    RateLimitedError,
    UnavailableError,
)
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.base import Reply, Request, StopReason
from outrider.runtime.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from tests.reading import read_reply

MODEL = Gemini("gemini-3.5-flash", api_key="hunter22")


async def replayed(*chunks: bytes) -> tuple[list[Delta], Reply]:
    """The deltas and the reply that the bytes of an answer give."""

    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    *deltas, reply = [item async for item in read_reply(MODEL, source())]
    assert isinstance(reply, Reply)
    assert not any(isinstance(delta, Reply) for delta in deltas)
    return deltas, reply  # type: ignore[return-value]


def events(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\r\n\r\n" for chunk in chunks)


def chunk(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **more}


def call(name: str | None = None, signature: str | None = None, **fields: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": ({"name": name} if name else {}) | fields}
    return part | {"thoughtSignature": signature} if signature else part


def state(**data: str) -> ProviderState:
    return ProviderState("gemini", "gemini-3.5-flash", data)


# As the bytes come, with the reply that they are.
TEXT = (
    b'data: {"candidates": [{"content": {"parts": [{"text": "Gr\xc3\xbc\xc3\x9fe"}],"role": "model"},"index": 0}],'
    b'"usageMetadata": {"promptTokenCount": 7,"totalTokenCount": 7},"modelVersion": "gemini-3.5-flash"}\r\n\r\n'
    b'data: {"candidates": [{"content": {"parts": [{"text": ", \xf0\x9f\x8c\x8d!"}],"role": "model"},"index": 0}]}'
    b"\r\n\r\n"
    b'data: {"candidates": [{"content": {"parts": [{"text": ""}],"role": "model"},"finishReason": "STOP","index": 0}],'
    b'"usageMetadata": {"promptTokenCount": 7,"candidatesTokenCount": 3,"thoughtsTokenCount": 20,'
    b'"cachedContentTokenCount": 4,"toolUsePromptTokenCount": 2,"totalTokenCount": 32}}\r\n\r\n'
)
CALLS = (
    b'data: {"candidates": [{"content": {"parts": [{"text": "Looking","thought": true}]}}]}\n\n'
    b'data: {"candidates": [{"content": {"parts": [{"text": " around.","thought": true}]}}]}\n\n'
    b'data: {"candidates": [{"content": {"parts": [{"text": "I read both."},'
    b'{"functionCall": {"name": "Read","args": {"path": "a"},"id": "fc-1"},"thoughtSignature": "U0lH"},'
    b'{"functionCall": {"name": "Now","id": "fc-2"}}]},"finishReason": "STOP"}],'
    b'"usageMetadata": {"promptTokenCount": 1,"candidatesTokenCount": 2}}'
)
PARTIAL = (
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"Edit","willContinue":true},'
    b'"thoughtSignature":"U0lH"}]}}]}\n\n'
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.edits[0].text",'
    b'"stringValue":"Zw\xc3\xb6","willContinue":true}],"willContinue":true}}]}}]}\n\n'
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.edits[0].text",'
    b'"stringValue":"lf"},{"jsonPath":"$.edits[0].line","numberValue":12},{"jsonPath":"$[\'dry run\']",'
    b'"boolValue":true},{"jsonPath":"$.note","nullValue":"NULL_VALUE"}],"willContinue":true}}]}}]}\n\n'
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}\n\n'
    b'data: {"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}\n\n'
)
BLOCKED = (
    b'data: {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},"usageMetadata": {"promptTokenCount": 9}}\n\n'
)
MALFORMED = (
    b'data: {"candidates": [{"content": {},"finishReason": "MALFORMED_FUNCTION_CALL",'
    b'"finishMessage": "Malformed function call: print(default_api.Read("}]}\n\n'
)

REPLIES: dict[str, tuple[bytes, tuple[Block, ...], StopReason, Usage]] = {
    "text in pieces, an empty last one, and the last usage": (
        TEXT,
        (TextBlock("Grüße, 🌍!"),),
        StopReason.END,
        Usage(9, 23, cached_tokens=4, reasoning_tokens=20, context_tokens=30),
    ),
    "thoughts, text and two calls in one chunk, one without arguments; no blank line at the end": (
        CALLS,
        (
            ThinkingBlock("Looking around."),
            TextBlock("I read both."),
            ToolUseBlock("fc-1", "Read", {"path": "a"}, state=state(thoughtSignature="U0lH", id="fc-1")),
            ToolUseBlock("fc-2", "Now", {}, state=state(id="fc-2")),
        ),
        StopReason.TOOL_USE,
        Usage(1, 2),
    ),
    "arguments in pieces without a name": (
        PARTIAL,
        (
            ToolUseBlock(
                "",
                "Edit",
                {"edits": [{"text": "Zwölf", "line": 12}], "dry run": True, "note": None},
                state=state(thoughtSignature="U0lH"),
            ),
        ),
        StopReason.TOOL_USE,
        Usage(),
    ),
    "a prompt that was blocked": (
        BLOCKED,
        (TextBlock("[Gemini ended the reply: PROHIBITED_CONTENT]"),),
        StopReason.CONTENT_FILTER,
        Usage(9),
    ),
    "a call that the API could not read": (
        MALFORMED,
        (
            TextBlock(
                "[Gemini ended the reply: MALFORMED_FUNCTION_CALL: Malformed function call: print(default_api.Read(]"
            ),
        ),
        StopReason.MALFORMED_CALL,
        Usage(),
    ),
}
every_stream = pytest.mark.parametrize(("stream", "blocks", "stop", "usage"), REPLIES.values(), ids=REPLIES.keys())


@every_stream
async def test_a_stream_cut_at_any_byte_gives_the_same_reply(
    stream: bytes, blocks: tuple[Block, ...], stop: StopReason, usage: Usage
) -> None:
    deltas, whole = await replayed(stream)
    assert whole == Reply(Message("assistant", blocks), stop, usage)
    for offset in range(len(stream)):
        assert await replayed(stream[:offset], stream[offset:]) == (deltas, whole)
    assert await replayed(*(bytes([byte]) for byte in stream)) == (deltas, whole)


@every_stream
async def test_a_stream_that_ends_too_early_is_torn_and_never_half_a_reply(
    stream: bytes, blocks: tuple[Block, ...], stop: StopReason, usage: Usage
) -> None:
    complete = len(stream.rstrip())
    for end in range(complete):
        with pytest.raises(IncompleteStreamError) as caught:
            await replayed(stream[:end])
        assert caught.value.retryable
    assert (await replayed(stream[:complete]))[1].message.content == blocks


@every_stream
async def test_the_deltas_show_what_the_reply_has(
    stream: bytes, blocks: tuple[Block, ...], stop: StopReason, usage: Usage
) -> None:
    deltas, reply = await replayed(stream)
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == reply.text
    thoughts = "".join(block.thinking for block in reply.message.content if isinstance(block, ThinkingBlock))
    assert "".join(d.text for d in deltas if isinstance(d, ThinkingDelta)) == thoughts
    shown = [
        (d.call_id, d.name, json.loads(d.arguments)) for d in deltas if isinstance(d, ToolCallDelta) and d.arguments
    ]
    assert shown == [(use.id, use.name, use.input) for use in reply.message.tool_calls]


@given(st.lists(st.integers(0, len(CALLS)), max_size=20))
async def test_any_cuts_give_the_same_reply(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(CALLS)]
    pieces = [CALLS[start:end] for start, end in pairwise(places)]
    assert await replayed(*pieces) == await replayed(CALLS)


async def test_the_first_words_are_shown_before_the_rest_has_come() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield events(chunk({"text": "Hel"}))
        raise AssertionError("the second chunk was asked for too early")

    assert await anext(aiter(read_reply(MODEL, source()))) == TextDelta("Hel")


# Why a reply ended


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", StopReason.END),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        *((name, StopReason.CONTENT_FILTER) for name in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT")),
        *((name, StopReason.CONTENT_FILTER) for name in ("SPII", "IMAGE_SAFETY")),
        *((name, StopReason.MALFORMED_CALL) for name in ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")),
        *((name, StopReason.MALFORMED_CALL) for name in ("TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE")),
        ("LANGUAGE", StopReason.OTHER),
        ("OTHER", StopReason.OTHER),
        ("A_REASON_OF_TOMORROW", StopReason.OTHER),
    ],
)
async def test_every_finish_reason_has_its_stop_reason_and_only_a_good_one_may_say_nothing(
    reason: str, stop: StopReason
) -> None:
    _, silent = await replayed(events(chunk(finish=reason)))
    assert silent.stop_reason is stop
    assert (reason in silent.text) is (reason != "STOP")
    _, spoken = await replayed(events(chunk({"text": "Well"}, finish=reason)))
    assert spoken.stop_reason is stop
    assert spoken.text.startswith("Well")
    assert (reason in spoken.text) is (stop is StopReason.MALFORMED_CALL)


async def test_calls_are_no_reason_to_forget_that_the_reply_was_cut_short() -> None:
    _, reply = await replayed(events(chunk(call("Read", args={}), finish="MAX_TOKENS")))
    assert reply.stop_reason is StopReason.MAX_TOKENS
    assert reply.message.content == (ToolUseBlock("", "Read", {}),)


async def test_a_finish_reason_on_every_chunk_does_not_end_the_reply() -> None:
    stream = events(chunk({"text": "Hel"}, finish="STOP"), chunk({"text": "lo"}, finish="STOP"))
    assert (await replayed(stream))[1].message.content == (TextBlock("Hello"),)


async def test_usage_and_other_things_may_follow_the_finish() -> None:
    stream = events(chunk({"text": "Hi"}, finish="STOP"), {"usageMetadata": {"promptTokenCount": 5}})
    _, reply = await replayed(stream + b": a comment\n\ndata:\n\ndata: [DONE]\n\n")
    assert (reply.text, reply.usage) == ("Hi", Usage(5))


@pytest.mark.parametrize("stream", [b"", b"\n\n", b": ping\n\n", events({}), events(chunk({"text": "Hi"})), b"data: {"])
async def test_a_clean_end_without_a_finish_is_torn(stream: bytes) -> None:
    with pytest.raises(IncompleteStreamError, match="Gemini"):
        await replayed(stream)


@pytest.mark.parametrize("field", ["candidates", "promptFeedback", "usageMetadata"])
async def test_null_is_as_good_as_nothing(field: str) -> None:
    nothing = {"content": {"parts": None}, "finishReason": None}
    stream = events({field: None}, {"candidates": [nothing, {"content": None}]}, {"candidates": []})
    _, reply = await replayed(stream + events(chunk({"text": "Hi", "thought": None}, finish="STOP")))
    assert reply.message.content == (TextBlock("Hi"),)


async def test_only_the_first_of_several_candidates_counts() -> None:
    other = {"content": {"parts": [{"text": "Or"}]}, "finishReason": "SAFETY"}
    both = {"candidates": [*chunk({"text": "Either"}, finish="STOP")["candidates"], other]}
    _, reply = await replayed(events(both))
    assert (reply.text, reply.stop_reason) == ("Either", StopReason.END)


# Signatures


async def blocks_of(parts: Iterable[Any]) -> tuple[Block, ...]:
    return (await replayed(events(*(chunk(part) for part in parts), chunk(finish="STOP"))))[1].message.content


async def test_a_part_with_a_signature_is_joined_with_no_other() -> None:
    parts = [
        *({"text": "a"}, {"text": "b"}, {"text": "c", "thoughtSignature": "U0lH"}, {"text": "d"}, {"text": "e"}),
        *({"text": "f", "thought": True}, {"text": "g", "thought": True, "thoughtSignature": "VFdP"}),
    ]
    assert await blocks_of(parts) == (
        TextBlock("ab"),
        TextBlock("c", state(thoughtSignature="U0lH")),
        TextBlock("de"),
        ThinkingBlock("f"),
        ThinkingBlock("g", state(thoughtSignature="VFdP")),
    )


@pytest.mark.parametrize("text", ["", "\n"])
async def test_a_signature_without_words_survives_the_history_and_goes_back_as_it_came(text: str) -> None:
    blocks = await blocks_of([{"text": "Done."}, {"text": text, "thoughtSignature": "U0lH"}])
    history = History([Message.user("Go."), Message("assistant", blocks), Message.user("And?")])
    contents = json.loads(MODEL.render(Request(history.sendable(), MemoryStore())))["contents"]
    assert contents[1]["parts"] == [{"text": "Done."}, {"text": text, "thoughtSignature": "U0lH"}]


async def test_a_reply_goes_back_with_the_parts_that_it_came_with() -> None:
    _, reply = await replayed(CALLS)
    history = History([Message.user("Go."), reply.message])
    contents = json.loads(MODEL.render(Request(history.sendable(), MemoryStore())))["contents"]
    assert contents[1]["parts"] == [
        {"text": "I read both."},
        {"functionCall": {"id": "fc-1", "name": "Read", "args": {"path": "a"}}, "thoughtSignature": "U0lH"},
        {"functionCall": {"id": "fc-2", "name": "Now", "args": {}}},
    ]


async def test_the_state_names_the_host_if_it_is_not_the_usual_one() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield events(chunk({"text": "Hi", "thoughtSignature": "U0lH"}, finish="STOP"))

    model = Gemini("gemini-3.5-flash", base_url="http://name:word@gateway.example:8080/x")
    *_, reply = [item async for item in read_reply(model, source())]
    assert isinstance(reply, Reply)
    (block,) = reply.message.content
    assert isinstance(block, TextBlock)
    assert block.state
    assert block.state.route == "gateway.example"


# Calls that are not quite right


async def test_arguments_that_are_no_object_are_kept_as_they_were_written() -> None:
    assert await blocks_of([call("Read", args=["a"])]) == (ToolUseBlock("", "Read", {}, '["a"]'),)


async def test_pieces_of_arguments_may_come_with_the_name_and_over_arguments() -> None:
    part = call("Read", args={"path": "a"}, partialArgs=[{"jsonPath": "$.line", "numberValue": 1.5}])
    assert await blocks_of([part]) == (ToolUseBlock("", "Read", {"path": "a", "line": 1.5}),)


@pytest.mark.parametrize("path", ["", "$", "path", "$..path", "$[1]", "$.list[7]", "$.text[0]", "$.list.name", "$[?a]"])
async def test_a_place_that_cannot_be_found_makes_the_arguments_invalid(path: str) -> None:
    pieces = [{"jsonPath": "$.text", "stringValue": "x"}, {"jsonPath": "$.list[0]", "boolValue": True}]
    (block,) = await blocks_of([call("Read", partialArgs=[*pieces, {"jsonPath": path, "stringValue": "y"}])])
    assert isinstance(block, ToolUseBlock)
    assert block.input == {}
    assert block.invalid_input


async def test_a_call_that_was_cut_off_is_not_to_be_carried_out() -> None:
    begun = call("Write", partialArgs=[{"jsonPath": "$.text", "stringValue": "rm -rf /tm"}], willContinue=True)
    for stream in (
        events(chunk(begun), chunk(finish="MAX_TOKENS")),
        events(chunk(begun), chunk(call("Read", args={})), chunk(finish="STOP")),
    ):
        cut = (await replayed(stream))[1].message.tool_calls[0]
        assert (cut.name, cut.input, cut.invalid_input) == ("Write", {}, '{"text":"rm -rf /tm"')


async def test_a_call_whose_end_was_forgotten_is_whole_if_the_reply_is() -> None:
    begun = call("Write", partialArgs=[{"jsonPath": "$.text", "stringValue": "all"}], willContinue=True)
    (block,) = await blocks_of([begun])
    assert block == ToolUseBlock("", "Write", {"text": "all"})


async def test_the_signature_of_a_call_in_pieces_may_come_with_its_end() -> None:
    parts = [call("Read", willContinue=True), call(signature="U0lH")]
    assert await blocks_of(parts) == (ToolUseBlock("", "Read", {}, state=state(thoughtSignature="U0lH")),)


async def test_an_end_without_a_call_is_nothing_but_arguments_without_one_are_an_error() -> None:
    assert await blocks_of([call(), {"text": "Hi"}]) == (TextBlock("Hi"),)
    with pytest.raises(ProviderError, match="arguments without a call"):
        await blocks_of([call(args={"path": "a"})])


# Errors after a good beginning


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}, UnavailableError, True),
        ({"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED"}, RateLimitedError, True),
        ({"code": 400, "message": "API key expired: hunter22"}, AuthenticationError, False),
        ({"message": "Something."}, UnavailableError, True),
        ("Something.", UnavailableError, True),
    ],
)
@pytest.mark.parametrize("as_list", [False, True])
async def test_an_error_in_the_stream_is_raised_as_what_it_is(
    error: Any, kind: type[ProviderError], retryable: bool, as_list: bool
) -> None:
    said = [{"error": error}] if as_list else {"error": error}
    with pytest.raises(kind) as caught:
        await replayed(events(chunk({"text": "Hi"}), said))
    assert caught.value.retryable is retryable
    assert "hunter22" not in str(caught.value)


async def test_chunks_in_a_list_are_read_one_after_the_other() -> None:
    stream = events([chunk({"text": "Hel"}), chunk({"text": "lo"}, finish="STOP")])
    assert (await replayed(stream))[1].text == "Hello"


@pytest.mark.parametrize("data", [b"<html>", b"[" * 100_000])
async def test_an_event_that_is_not_json_is_an_error_of_the_provider(data: bytes) -> None:
    with pytest.raises(ProviderError, match="Gemini sent an event"):
        await replayed(b"data: " + data + b"\n\n")
