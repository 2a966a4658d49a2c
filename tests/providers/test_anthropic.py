"""Anthropic's streams, as the bytes that its servers send, with every peculiarity and cut at every place."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.messages import Message, ProviderState, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from outrider.conversation.store import MemoryStore
from outrider.errors import IncompleteStreamError, ProviderError, UnavailableError
from outrider.providers.anthropic import Anthropic
from outrider.providers.base import Reply, Request, StopReason
from outrider.providers.stream import ReplyParser
from outrider.runtime.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from tests.adapters import heard

START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",'
    b'"model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,'
    b'"cache_creation_input_tokens":3,"cache_read_input_tokens":7,"output_tokens":1}}   }\n\n'
)
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"          }\n\n'


def opened(index: int, block: str) -> bytes:
    data = f'{{"type":"content_block_start","index":{index},"content_block":{block}      }}'
    return f"event: content_block_start\ndata: {data}\n\n".encode()


def delta(index: int, fields: str) -> bytes:
    data = f'{{"type":"content_block_delta","index":{index},"delta":{fields} }}'
    return f"event: content_block_delta\ndata: {data}  \n\n".encode()


def closed(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d    }\n\n' % index


def ended(reason: str, usage: str = '{"output_tokens":15}') -> bytes:
    data = f'{{"type":"message_delta","delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{usage}      }}'
    return f"event: message_delta\ndata: {data}\n\n".encode() + STOP


THOUGHT = (
    opened(0, '{"type":"thinking","thinking":"","signature":""}')
    + delta(0, '{"type":"thinking_delta","thinking":"Hm, "}')
    + PING
    + delta(0, '{"type":"thinking_delta","thinking":"ü."}')
    + delta(0, '{"type":"signature_delta","signature":"c2ln"}')
    + closed(0)
)
TEXT = (
    opened(1, '{"type":"text","text":""}')
    + PING
    + delta(1, '{"type":"text_delta","text":"Grüß "}')
    + delta(1, '{"type":"text_delta","text":"dich 👋"}')
    + closed(1)
)
CALLS = (
    opened(2, '{"type":"tool_use","id":"toolu_1","name":"read","input":{}}')
    + delta(2, '{"type":"input_json_delta","partial_json":""}')
    + delta(2, '{"type":"input_json_delta","partial_json":"{\\"path\\": \\"a"}')
    + delta(2, '{"type":"input_json_delta","partial_json":".txt\\"}"}')
    + closed(2)
    + opened(3, '{"type":"tool_use","id":"toolu_2","name":"look","input":{}}')
    + closed(3)
)
WHOLE = START + THOUGHT + TEXT + CALLS + ended('"tool_use"')
STATE = ProviderState("anthropic", "claude-sonnet-4-5", {"signature": "c2ln"})
MESSAGE = Message.assistant(
    ThinkingBlock("Hm, ü.", STATE),
    "Grüß dich 👋",
    ToolUseBlock("toolu_1", "read", {"path": "a.txt"}),
    ToolUseBlock("toolu_2", "look", {}),
)


def read(*chunks: bytes) -> tuple[list[Delta], Reply]:
    """The deltas and the reply that a stream of bytes stands for."""
    *items, reply = heard(Anthropic("claude-sonnet-4-5"), *chunks)
    assert isinstance(reply, Reply)
    deltas = [item for item in items if not isinstance(item, Reply)]
    assert len(deltas) == len(items), "there is one reply, and it is the last"
    return deltas, reply


def test_a_whole_reply_in_one_piece() -> None:
    deltas, reply = read(WHOLE)
    assert reply.message == MESSAGE
    assert reply.stop_reason is StopReason.TOOL_USE
    assert deltas == [
        ThinkingDelta("Hm, "),
        ThinkingDelta("ü."),
        TextDelta("Grüß "),
        TextDelta("dich 👋"),
        ToolCallDelta("toolu_1", "read", ""),
        ToolCallDelta("toolu_1", "read", '{"path": "a'),
        ToolCallDelta("toolu_1", "read", '.txt"}'),
        ToolCallDelta("toolu_2", "look", ""),
    ]


def test_input_is_counted_with_its_cached_parts_and_output_as_the_last_event_says() -> None:
    _, reply = read(WHOLE)
    assert reply.usage == Usage(25 + 3 + 7, 15, 7, 3)


def test_usage_at_the_end_is_a_total_and_not_an_addition() -> None:
    last = '{"input_tokens":30,"cache_read_input_tokens":null,"output_tokens":20}'
    _, reply = read(START + TEXT + ended('"end_turn"', last))
    assert reply.usage == Usage(30 + 3 + 7, 20, 7, 3)


def test_the_stream_may_be_cut_up_anywhere() -> None:
    deltas, reply = read(WHOLE)
    for place in range(len(WHOLE) + 1):
        assert read(WHOLE[:place], WHOLE[place:]) == (deltas, reply), place


def test_the_stream_may_come_byte_by_byte() -> None:
    assert read(*(bytes([byte]) for byte in WHOLE)) == read(WHOLE)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_the_stream_may_be_cut_up_into_many_pieces_with_any_line_ends(places: list[int], ending: bytes) -> None:
    whole = WHOLE.replace(b"\n", ending)
    bounds = [0, *sorted(places), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(bounds)]
    assert (read(*pieces))[1].message == MESSAGE


def test_a_stream_that_ends_anywhere_too_early_is_torn() -> None:
    end = WHOLE.rindex(b"}") + 1
    for place in range(end):
        with pytest.raises(IncompleteStreamError, match="before it was complete") as torn:
            read(WHOLE[:place])
        assert torn.value.retryable, place
    for place in range(end, len(WHOLE) + 1):
        assert (read(WHOLE[:place]))[1].message == MESSAGE, place


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("pause_turn", StopReason.PAUSE),
        ("refusal", StopReason.REFUSAL),
        ("model_context_window_exceeded", StopReason.CONTEXT_EXCEEDED),
        ("something_new", StopReason.OTHER),
    ],
)
def test_why_a_reply_ended(said: str, reason: StopReason) -> None:
    _, reply = read(START + TEXT + ended(f'"{said}"'))
    assert (reply.stop_reason, reply.text) == (reason, "Grüß dich 👋")


def test_a_refusal_without_content_is_an_empty_reply() -> None:
    deltas, reply = read(START + PING + ended('"refusal"'))
    assert (deltas, reply.message.content, reply.stop_reason) == ([], (), StopReason.REFUSAL)


def test_text_that_stays_empty_makes_no_block() -> None:
    _, reply = read(START + opened(0, '{"type":"text","text":""}') + closed(0) + ended('"end_turn"'))
    assert reply.message.content == ()


def test_text_that_comes_with_its_beginning_is_kept() -> None:
    deltas, reply = read(START + opened(0, '{"type":"text","text":"Hi"}') + closed(0) + ended('"end_turn"'))
    assert (deltas, reply.text) == ([TextDelta("Hi")], "Hi")


def test_a_call_that_comes_whole_at_its_beginning() -> None:
    block = '{"type":"tool_use","id":"t","name":"read","input":{"path":"a"}}'
    deltas, reply = read(START + opened(0, block) + closed(0) + ended('"tool_use"'))
    assert deltas == [ToolCallDelta("t", "read", '{"path":"a"}')]
    assert reply.message.tool_calls == (ToolUseBlock("t", "read", {"path": "a"}),)


@pytest.mark.parametrize("text", ['{\\"path\\": ', "[1]", "nonsense"])
def test_arguments_that_are_no_object_are_kept_as_they_were_written(text: str) -> None:
    block = opened(0, '{"type":"tool_use","id":"t","name":"read","input":{}}')
    piece = delta(0, f'{{"type":"input_json_delta","partial_json":"{text}"}}')
    _, reply = read(START + block + piece + ended('"max_tokens"'))
    written = text.replace('\\"', '"')
    assert reply.message.tool_calls == (ToolUseBlock("t", "read", {}, invalid_input=written),)


def test_thoughts_that_are_hidden_come_back_as_they_were() -> None:
    hidden = opened(0, '{"type":"redacted_thinking","data":"EmwKAhgBEgy"}') + closed(0)
    _, reply = read(START + hidden + TEXT + ended('"end_turn"'))
    (block, _) = reply.message.content
    assert block == ThinkingBlock("", ProviderState("anthropic", "claude-sonnet-4-5", {"redacted": "EmwKAhgBEgy"}))
    body = Anthropic("claude-sonnet-4-5").render(Request([Message.user("?"), reply.message], MemoryStore()))
    content = msgspec.json.decode(body)["messages"][1]["content"]
    assert content[0] == {"type": "redacted_thinking", "data": "EmwKAhgBEgy"}


def test_a_thought_goes_back_with_its_signature_unchanged_and_in_its_place() -> None:
    _, reply = read(WHOLE)
    body = Anthropic("claude-sonnet-4-5").render(Request([Message.user("?"), reply.message], MemoryStore()))
    content = msgspec.json.decode(body)["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": "Hm, ü.", "signature": "c2ln"}
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]


def test_blocks_and_events_of_an_unknown_kind_are_passed_over() -> None:
    unknown = opened(0, '{"type":"hologram","beam":[1]}') + delta(0, '{"type":"beam_delta","beam":2}') + closed(0)
    event = b'event: weather\ndata: {"type":"weather","sky":"blue"}\n\nevent: weather\n\n: a comment\n\n'
    _, reply = read(START + unknown + event + TEXT + ended('"end_turn"'))
    assert reply.message.content == (TextBlock("Grüß dich 👋"),)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ('{"type":"overloaded_error","message":"Overloaded"}', UnavailableError, True),
        ('{"type":"api_error","message":"Internal server error"}', UnavailableError, True),
        ('{"type":"invalid_request_error","message":"messages: too long"}', ProviderError, False),
        ('"just words"', ProviderError, False),
        ("null", ProviderError, False),
    ],
)
def test_an_error_after_a_good_beginning(error: str, kind: type[ProviderError], retryable: bool) -> None:
    event = f'event: error\ndata: {{"type":"error","error":{error}}}\n\n'.encode()
    with pytest.raises(kind, match="Anthropic ended the stream with an error: ") as raised:
        read(START + TEXT + event + STOP)
    assert raised.value.retryable is retryable


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b'{"type":5}', b'{"index":' + b"[" * 100_000, b"5"])
def test_an_event_that_makes_no_sense_is_an_error_of_the_provider(data: bytes) -> None:
    with pytest.raises(ProviderError, match="cannot be decoded"):
        read(START + b"data: " + data + b"\n\n" + STOP)


def test_half_a_character_spoils_one_character_and_not_the_reply() -> None:
    pieces = [delta(1, f'{{"type":"text_delta","text":"{half}"}}') for half in ("a\\ud83d", "\\ude00b", "\\\\ud83d")]
    _, reply = read(START + opened(1, '{"type":"text","text":""}') + b"".join(pieces) + ended('"end_turn"'))
    assert reply.text == "a\ufffd\ufffdb\\ud83d"
    reply.text.encode()


def test_the_reply_is_there_with_its_last_event_and_what_follows_does_not_matter() -> None:
    parser = ReplyParser(Anthropic("claude-sonnet-4-5").incoming(), "Anthropic")
    assert isinstance(list(parser.feed(WHOLE))[-1], Reply)
    assert parser.ended
    assert [*parser.feed(b"data: nonsense\n\n"), *parser.finish()] == []
