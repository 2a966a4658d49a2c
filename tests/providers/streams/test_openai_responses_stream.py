"""OpenAI Responses: what is answered, cut up in every way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from outrider.conversation.messages import (
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.errors import (
    IncompleteStreamError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.base import Reply, Request, StopReason
from outrider.runtime.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from tests.lengths import only_long
from tests.providers.adapters.test_openai_responses import checked
from tests.reading import read_reply

MODEL = "gpt-5.6"


def events(*data: str) -> bytes:
    return "".join(f"data: {each}\n\n" for each in data).encode()


CREATED = '{"type":"response.created","sequence_number":0,"response":{"status":"in_progress","instructions":"x"}}'
COMPLETED = (
    '{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":100,'
    '"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":8},"output_tokens":50,'
    '"output_tokens_details":{"reasoning_tokens":30},"total_tokens":150}}}'
)
ADDED_MESSAGE = '{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","content":[]}}'
DONE_MESSAGE = (
    '{"type":"response.output_item.done","output_index":0,"item":{"id":"m","type":"message","status":"completed",'
    '"content":[{"type":"output_text","text":"Hi"}]}}'
)
DELTA = '{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}'

TEXT = (
    b"event: response.created\n"
    + events(CREATED, '{"type":"response.in_progress","response":{"status":"in_progress"}}')
    + b"event: response.output_item.added\r\n"
    + events(
        ADDED_MESSAGE,
        '{"type":"response.content_part.added","output_index":0,"part":{"type":"output_text","text":""}}',
        '{"type":"response.output_text.delta","output_index":0,"delta":"Grüß ","logprobs":[],"obfuscation":"a8Xk2"}',
        '{"type":"response.output_text.delta","output_index":0,"delta":"","obfuscation":"q"}',
        '{"type":"response.output_text.delta","output_index":0,"delta":null}',
        '{"type":"response.output_text.delta","output_index":0,"delta":"dich 😀","obfuscation":""}',
        '{"type":"response.output_text.done","output_index":0,"text":"Grüß dich 😀"}',
        '{"type":"response.output_item.done","output_index":0,"item":{"id":"m","type":"message","status":"completed",'
        '"content":[{"type":"output_text","text":"Grüß dich 😀","annotations":[]}],"role":"assistant"}}',
        COMPLETED,
    )
)

CALLS = events(
    CREATED,
    '{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],'
    '"encrypted_content":"half"}}',
    '{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"text":""}}',
    '{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Look"}',
    '{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1,"part":{"text":""}}',
    '{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"twice"}',
    '{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":'
    '[{"type":"summary_text","text":"Look"},{"type":"summary_text","text":"twice"}],"encrypted_content":"gAA="}}',
    '{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call",'
    '"call_id":"c1","name":"Read","arguments":""}}',
    '{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\\"path\\":","obfuscation":"z"}',
    '{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_2","type":"function_call",'
    '"call_id":"c2","name":"List","arguments":""}}',
    '{"type":"response.function_call_arguments.delta","output_index":1,"delta":"\\"ä\\"}"}',
    '{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\\"path\\":\\"ä\\"}"}',
    '{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_2","type":"function_call",'
    '"status":"completed","call_id":"c2","name":"List","arguments":""}}',
    '{"type":"response.output_item.done","output_index":1,"item":{"id":"fc_1","type":"function_call",'
    '"status":"completed","call_id":"c1","name":"Read","arguments":"{\\"path\\":\\"ä\\"}"}}',
    '{"type":"response.output_item.added","output_index":3,"item":{"id":"msg_1","type":"message","content":[]}}',
    '{"type":"response.output_text.delta","output_index":3,"delta":"On it."}',
    '{"type":"response.output_item.done","output_index":3,"item":{"id":"msg_1","type":"message","status":"completed",'
    '"phase":"commentary","content":[{"type":"output_text","text":"On it.","annotations":[]}]}}',
    COMPLETED,
)

REFUSAL = events(
    ADDED_MESSAGE,
    '{"type":"response.refusal.delta","output_index":0,"delta":"I can"}',
    '{"type":"response.refusal.delta","output_index":0,"delta":"not."}',
    '{"type":"response.output_item.done","output_index":0,"item":{"id":"m","type":"message","status":"completed",'
    '"content":[{"type":"refusal","refusal":"I cannot."}]}}',
    COMPLETED,
)

CUT_BY_LIMIT = events(
    ADDED_MESSAGE,
    DELTA,
    '{"type":"response.output_item.done","output_index":0,"item":{"id":"m","type":"message","status":"incomplete",'
    '"content":[{"type":"output_text","text":"Hi"}]}}',
    '{"type":"response.incomplete","response":{"status":"incomplete","output":[],'
    '"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":9,"output_tokens":1}}}',
)

# Items without an end, of which only the pieces are known.
CUT_BY_FILTER = events(
    '{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],'
    '"encrypted_content":"half"}}',
    '{"type":"response.reasoning_text.delta","output_index":0,"delta":"Hm"}',
    '{"type":"response.output_item.added","output_index":1,"item":{"id":"m","type":"message","content":[]}}',
    '{"type":"response.output_text.delta","output_index":1,"delta":"Once"}',
    '{"type":"response.output_item.added","output_index":2,"item":{"id":"fc","type":"function_call","call_id":"c1",'
    '"name":"Delete"}}',
    '{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"},"usage":null}}',
)

ODDITIES = (
    b": a comment\n\nevent: keepalive\ndata:   \n\n"
    + events(
        '{"type":"response.from_the_future","delta":{"a":[1]},"output_index":null,"item":7,"response":"x"}',
        '{"type":"keepalive","sequence_number":3}',
        ADDED_MESSAGE,
        '{"type":"response.output_item.added","output_index":1,"item":{"type":"web_search_call","content":"later"}}',
        DELTA,
        '{"type":"response.output_text.annotation.added","output_index":0,"annotation":{}}',
    )
    + b"event: response.output_item.done\r\ndata: "
    + DONE_MESSAGE.encode()
    + b"   \r\n\r\n"
    + events("[DONE]", COMPLETED, "[DONE]", "not read any more")
)

# A server that sends no pieces, only what is finished, and the last of it only at the very end.
WHOLE_ITEMS = events(
    DONE_MESSAGE,
    '{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"Read",'
    '"arguments":"{}"}}',
    '{"type":"response.completed","response":{"output":[{"id":"m","type":"message","content":[{"text":"Hi"}]},'
    '{"type":"function_call","call_id":"c1","name":"Read","arguments":"{}"},'
    '{"id":"m2","type":"message","content":[{"type":"output_text","text":"Bye"}]}]}}',
)

STREAMS = {
    "text": TEXT,
    "calls": CALLS,
    "refusal": REFUSAL,
    "limit": CUT_BY_LIMIT,
    "filter": CUT_BY_FILTER,
    "oddities": ODDITIES,
    "whole-items": WHOLE_ITEMS,
}
each_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())


async def _chunks(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def read(*chunks: bytes) -> tuple[list[Delta], Reply]:
    deltas: list[Delta] = []
    async for item in read_reply(OpenAIResponses(MODEL), _chunks(chunks)):
        if isinstance(item, Reply):
            return deltas, item
        deltas.append(item)
    raise AssertionError("a stream without a reply has to raise")


def own(data: object) -> ProviderState:
    return ProviderState("openai", MODEL, data)


async def test_text_comes_in_pieces_and_then_whole() -> None:
    deltas, reply = await read(TEXT)
    assert deltas == [TextDelta("Grüß "), TextDelta("dich 😀")]
    assert reply == Reply(
        Message.assistant("Grüß dich 😀"),
        StopReason.END,
        Usage(input_tokens=100, output_tokens=50, cached_tokens=64, cache_write_tokens=8, reasoning_tokens=30),
    )


async def test_reasoning_calls_and_text_after_calls_keep_their_order_and_state() -> None:
    deltas, reply = await read(CALLS)
    assert deltas == [
        ThinkingDelta("Look"),
        ThinkingDelta("\n\n"),
        ThinkingDelta("twice"),
        ToolCallDelta("c1", "Read", ""),
        ToolCallDelta("c1", "Read", '{"path":'),
        ToolCallDelta("c2", "List", ""),
        ToolCallDelta("c1", "Read", '"ä"}'),
        TextDelta("On it."),
    ]
    summary = [{"type": "summary_text", "text": "Look"}, {"type": "summary_text", "text": "twice"}]
    whole = {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "gAA="}
    assert reply.message == Message.assistant(
        ThinkingBlock("Look\n\ntwice", own(whole)),
        ToolUseBlock("c1", "Read", {"path": "ä"}, state=own({"id": "fc_1", "status": "completed", "follows": "rs_1"})),
        ToolUseBlock("c2", "List", {}, state=own({"id": "fc_2", "status": "completed"})),
        TextBlock("On it.", own({"phase": "commentary", "id": "msg_1", "status": "completed"})),
    )
    assert reply.stop_reason is StopReason.TOOL_USE


async def test_a_reply_goes_back_as_the_items_that_came() -> None:
    _, reply = await read(CALLS)
    results = [ToolResultBlock(call.id, (TextBlock("ok"),)) for call in reply.message.tool_calls]
    messages = (Message.user("go"), reply.message, Message.user(*results))
    items = checked(OpenAIResponses(MODEL).render(Request(messages, MemoryStore())))["input"]
    assert [(item["type"], item.get("id")) for item in items[1:5]] == [
        ("reasoning", "rs_1"),
        ("function_call", "fc_1"),
        ("function_call", "fc_2"),
        ("message", "msg_1"),
    ]
    assert items[4]["phase"] == "commentary"


async def test_a_refusal_keeps_its_text() -> None:
    deltas, reply = await read(REFUSAL)
    assert deltas == [TextDelta("I can"), TextDelta("not.")]
    assert (reply.text, reply.stop_reason) == ("I cannot.", StopReason.REFUSAL)


async def test_a_reply_at_the_token_limit_says_so() -> None:
    _, reply = await read(CUT_BY_LIMIT)
    assert (reply.text, reply.stop_reason) == ("Hi", StopReason.MAX_TOKENS)
    assert reply.usage == Usage(input_tokens=9, output_tokens=1)


async def test_what_a_filter_cut_off_is_kept_as_shown_and_its_call_cannot_run() -> None:
    _, reply = await read(CUT_BY_FILTER)
    assert reply.stop_reason is StopReason.CONTENT_FILTER
    assert reply.message.content[0] == ThinkingBlock("Hm")
    assert reply.text == "Once"
    assert reply.message.tool_calls[0].invalid_input == ""


async def test_a_finished_item_of_a_call_that_is_incomplete_cannot_run() -> None:
    stream = events(
        '{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","status":"incomplete",'
        '"call_id":"c1","name":"Delete","arguments":"{}"}}',
        '{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}',
    )
    _, reply = await read(stream)
    assert reply.message.tool_calls[0].invalid_input == "{}"


async def test_a_reason_that_is_not_known_is_another_reason() -> None:
    _, reply = await read(events(DONE_MESSAGE, '{"type":"response.incomplete","response":{}}'))
    assert (reply.text, reply.stop_reason) == ("Hi", StopReason.OTHER)


async def test_arguments_that_are_not_json_are_kept_as_written() -> None:
    item = '{"type":"function_call","call_id":"c1","name":"Read","arguments":"{\\"path\\": oops"}'
    _, reply = await read(
        events(f'{{"type":"response.output_item.done","output_index":0,"item":{item}}}', COMPLETED),
    )
    assert reply.message.tool_calls[0].invalid_input == '{"path": oops'


async def test_what_is_not_known_is_passed_over() -> None:
    deltas, reply = await read(ODDITIES)
    assert deltas == [TextDelta("Hi")]
    assert reply.message == Message.assistant("Hi")


async def test_what_did_not_come_in_pieces_is_shown_when_it_is_finished() -> None:
    deltas, reply = await read(WHOLE_ITEMS)
    assert deltas == [TextDelta("Hi"), ToolCallDelta("c1", "Read", "{}"), TextDelta("Bye")]
    assert [type(block) for block in reply.message.content] == [TextBlock, ToolUseBlock, TextBlock]


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(
            '{"type":"reasoning","id":"rs"},{"id":"m","type":"message","content":[{"text":"Hi"}]}', id="shifted"
        ),
        pytest.param('{"id":"other","type":"message","content":[{"text":"Hi"}]}', id="under-another-id"),
    ],
)
async def test_an_item_that_is_repeated_at_the_end_counts_once(output: str) -> None:
    end = '{"type":"response.completed","response":{"output":[%s]}}' % output  # noqa: UP031
    _, reply = await read(events(DONE_MESSAGE, end))
    assert reply.message == Message.assistant("Hi")


async def test_reasoning_before_an_item_that_is_not_kept_cannot_be_replayed() -> None:
    done = '{"type":"response.output_item.done","output_index":%d,"item":%s}'
    reasoning = '{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"x"}'
    stream = events(
        done % (0, reasoning),
        done % (1, '{"id":"ws_1","type":"web_search_call","status":"completed","action":{}}'),
        done % (2, reasoning.replace("rs_1", "rs_2")),
        done % (3, '{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"Yes."}]}'),
        COMPLETED,
    )
    _, reply = await read(stream)
    messages = (Message.user("a"), reply.message, Message.user("b"))
    items = checked(OpenAIResponses(MODEL).render(Request(messages, MemoryStore())))["input"]
    assert [item.get("id") for item in items] == [None, None, None, "rs_2", "msg_1", None]
    assert "web_search" in items[1]["content"], "a search without an action goes back as text"


# Cut up and cut off


each_cut = pytest.mark.parametrize("every", [11, *only_long(1)])


@each_stream
@each_cut
async def test_a_stream_may_be_cut_anywhere(stream: bytes, every: int) -> None:
    expected = await read(stream)
    assert await read(*(bytes([byte]) for byte in stream)) == expected
    for cut in range(0, len(stream), every):
        assert await read(stream[:cut], stream[cut:]) == expected


@each_stream
async def test_line_ends_of_every_kind_mean_the_same(stream: bytes) -> None:
    expected = await read(stream)
    plain = stream.replace(b"\r\n", b"\n")
    for end in (b"\r\n", b"\r"):
        other = plain.replace(b"\n", end)
        assert await read(other) == expected
        assert await read(*(bytes([byte]) for byte in other)) == expected


@each_stream
@each_cut
async def test_a_stream_that_ends_too_early_is_torn_and_never_half_a_reply(stream: bytes, every: int) -> None:
    expected = await read(stream)
    last = max(stream.find(kind) for kind in (b'"response.completed"', b'"response.incomplete"'))
    whole = stream.rindex(b"}", 0, stream.index(b"\n", last)) + 1
    for cut in [*range(0, whole, every), whole - 1]:
        with pytest.raises(IncompleteStreamError) as torn:
            await read(stream[:cut])
        assert torn.value.retryable
    assert await read(stream[:whole]) == expected


async def test_a_reply_that_is_said_to_be_complete_but_lacks_an_end_is_torn() -> None:
    with pytest.raises(IncompleteStreamError, match="an unfinished item") as torn:
        await read(events(ADDED_MESSAGE, DELTA, COMPLETED))
    assert torn.value.retryable


# Errors after a good beginning


def _failed(error: str) -> str:
    return f'{{"type":"response.failed","response":{{"status":"failed","error":{error}}}}}'


@pytest.mark.parametrize(
    "error",
    [
        pytest.param('{"type":"error","error":%s,"sequence_number":2}', id="nested"),
        pytest.param('{"error":%s}', id="without-a-type"),
        pytest.param('{"type":"response.failed","response":{"status":"failed","error":%s}}', id="failed"),
    ],
)
@pytest.mark.parametrize(
    ("said", "kind", "retryable"),
    [
        ('{"type":"server_error","code":null,"message":"M"}', UnavailableError, True),
        ('{"code":"server_error","message":"M"}', UnavailableError, True),
        ('{"type":"tokens","code":"rate_limit_exceeded","message":"M"}', RateLimitedError, True),
        ('{"type":"too_many_requests","code":"too_many_requests","message":"M"}', RateLimitedError, True),
        ('{"type":"insufficient_quota","code":"insufficient_quota","message":"M"}', RateLimitedError, False),
        ('{"code":"invalid_prompt","message":"M"}', RequestRefusedError, False),
        ('{"type":"invalid_request_error","code":"image_too_large","message":"M"}', RequestRefusedError, False),
        ('{"code":"bio_policy","message":"M"}', RequestRefusedError, False),
        ('{"code":"misalignment_policy_violation","message":"M"}', RequestRefusedError, False),
        ('{"code":"something_new","message":"M"}', ProviderError, False),
        ('{"code":{"a":1},"type":7,"message":"M"}', ProviderError, False),
    ],
)
async def test_an_error_in_the_stream_is_of_its_kind(
    error: str, said: str, kind: type[ProviderError], retryable: bool
) -> None:
    with pytest.raises(ProviderError, match="M") as raised:
        await read(events(CREATED, ADDED_MESSAGE, DELTA, error % said))
    assert (type(raised.value), raised.value.retryable) == (kind, retryable)


async def test_a_flat_error_is_understood_too() -> None:
    flat = '{"type":"error","code":"rate_limit_exceeded","message":"Slow down","param":null,"sequence_number":1}'
    with pytest.raises(RateLimitedError, match="Slow down") as raised:
        await read(events(CREATED, flat, _failed("null")))
    assert raised.value.retryable


async def test_a_conversation_that_is_too_long_is_told_so() -> None:
    said = '{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}'
    with pytest.raises(RequestRefusedError, match=r"conversation is too long for gpt-5\.6") as raised:
        await read(events(CREATED, _failed(said)))
    assert not raised.value.retryable


@pytest.mark.parametrize("error", ['"boom"', "null", "{}", "[]", '{"code":[],"message":{}}'])
async def test_an_error_of_any_shape_is_an_error(error: str) -> None:
    with pytest.raises(ProviderError):
        await read(events(_failed(error)))
    with pytest.raises(ProviderError):
        await read(events(f'{{"type":"error","error":{error}}}'))


@pytest.mark.parametrize(
    "event",
    [
        "{",
        "<html>",
    ],
)
async def test_an_event_that_is_not_json_tears_the_reply(event: str) -> None:
    with pytest.raises(IncompleteStreamError, match="cannot be decoded"):
        await read(events(event, COMPLETED))


@pytest.mark.parametrize(
    "event",
    [
        "[]",
        '{"type":5}',
        '{"type":"response.output_text.delta","delta":{"text":"x"}}',
        '{"type":"response.output_item.done","output_index":1,"item":null}',
        '{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":"text"}}',
        '{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"text":{"a":1}}]}}',
        '{"type":"response.completed","response":{"output":{}}}',
    ],
)
async def test_an_event_of_another_form_does_not_end_the_reply(event: str) -> None:
    _, reply = await read(events(DONE_MESSAGE, event, COMPLETED))
    assert reply.text == "Hi"


async def test_usage_that_makes_no_sense_does_not_cost_the_reply() -> None:
    usage = '{"input_tokens":"many","input_tokens_details":[],"output_tokens":null}'
    _, reply = await read(events(DONE_MESSAGE, f'{{"type":"response.completed","response":{{"usage":{usage}}}}}'))
    assert (reply.text, reply.usage) == ("Hi", Usage())
