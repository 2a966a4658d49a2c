"""What each API really sends, as exchanges: the events of a reply, what we make of them, and the request after it.

One table for each API. Recordings of other programs with these APIs showed the facts; the words, ids and signatures are
ours. Each exchange is read in several cuts, stored, sent back with the next prompt, and played to an agent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeAlias

import msgspec
import pytest

from outrider import Agent, dumps, loads, tool
from outrider.conversation.history import repair
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import MemoryStore
from outrider.errors import (
    IncompleteStreamError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
from outrider.providers.base import Reply, Request, StopReason
from outrider.providers.deltas import TextDelta
from outrider.providers.streams.stream import ReplyParser, merge_deltas
from outrider.tools.server_tool import ServerTool, code_execution
from tests.adapters import ONE_EACH, Case
from tests.oracles import problems, type_errors
from tests.providers.canned import LOOK, CannedTransport, delta
from tests.streams import Answer, stream_of

ANTHROPIC, RESPONSES, CHAT, GEMINI = ONE_EACH
DEEPSEEK, OPENROUTER = Case("deepseek", "deepseek-v4-flash"), Case("openrouter", "openai/gpt-5.2")
OLDER_GEMINI = Case("gemini", "gemini-2.5-pro")
END, CALLS, CUT = StopReason.END, StopReason.TOOL_USE, StopReason.MAX_TOKENS
Json: TypeAlias = dict[str, Any]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAFElEQVR4nGM8ISfHAANMDEgANwcANHYBDK9qubUAAAAASUVORK5CYII="


class Exchange(msgspec.Struct, frozen=True):
    """A reply as its API sends it, and what must come of it."""

    events: list[Any]
    blocks: list[tuple[Any, ...]]
    """The reply, each block in the short form of `short`."""
    back: list[Any]
    """What the next request has of the reply, as the API takes it."""
    usage: tuple[int, int, int] = (0, 0, 0)
    """Billed input and output, and the size of the conversation."""
    stop: StopReason = END
    detail: str = ""
    case: Case | None = None
    newer: bool = False
    """Whether the reply has parts that the vendor's own types do not know."""
    server_tools: tuple[ServerTool, ...] = ()
    container: str | None = None
    """The container that the next request names."""


class Failure(msgspec.Struct, frozen=True):
    """A response that is no reply."""

    events: list[Any]
    error: type[ProviderError]
    words: str
    retryable: bool = False


def short(block: Block) -> tuple[Any, ...]:
    """A block as the tables have it."""
    match block:
        case TextBlock(text=text, citations=sources):
            return ("text", text, *(source.url or source.title for source in sources))
        case ThinkingBlock(thinking=thinking):
            return "thinking", thinking
        case ToolUseBlock(name=name, input=given, invalid_input=None):
            return "call", name, given
        case ToolUseBlock(name=name, invalid_input=text):
            return "broken call", name, text
        case ServerToolUseBlock(name=name, input=given):
            return "ran", name, given
        case ServerToolResultBlock(text=text, is_error=failed):
            return "failed" if failed else "found", text
        case RawBlock(kind=kind):
            return "raw", kind
        case AttachmentBlock(mime_type=kind):
            return "file", kind
    raise TypeError(block.type)


# The driver


def encoded(api: str, events: list[Any]) -> list[bytes]:
    """The events as bytes. One that is bytes is sent as it is."""
    found = []
    for event in events:
        named = api in ("anthropic", "openai") and isinstance(event, dict) and "type" in event
        name = b"event: %b\n" % event["type"].encode() if named else b""
        found.append(event if isinstance(event, bytes) else b"%bdata: %b\n\n" % (name, msgspec.json.encode(event)))
    return found


def cuts(pieces: list[bytes]) -> Iterator[list[bytes]]:
    """All events in one chunk, one a chunk, and small chunks with other line ends and with comments in between."""
    yield [b"".join(pieces)]
    yield pieces
    data = b": keep-alive\n\n".join(pieces).replace(b"\n", b"\r\n")
    yield [data[place : place + 9] for place in range(0, len(data), 9)]


def read(case: Case, chunks: list[bytes], store: MemoryStore) -> tuple[str, Reply]:
    """The text as it was shown, and the reply."""
    parser = ReplyParser(case.adapter().incoming(store=store), "it")
    items = [item for chunk in chunks for item in merge_deltas(parser.feed(chunk))] + merge_deltas(parser.finish())
    assert isinstance(items[-1], Reply)
    return "".join(item.text for item in items if isinstance(item, TextDelta)), items[-1]


def next_request(case: Case, exchange: Exchange, reply: Reply, store: MemoryStore) -> Json:
    """The request after the reply, with results for its calls; both judges have looked at it."""
    results = [ToolResultBlock(call.id, (TextBlock("seen"),)) for call in reply.message.tool_calls]
    messages = repair([Message.user("Hello"), reply.message, Message.user(*results, "Go on")])
    request = Request(messages, store, tools=(LOOK,), server_tools=exchange.server_tools)
    body: Json = msgspec.json.decode(case.adapter().render(request))
    if not exchange.newer:
        assert type_errors(case.api, body) == []
        assert problems(case, body, messages, store) == []
    return body


def of_the_model(api: str, body: Json) -> list[Any]:
    """The parts of a request that the model has said, without the marks for the cache."""
    if api == "openai":
        given = ("function_call_output", "custom_tool_call_output")
        return [item for item in body["input"] if item.get("role") != "user" and item["type"] not in given]
    if api == "openai-chat":
        return [message for message in body["messages"] if message["role"] == "assistant"]
    messages = body["messages" if api == "anthropic" else "contents"]
    said = [each for each in messages if each["role"] in ("assistant", "model")]
    parts = [part for each in said for part in each["content" if api == "anthropic" else "parts"]]
    return [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]


def exchanges() -> Iterator[Any]:
    for usual, table in ((ANTHROPIC, ANTHROPICS), (RESPONSES, RESPONSE), (CHAT, CHATS), (GEMINI, GEMINIS)):
        for name, exchange in table.items():
            yield pytest.param(exchange.case or usual, exchange, id=f"{usual.api}: {name}")


def failures() -> Iterator[Any]:
    for case, table in FAILURES.items():
        for name, failure in table.items():
            yield pytest.param(ONE_EACH[case], failure, id=f"{ONE_EACH[case].api}: {name}")


# Anthropic Messages


def start(index: int, kind: str, **fields: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def piece(index: int, kind: str, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", **fields}}


def stop(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


def words(index: int, *texts: str) -> list[Json]:
    return [start(index, "text", text=""), *(piece(index, "text", text=text) for text in texts), stop(index)]


def thought(index: int, text: str, signature: str) -> list[Json]:
    begin = start(index, "thinking", thinking="", signature="")
    return [begin, piece(index, "thinking", thinking=text), piece(index, "signature", signature=signature), stop(index)]


def begin(**usage: Any) -> Json:
    empty = {"id": "msg_a", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    return {"type": "message_start", "message": empty | {"stop_sequence": None, "usage": usage}}


def ending(reason: str, usage: Json | None = None, **fields: Any) -> list[Json]:
    said = {"stop_reason": reason, "stop_sequence": None, **fields}
    return [{"type": "message_delta", "delta": said, "usage": usage}, {"type": "message_stop"}]


def call(index: int, name: str, *pieces: str, kind: str = "tool_use", **fields: Any) -> list[Json]:
    given = {"id": f"toolu_{index}", "name": name, "input": {}, **fields}
    return [
        start(index, kind, **given),
        *(piece(index, "input_json", partial_json=each) for each in pieces),
        stop(index),
    ]


def use(index: int, given: Json, **fields: Any) -> Json:
    return {"type": "tool_use", "id": f"toolu_{index}", "name": "look", "input": given, **fields}


def signed(text: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


HI = {"type": "text", "text": "Hi there"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "bridges"}}
PAGE = {"type": "web_search_result", "url": "https://b.test", "title": "B", "encrypted_content": "cGFnZQ=="}
PAGES = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [PAGE | {"page_age": None}]}
NO_PAGES = PAGES | {"content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}
SOURCE = {"type": "web_search_result_location", "url": "https://b.test", "title": "B", "encrypted_index": "aQ=="}
QUOTE = SOURCE | {"cited_text": "A bridge."}
BASH = {"type": "server_tool_use", "id": "srv_2", "name": "bash_code_execution", "input": {"command": "date"}}
PRINTED = {"type": "bash_code_execution_result", "stdout": "noon\n", "stderr": "", "return_code": 0, "content": []}
RAN = {"type": "bash_code_execution_tool_result", "tool_use_id": "srv_2", "content": PRINTED}
FIND = {"type": "server_tool_use", "id": "srv_3", "name": "tool_search_tool_bm25", "input": {"query": "look"}}
TOOLS_FOUND = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srv_3",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "look"}],
    },
}
BOX = {"id": "box_1", "expires_at": "2999-01-01T00:00:00Z"}
TOTAL = {"input_tokens": 9000, "output_tokens": 50, "server_tool_use": {"web_search_requests": 1}}


def ran(index: int, block: Json) -> list[Json]:
    """A call of a server tool as it streams: its arguments come in pieces."""
    text = msgspec.json.encode(block["input"]).decode()
    pieces = [piece(index, "input_json", partial_json=each) for each in ("", text[:4], text[4:])]
    return [whole(index, block | {"input": {}})[0], *pieces, stop(index)]


def whole(index: int, block: Json) -> list[Json]:
    return [start(index, **{"kind": "", **block}), stop(index)]


ANTHROPICS: dict[str, Exchange] = {
    "pings and empty deltas; usage at the start and at the end": Exchange(
        [
            begin(input_tokens=7, output_tokens=1, cache_read_input_tokens=20, cache_creation_input_tokens=None),
            {"type": "ping"},
            *words(0, "", "Hi", "", " there"),
            {"type": "ping"},
            *ending("end_turn", {"output_tokens": 4}),
        ],
        [("text", "Hi there")],
        [HI],
        (27, 4, 31),
    ),
    "no usage at all, and an empty text before the real one": Exchange(
        [
            {"type": "message_start", "message": {"content": None, "usage": None}},
            *words(0),
            *words(1, "Hi there"),
            *ending("stop_sequence"),
        ],
        [("text", "Hi there")],
        [HI],
    ),
    "calls whose pieces interleave": Exchange(
        [
            begin(input_tokens=5),
            *words(0, "Hi there"),
            start(1, "tool_use", id="toolu_1", name="look", input={}),
            start(2, "tool_use", id="toolu_2", name="look", input={}),
            piece(2, "input_json", partial_json='{"path":'),
            piece(1, "input_json", partial_json='{"path": "a'),
            piece(2, "input_json", partial_json='"b"}'),
            piece(1, "input_json", partial_json='"}'),
            *(stop(2), stop(1), *ending("tool_use", {"output_tokens": 9})),
        ],
        [("text", "Hi there"), ("call", "look", {"path": "a"}), ("call", "look", {"path": "b"})],
        [HI, use(1, {"path": "a"}), use(2, {"path": "b"})],
        (5, 9, 14),
        CALLS,
    ),
    "arguments that are empty, an empty object, and whole at the start": Exchange(
        [
            begin(),
            *call(0, "look", ""),
            *call(1, "look", "{}"),
            *call(2, "look", input={"path": "c"}),
            *ending("tool_use"),
        ],
        [("call", "look", {}), ("call", "look", {}), ("call", "look", {"path": "c"})],
        [use(0, {}), use(1, {}), use(2, {"path": "c"})],
        stop=CALLS,
    ),
    "thinking with a signature, hidden thinking, and thinking between calls": Exchange(
        [
            *(begin(), *thought(0, "Well", "c2lnLTA="), *whole(1, {"type": "redacted_thinking", "data": "aGlkZGVu"})),
            *(*call(2, "look", "{}"), *thought(3, "And", "c2lnLTM="), *call(4, "look", "{}"), *ending("tool_use")),
        ],
        [("thinking", "Well"), ("thinking", ""), ("call", "look", {}), ("thinking", "And"), ("call", "look", {})],
        [
            signed("Well", "c2lnLTA="),
            {"type": "redacted_thinking", "data": "aGlkZGVu"},
            use(2, {}),
            signed("And", "c2lnLTM="),
            use(4, {}),
        ],
        stop=CALLS,
    ),
    "thinking without a signature is not sent back; an empty one with a signature is": Exchange(
        [
            *(begin(), start(0, "thinking", thinking=""), piece(0, "thinking", thinking="Hm"), stop(0)),
            *(start(1, "thinking", thinking="", signature=""), piece(1, "signature", signature="c2ln"), stop(1)),
            *(*words(2, "Hi there"), *ending("end_turn")),
        ],
        [("thinking", "Hm"), ("thinking", ""), ("text", "Hi there")],
        [signed("", "c2ln"), HI],
    ),
    "a search with results and a cited text": Exchange(
        [
            *(begin(input_tokens=100, output_tokens=1), *ran(0, SEARCH), *whole(1, PAGES), *words(2, "Hi there")),
            *(start(3, "text", text="", citations=[]), piece(3, "citations", citation=QUOTE)),
            *(piece(3, "text", text="A bridge"), stop(3), *ending("end_turn", TOTAL)),
        ],
        [
            ("ran", "web_search", {"query": "bridges"}),
            ("found", "- [B](https://b.test)"),
            ("text", "Hi there"),
            ("text", "A bridge", "https://b.test"),
        ],
        [SEARCH, PAGES, HI, {"type": "text", "text": "A bridge", "citations": [QUOTE]}],
        (9000, 50, 197),
    ),
    "a search that failed": Exchange(
        [begin(input_tokens=10), *ran(0, SEARCH), *whole(1, NO_PAGES), *words(2, "Hi there"), *ending("end_turn")],
        [("ran", "web_search", {"query": "bridges"}), ("failed", "error: max_uses_exceeded"), ("text", "Hi there")],
        [SEARCH, NO_PAGES, HI],
        (10, 0, 10),
    ),
    "code in a container, which the next request names": Exchange(
        [begin(), *ran(0, BASH), *whole(1, RAN), *words(2, "Hi there"), *ending("end_turn", container=BOX)],
        [("ran", "bash_code_execution", {"command": "date"}), ("found", "noon\n"), ("text", "Hi there")],
        [BASH, RAN, HI],
        server_tools=(code_execution,),
        container="box_1",
    ),
    "a search for tools, and a call of the one it found": Exchange(
        [begin(), *ran(0, FIND), *whole(1, TOOLS_FOUND), *call(2, "look", "{}"), *ending("tool_use")],
        [("ran", "tool_search", {"query": "look"}), ("found", "- look"), ("call", "look", {})],
        [FIND, TOOLS_FOUND, use(2, {})],
        stop=CALLS,
    ),
    "a turn that pauses during a search": Exchange(
        [begin(input_tokens=10), *words(0, "Hi there"), *ran(1, SEARCH), *ending("pause_turn", {"output_tokens": 5})],
        [("text", "Hi there"), ("ran", "web_search", {"query": "bridges"})],
        [HI, SEARCH],
        (10, 5, 15),
        StopReason.PAUSE,
    ),
    "a refusal with a category": Exchange(
        [
            begin(input_tokens=3),
            *words(0, "Hi there"),
            *ending("refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": None}),
        ],
        [("text", "Hi there")],
        [HI],
        (3, 0, 3),
        StopReason.REFUSAL,
        "cyber",
    ),
    "the end of the tokens in the middle of a call": Exchange(
        [begin(), *words(0, "Hi there"), *call(1, "look", '{"path": "sr')[:-1], *ending("max_tokens")],
        [("text", "Hi there"), ("broken call", "look", '{"path": "sr')],
        [HI, use(1, {})],
        stop=CUT,
    ),
    "an unknown event, block, delta and stop reason": Exchange(
        [
            *(begin(), {"type": "weather", "delta": 3}, start(0, "sketch", lines=[1])),
            *(piece(0, "stroke", lines=[2]), stop(0), *words(1, "Hi there"), piece(1, "glow", level=None)),
            *ending("of_next_year"),
        ],
        [("raw", "sketch"), ("text", "Hi there")],
        [{"type": "sketch", "lines": [1, 2]}, HI],
        stop=StopReason.OTHER,
        detail="of_next_year",
        newer=True,
    ),
    "a call by a program keeps its caller": Exchange(
        [begin(), *call(0, "look", "{}", caller={"type": "direct"}), *ending("tool_use")],
        [("call", "look", {})],
        [use(0, {}, caller={"type": "direct"})],
        stop=CALLS,
    ),
    "a server that does not stream": Exchange(
        [
            msgspec.json.encode(
                begin()["message"]
                | {"content": [HI, use(1, {"path": "a"})], "stop_reason": "tool_use", "usage": {"input_tokens": 2}}
            )
        ],
        [("text", "Hi there"), ("call", "look", {"path": "a"})],
        [HI, use(1, {"path": "a"})],
        (2, 0, 2),
        CALLS,
    ),
}


# OpenAI Responses


def added(index: int, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def grows(index: int, kind: str, text: str, **fields: Any) -> Json:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **fields}


def responded(status: str = "completed", usage: Json | None = None, **fields: Any) -> Json:
    said = {"id": "resp_a", "object": "response", "status": status, "output": [], "usage": usage, "error": None}
    return {"type": f"response.{status}", "response": said | {"incomplete_details": None} | fields}


def message(text: str, item_id: str = "msg_a", **fields: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], **fields}
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": [part]}


def function(item_id: str, arguments: str = "{}", **fields: Any) -> Json:
    named = {"type": "function_call", "id": f"fc_{item_id}", "call_id": f"call_{item_id}", "name": "look"}
    return named | {"arguments": arguments, "status": "completed", **fields}


def plainly(item: Json) -> Json:
    """A call without reasoning before it goes back without the id of its item."""
    return {name: value for name, value in item.items() if name not in ("id", "status")}


def reasoning(item_id: str, *summary: str) -> Json:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": item_id, "summary": parts, "encrypted_content": "bG9ja2Vk"}


SAID = {"type": "message", "role": "assistant", "content": "Hi there"}
CREATED = {"type": "response.created", "response": {"id": "resp_a", "status": "in_progress", "output": []}}
COUNTS = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 10},
    "output_tokens": 6,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 36,
}
NOTE = {"type": "url_citation", "url": "https://b.test", "title": "B", "start_index": 3, "end_index": 8}
LOOKED_UP = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "bridges", "sources": [{"type": "url", "url": "https://b.test"}]},
}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "1+1",
    "container_id": "box_1",
    "outputs": [{"type": "logs", "logs": "2"}],
}
MCP = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": "ok"}
PAINTED = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}
TYPED = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_ct", "name": "look", "input": "a b"}
SOUGHT: Json = {"type": "tool_search_call", "id": "ts_1", "call_id": None, "status": "completed", "execution": "server"}
SOUGHT |= {"arguments": {"paths": ["files"]}}
LOADED: Json = {
    "type": "tool_search_output",
    "id": "to_1",
    "call_id": None,
    "status": "completed",
    "execution": "server",
}
LOADED |= {"tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}]}

RESPONSE: dict[str, Exchange] = {
    "text in pieces with padding, and usage at the end": Exchange(
        [
            *(CREATED, added(0, message("") | {"content": []}), grows(0, "output_text", "Hi", obfuscation="xyz")),
            *(
                grows(0, "output_text", ""),
                grows(0, "output_text", " there", logprobs=[]),
                done(0, message("Hi there")),
            ),
            responded(usage=COUNTS, output=[message("Hi there")]),
        ],
        [("text", "Hi there")],
        [SAID],
        (30, 6, 36),
    ),
    "no deltas, no usage, and nulls": Exchange(
        [
            done(0, message("Hi there", annotations=None, logprobs=None) | {"phase": None}),
            responded(output=None),
        ],
        [("text", "Hi there")],
        [SAID],
    ),
    "only the last event has the items": Exchange(
        [CREATED, responded(output=[message("Hi there"), function("1", '{"path": "a"}')], usage=COUNTS)],
        [("text", "Hi there"), ("call", "look", {"path": "a"})],
        [SAID, plainly(function("1", '{"path":"a"}'))],
        (30, 6, 36),
        CALLS,
    ),
    "parallel calls that interleave, one with empty arguments": Exchange(
        [
            *(CREATED, added(0, function("1", "")), added(1, function("2", ""))),
            grows(1, "function_call_arguments", '{"path":'),
            grows(0, "function_call_arguments", ""),
            grows(1, "function_call_arguments", '"b"}'),
            *(done(1, function("2", '{"path":"b"}')), done(0, function("1", "")), responded()),
        ],
        [("call", "look", {}), ("call", "look", {"path": "b"})],
        [plainly(function("1")), plainly(function("2", '{"path":"b"}'))],
        stop=CALLS,
    ),
    "encrypted reasoning with two summaries before a call": Exchange(
        [
            *(CREATED, added(0, reasoning("rs_1")), grows(0, "reasoning_summary_text", "One", summary_index=0)),
            {
                "type": "response.reasoning_summary_part.added",
                "output_index": 0,
                "summary_index": 1,
                "part": {"type": "summary_text", "text": ""},
            },
            grows(0, "reasoning_summary_text", "Two", summary_index=1),
            *(done(0, reasoning("rs_1", "One", "Two")), done(1, function("1")), responded(usage=COUNTS)),
        ],
        [("thinking", "One\n\nTwo"), ("call", "look", {})],
        [reasoning("rs_1", "One", "Two"), function("1")],
        (30, 6, 36),
        CALLS,
    ),
    "reasoning again after a message": Exchange(
        [
            *(done(0, reasoning("rs_1")), done(1, message("Hi there", phase=None) | {"phase": "commentary"})),
            *(done(2, reasoning("rs_2", "More")), done(3, function("1")), responded()),
        ],
        [("thinking", ""), ("text", "Hi there"), ("thinking", "More"), ("call", "look", {})],
        [
            reasoning("rs_1"),
            message("Hi there") | {"phase": "commentary"},
            reasoning("rs_2", "More"),
            function("1"),
        ],
        stop=CALLS,
    ),
    "reasoning that is not encrypted is not sent back": Exchange(
        [done(0, reasoning("rs_1", "Hm") | {"encrypted_content": None}), done(1, message("Hi there")), responded()],
        [("thinking", "Hm"), ("text", "Hi there")],
        [SAID],
    ),
    "a search with sources, and a text that cites": Exchange(
        [
            *(done(0, reasoning("rs_1")), done(1, LOOKED_UP), grows(2, "output_text", "Hi there")),
            *(done(2, message("Hi there", annotations=[NOTE])), responded(usage=COUNTS)),
        ],
        [
            ("thinking", ""),
            ("ran", "web_search", {"query": "bridges"}),
            ("found", "- [https://b.test](https://b.test)"),
            ("text", "Hi there", "https://b.test"),
        ],
        [reasoning("rs_1"), LOOKED_UP, message("Hi there", annotations=[NOTE])],
        (30, 6, 0),
    ),
    "code in a container": Exchange(
        [done(0, CODE), done(1, message("Hi there")), responded(usage=COUNTS)],
        [("ran", "code_execution", {"code": "1+1"}), ("found", "2"), ("text", "Hi there")],
        [CODE, SAID],
        (30, 6, 0),
    ),
    "a search for tools": Exchange(
        [done(0, SOUGHT), done(1, LOADED), done(2, function("1")), responded()],
        [("ran", "tool_search", {"paths": ["files"]}), ("found", "- look"), ("call", "look", {})],
        [SOUGHT, LOADED, plainly(function("1"))],
        stop=CALLS,
    ),
    "a picture that the model made": Exchange(
        [
            *(added(0, PAINTED | {"result": None, "status": "in_progress"}), done(0, PAINTED)),
            *(done(1, message("Hi there")), responded(usage=COUNTS)),
        ],
        [("file", "image/png"), ("text", "Hi there")],
        [PAINTED, SAID],
        (30, 6, 0),
    ),
    "a call of a server that the API knows": Exchange(
        [
            *(added(0, MCP | {"output": None}), {"type": "response.mcp_call.in_progress", "output_index": 0}),
            *(grows(0, "mcp_call_arguments", "{}"), done(0, MCP), done(1, message("Hi there")), responded()),
        ],
        [("raw", "mcp_call"), ("text", "Hi there")],
        [MCP, SAID],
        newer=True,
    ),
    "a custom call": Exchange(
        [added(0, TYPED | {"input": ""}), grows(0, "custom_tool_call_input", "a b"), done(0, TYPED), responded()],
        [("call", "look", {"input": "a b"})],
        [{name: value for name, value in TYPED.items() if name != "id"}],
        stop=CALLS,
        newer=True,
    ),
    "a refusal": Exchange(
        [
            grows(0, "refusal", "Hi there"),
            done(0, message("") | {"content": [{"type": "refusal", "refusal": "Hi there"}]}),
            responded(),
        ],
        [("text", "Hi there")],
        [SAID],
        stop=StopReason.REFUSAL,
    ),
    "the end of the tokens in the middle of a call": Exchange(
        [
            *(done(0, message("Hi there")), added(1, function("1", ""))),
            grows(1, "function_call_arguments", '{"path": "sr'),
            responded("incomplete", COUNTS, incomplete_details={"reason": "max_output_tokens"}),
        ],
        [("text", "Hi there"), ("broken call", "look", '{"path": "sr')],
        [SAID, plainly(function("1"))],
        (30, 6, 36),
        CUT,
    ),
    "a filter that ends the reply": Exchange(
        [
            *(added(0, message("") | {"content": []}), grows(0, "output_text", "Hi there")),
            responded("incomplete", incomplete_details={"reason": "content_filter"}),
        ],
        [("text", "Hi there")],
        [SAID],
        stop=StopReason.CONTENT_FILTER,
    ),
    "an unknown event and item": Exchange(
        [
            *({"type": "response.weather", "delta": {"a": 1}}, added(0, {"type": "sketch", "id": "sk_1"})),
            *(done(0, {"type": "sketch", "id": "sk_1", "lines": [1]}), done(1, message("Hi there")), responded()),
        ],
        [("raw", "sketch"), ("text", "Hi there")],
        [{"type": "sketch", "id": "sk_1", "lines": [1]}, SAID],
        newer=True,
    ),
}


# OpenAI Chat Completions, and servers like it


def calling(*fragments: Json, finish: str | None = None) -> Json:
    return delta(finish, tool_calls=list(fragments))


def fragment(arguments: Any, name: str | None = None, **fields: Any) -> Json:
    named = {} if name is None else {"name": name}
    return {**fields, "function": {**named, "arguments": arguments}}


def spoken(content: Any = "Hi there", *calls: Json, **fields: Any) -> Json:
    return {"role": "assistant", "content": content, **fields} | ({"tool_calls": list(calls)} if calls else {})


def called(call_id: str, arguments: str = "{}", **fields: Any) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}, **fields}


DONE = b"data: [DONE]\n\n"
SPENT = {"prompt_tokens": 30, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 10}}
FILTERED = {"hate": {"filtered": False, "severity": "safe"}}
SECRET = {"type": "reasoning.encrypted", "data": "bG9ja2Vk", "id": "r1", "format": "f", "index": 1}
LINK = {
    "type": "url_citation",
    "url_citation": {"url": "https://b.test", "title": "B", "start_index": 0, "end_index": 2},
}

CHATS: dict[str, Exchange] = {
    "usage in a last chunk without choices": Exchange(
        [
            *(delta(role="assistant", content="", refusal=None), delta(content="Hi"), delta(content="")),
            *(delta(content=" there", tool_calls=None), delta("stop"), {"choices": [], "usage": SPENT}, DONE),
        ],
        [("text", "Hi there")],
        [spoken()],
        (30, 6, 36),
    ),
    "usage with every chunk, growing": Exchange(
        [
            delta(content="Hi") | {"usage": {"prompt_tokens": 30, "completion_tokens": 1}},
            delta("stop", content=" there") | {"usage": SPENT},
            DONE,
        ],
        [("text", "Hi there")],
        [spoken()],
        (30, 6, 36),
    ),
    "no usage and no [DONE]": Exchange([delta("stop", content="Hi there")], [("text", "Hi there")], [spoken()]),
    "no finish reason": Exchange(
        [delta(content="Hi there") | {"usage": None}, {"choices": []}, DONE], [("text", "Hi there")], [spoken()]
    ),
    "Azure's chunk about the prompt, and its filter beside the text": Exchange(
        [
            {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERED}]},
            {"choices": [{"index": 0, "delta": {"content": "Hi there"}, "content_filter_results": FILTERED}]},
            {"choices": [{"index": 0, "content_filter_offsets": {"check_offset": 1}, "finish_reason": None}]},
            *(delta("stop"), DONE),
        ],
        [("text", "Hi there")],
        [spoken()],
    ),
    "a filter that ends the reply": Exchange(
        [delta(content="Hi there"), delta("content_filter"), DONE],
        [("text", "Hi there")],
        [spoken()],
        stop=StopReason.CONTENT_FILTER,
    ),
    "a refusal": Exchange(
        [delta(content=None, refusal="Hi"), delta(refusal=" there"), delta("stop"), DONE],
        [("text", "Hi there")],
        [spoken()],
        stop=StopReason.REFUSAL,
    ),
    "parallel calls that interleave": Exchange(
        [
            calling(fragment("", "look", index=0, id="c1"), fragment("", "look", index=1, id="c2")),
            calling(fragment('{"path":', index=1)),
            calling(fragment("{}", index=0)),
            *(calling(fragment('"b"}', index=1)), delta("tool_calls"), DONE),
        ],
        [("call", "look", {}), ("call", "look", {"path": "b"})],
        [spoken(None, called("c1"), called("c2", '{"path":"b"}'))],
        stop=CALLS,
    ),
    "calls without an index, whole, the second with arguments as an object": Exchange(
        [
            calling(fragment('{"path": "a"}', "look", id="c1")),
            calling(fragment({"path": "b"}, "look", id="c2"), finish="stop"),
            DONE,
        ],
        [("call", "look", {"path": "a"}), ("call", "look", {"path": "b"})],
        [spoken(None, called("c1", '{"path":"a"}'), called("c2", '{"path":"b"}'))],
        stop=CALLS,
    ),
    "calls with an index and without ids, which the next request must have": Exchange(
        [
            calling(fragment("{}", "look", index=0), fragment('{"path":"b"}', "look", index=1)),
            *(delta("tool_calls"), DONE),
        ],
        [("call", "look", {}), ("call", "look", {"path": "b"})],
        [spoken(None, called("call-2"), called("call-3", '{"path":"b"}'))],
        stop=CALLS,
    ),
    "the call of an old server": Exchange(
        [
            delta(content=None, function_call={"name": "look", "arguments": ""}),
            delta(function_call={"arguments": '{"path":"a"}'}),
            *(delta("function_call"), DONE),
        ],
        [("call", "look", {"path": "a"})],
        [spoken(None, called("call-2", '{"path":"a"}'))],
        stop=CALLS,
    ),
    "an id that is null or empty after the first piece": Exchange(
        [
            calling(fragment("", "look", index=0, id="c1", type="function")),
            calling(fragment('{"path":', index=0, id=None)),
            calling(fragment('"a"}', "", index=0, id="")),
            *(delta("tool_calls"), DONE),
        ],
        [("call", "look", {"path": "a"})],
        [spoken(None, called("c1", '{"path":"a"}'))],
        stop=CALLS,
    ),
    "the end of the tokens in the middle of a call": Exchange(
        [delta(content="Hi there"), calling(fragment('{"path": "sr', "look", index=0, id="c1")), delta("length"), DONE],
        [("text", "Hi there"), ("broken call", "look", '{"path": "sr')],
        [spoken("Hi there", called("c1"))],
        stop=CUT,
    ),
    "reasoning_content goes back where the server wants it": Exchange(
        [
            *(delta(role="assistant", content=None, reasoning_content=""), delta(reasoning_content="Hm", content=None)),
            *(delta(content="", reasoning_content=None), calling(fragment("{}", "look", index=0, id="c1"))),
            *(delta("tool_calls") | {"usage": SPENT}, DONE),
        ],
        [("thinking", "Hm"), ("call", "look", {})],
        [spoken(None, called("c1"), reasoning_content="Hm")],
        (30, 6, 36),
        CALLS,
        case=DEEPSEEK,
    ),
    "reasoning with details, the last one encrypted": Exchange(
        [
            delta(reasoning="H", reasoning_details=[{"type": "reasoning.text", "text": "H", "index": 0}]),
            delta(reasoning="m", reasoning_details=[{"type": "reasoning.text", "text": "m", "index": 0}]),
            delta(reasoning=None, reasoning_details=[SECRET]),
            *(delta(content="Hi there"), delta("stop", native_finish_reason="STOP"), DONE),
        ],
        [("thinking", "Hm"), ("text", "Hi there")],
        [spoken(reasoning_details=[{"type": "reasoning.text", "text": "Hm", "index": 0}, SECRET])],
        case=OPENROUTER,
    ),
    "comments while a proxy waits, and sources": Exchange(
        [
            *(b": OPENROUTER PROCESSING\n\n", delta(content="Hi there"), delta(annotations=[LINK]), delta("stop")),
            *({"choices": [], "usage": SPENT | {"cost": 0.25}}, DONE),
        ],
        [("text", "Hi there", "https://b.test")],
        [spoken("Hi there\n[sources: [B](https://b.test)]")],
        (30, 6, 36),
        case=OPENROUTER,
    ),
    "a response that is not streamed, with nulls": Exchange(
        [
            msgspec.json.encode(
                {
                    "choices": [{"index": 0, "message": spoken(tool_calls=None, audio=None), "finish_reason": "stop"}],
                    "usage": SPENT,
                    "error": None,
                }
            )
        ],
        [("text", "Hi there")],
        [spoken()],
        (30, 6, 36),
    ),
    "an unknown part and an unknown finish reason": Exchange(
        [delta(content=[{"type": "text", "text": "Hi there"}, {"type": "sketch", "lines": [1]}]), delta("tired"), DONE],
        [("text", "Hi there"), ("raw", "sketch")],
        [spoken([{"type": "text", "text": "Hi there"}, {"type": "sketch", "lines": [1]}])],
        stop=StopReason.OTHER,
        detail="tired",
        newer=True,
    ),
}


# Gemini


def chunk(*parts: Json, usage: Json | None = None, **fields: Any) -> Json:
    counted = {"usageMetadata": usage} if usage else {}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **fields}], **counted}


def wanted(given: Json | None = None, *, sign: str = "", **fields: Any) -> Json:
    part = {"functionCall": {**fields, "name": "look", "args": given}}
    return part | ({"thoughtSignature": sign} if sign else {})


COUNTED = {"promptTokenCount": 30, "candidatesTokenCount": 4, "thoughtsTokenCount": 2, "totalTokenCount": 36}
GREETING = {"text": "Hi there"}
SUMS = {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "c3Vt"}
SUM = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
DRAWN = {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "ZHJhdw=="}
GROUND = {
    "webSearchQueries": ["bridges"],
    "groundingChunks": [{"web": {"uri": "https://b.test", "title": "B"}}],
    "groundingSupports": [{"segment": {"endIndex": 8, "text": "Hi there"}, "groundingChunkIndices": [0]}],
}

GEMINIS: dict[str, Exchange] = {
    "usage with every chunk": Exchange(
        [
            chunk({"text": "Hi"}, usage={"promptTokenCount": 30}),
            chunk({"text": " there"}, usage=COUNTED),
            chunk({"text": ""}, usage=COUNTED, finishReason="STOP"),
        ],
        [("text", "Hi there")],
        [GREETING],
        (30, 6, 36),
    ),
    "no usage, and no content in the last chunk": Exchange(
        [chunk(GREETING), {"candidates": [{"finishReason": "STOP", "index": 0}]}], [("text", "Hi there")], [GREETING]
    ),
    "several parts in a chunk, in a list of chunks": Exchange(
        [[chunk({"text": "Hm", "thought": True}, {"text": "Hi"}, {"text": " there"}), chunk(finishReason="STOP")]],
        [("thinking", "Hm"), ("text", "Hi there")],
        [GREETING],
    ),
    "parallel calls without ids, the first signed": Exchange(
        [
            *(chunk({"text": "Hm", "thought": True}), chunk(wanted({"path": "a"}, sign="c2ln"), wanted({"path": "b"}))),
            chunk(usage=COUNTED, finishReason="STOP"),
        ],
        [("thinking", "Hm"), ("call", "look", {"path": "a"}), ("call", "look", {"path": "b"})],
        [wanted({"path": "a"}, sign="c2ln"), wanted({"path": "b"})],
        (30, 6, 36),
        CALLS,
    ),
    "a call with an id and null arguments": Exchange(
        [chunk(GREETING), chunk(wanted(None, id="f1", sign="c2ln"), finishReason="STOP", finishMessage="Done.")],
        [("text", "Hi there"), ("call", "look", {})],
        [GREETING, wanted({}, id="f1", sign="c2ln")],
        stop=CALLS,
    ),
    "a signature in an empty part after the text": Exchange(
        [chunk(GREETING), chunk({"text": "", "thoughtSignature": "bGFzdA=="}, finishReason="STOP")],
        [("text", "Hi there"), ("thinking", "")],
        [GREETING, {"text": "", "thoughtSignature": "bGFzdA=="}],
    ),
    "the end of the tokens": Exchange(
        [chunk(GREETING, usage=COUNTED, finishReason="MAX_TOKENS")],
        [("text", "Hi there")],
        [GREETING],
        (30, 6, 36),
        CUT,
    ),
    "a malformed call": Exchange(
        [{"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "look(a"}]}],
        [("text", "[Gemini ended the reply: MALFORMED_FUNCTION_CALL: look(a]")],
        [{"text": "[Gemini ended the reply: MALFORMED_FUNCTION_CALL: look(a]"}],
        stop=StopReason.MALFORMED_CALL,
    ),
    "a prompt that was blocked": Exchange(
        [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 30}}],
        [("text", "[Gemini ended the reply: PROHIBITED_CONTENT]")],
        [{"text": "[Gemini ended the reply: PROHIBITED_CONTENT]"}],
        (30, 0, 30),
        StopReason.CONTENT_FILTER,
    ),
    "a text that was blocked": Exchange(
        [chunk(GREETING), {"candidates": [{"finishReason": "RECITATION"}]}],
        [("text", "Hi there")],
        [GREETING],
        stop=StopReason.CONTENT_FILTER,
    ),
    "a search with sources": Exchange(
        [
            chunk(GREETING, usage=COUNTED | {"toolUsePromptTokenCount": 500}),
            chunk(groundingMetadata=GROUND, finishReason="STOP"),
        ],
        [
            ("ran", "web_search", {"queries": ["bridges"]}),
            ("found", "- [B](https://b.test)"),
            ("text", "Hi there", "https://b.test"),
        ],
        [GREETING],
        (530, 6, 36),
    ),
    "code and what it printed": Exchange(
        [chunk(SUMS, SUM), chunk(GREETING, finishReason="STOP")],
        [("ran", "code_execution", {"code": "1+1"}), ("found", "2"), ("text", "Hi there")],
        [SUMS, SUM, GREETING],
    ),
    "code that failed": Exchange(
        [chunk(SUMS, {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "No"}}, finishReason="STOP")],
        [("ran", "code_execution", {"code": "1+1"}), ("failed", "No")],
        [SUMS, {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "No"}}],
    ),
    "a picture with a signature": Exchange(
        [chunk(GREETING, DRAWN), chunk(finishReason="STOP")],
        [("text", "Hi there"), ("file", "image/png")],
        [GREETING, DRAWN],
    ),
    "an unknown part and an unknown finish reason": Exchange(
        [chunk({"sketch": {"lines": [1]}}, GREETING), {"candidates": [{"finishReason": "TIRED"}]}],
        [("raw", "sketch"), ("text", "Hi there")],
        [{"sketch": {"lines": [1]}}, GREETING],
        stop=StopReason.OTHER,
        detail="TIRED",
        newer=True,
    ),
    "a call of an older model has no signature": Exchange(
        [chunk(wanted({"path": "a"}), finishReason="STOP", avgLogprobs=-0.5, safetyRatings=None)],
        [("call", "look", {"path": "a"})],
        [wanted({"path": "a"})],
        stop=CALLS,
        case=OLDER_GEMINI,
    ),
}


# Responses that are no replies

FAILURES: dict[int, dict[str, Failure]] = {
    0: {
        "an error after the beginning": Failure(
            [begin(), *words(0, "Hi"), {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}],
            UnavailableError,
            "Busy",
            retryable=True,
        ),
        "a stream without its last event": Failure(
            [begin(), *words(0, "Hi"), ending("end_turn")[0]], IncompleteStreamError, "before it was complete", True
        ),
    },
    1: {
        "a response that failed": Failure(
            [CREATED, responded("failed", error={"code": "rate_limit_exceeded", "message": "Slower"})],
            RateLimitedError,
            "Slower",
            retryable=True,
        ),
        "a response that failed for what was sent": Failure(
            [CREATED, responded("failed", error={"code": "invalid_prompt", "message": "Not this"})],
            RequestRefusedError,
            "Not this",
        ),
        "an error event": Failure(
            [CREATED, {"type": "error", "code": "server_error", "message": "Oh", "param": None, "sequence_number": 1}],
            UnavailableError,
            "Oh",
            retryable=True,
        ),
    },
    2: {
        "a proxy's error beside no choices": Failure(
            [delta(content="Hi"), {"choices": [], "error": {"code": 502, "message": "Upstream"}}, DONE],
            UnavailableError,
            "Upstream",
            retryable=True,
        ),
        "an error in the middle, as a choice's finish": Failure(
            [delta(content="Hi"), delta("error"), DONE], IncompleteStreamError, "error", True
        ),
        "an error that is the whole chunk": Failure(
            [{"object": "error", "message": "Too long", "type": "BadRequestError", "param": None, "code": 400}, DONE],
            RequestRefusedError,
            "Too long",
        ),
    },
    3: {
        "an error after the beginning": Failure(
            [chunk(GREETING), {"error": {"code": 503, "message": "Busy", "status": "UNAVAILABLE"}}],
            UnavailableError,
            "Busy",
            retryable=True,
        ),
        "a stream without a finish reason": Failure(
            [chunk(GREETING)], IncompleteStreamError, "before it was complete", True
        ),
    },
}


# The tests


@pytest.mark.parametrize(("case", "exchange"), list(exchanges()))
def test_a_reply_is_the_same_in_every_cut_and_can_be_stored(case: Case, exchange: Exchange) -> None:
    pieces = encoded(case.api, exchange.events)
    replies = [read(case, chunks, MemoryStore()) for chunks in cuts(pieces)]
    text, reply = replies[0]
    assert replies[1:] == replies[:1] * 2
    assert list(map(short, reply.message.content)) == exchange.blocks
    assert (reply.stop_reason, reply.stop_detail) == (exchange.stop, exchange.detail)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.context) == exchange.usage
    assert text == "".join(block.text for block in reply.message.content if isinstance(block, TextBlock))
    conversation = [Message.user("Hello"), reply.message]
    assert loads(dumps(conversation)) == conversation


@pytest.mark.parametrize(("case", "exchange"), list(exchanges()))
def test_the_next_request_has_the_reply_as_the_api_takes_it(case: Case, exchange: Exchange) -> None:
    store = MemoryStore()
    _, reply = read(case, encoded(case.api, exchange.events), store)
    [stored] = [each for each in loads(dumps([Message.user("Hello"), reply.message])) if each.role == "assistant"]
    body = next_request(case, exchange, msgspec.structs.replace(reply, message=stored), store)
    assert of_the_model(case.api, body) == exchange.back
    assert body.get("container") == exchange.container


class Played(CannedTransport):
    """Gives the exchange first and then a plain answer."""

    async def post(self, *arguments: Any, **more: Any) -> AsyncIterator[bytes]:
        chunk = self.chunks.pop(0)
        yield chunk


@tool
def look(path: str = "", input: str = "") -> str:
    """Look at a file."""
    return "seen"


@pytest.mark.parametrize(("case", "exchange"), list(exchanges()))
async def test_an_agent_goes_on_after_the_reply(case: Case, exchange: Exchange) -> None:
    last = b"".join(stream_of(case.api, Answer("That is all.")))
    model: Any = case.adapter(key="key")
    model._transport = Played([b"".join(encoded(case.api, exchange.events)), *[last] * 3])
    result = await Agent(model, tools=[look]).run("Hello")
    assert result.status == "done", result
    assert len(result.messages) >= 2


@pytest.mark.parametrize(("case", "failure"), list(failures()))
def test_a_response_that_is_no_reply_is_an_error_of_its_kind(case: Case, failure: Failure) -> None:
    for chunks in cuts(encoded(case.api, failure.events)):
        with pytest.raises(failure.error, match=failure.words) as raised:
            read(case, chunks, MemoryStore())
        assert raised.value.retryable is failure.retryable
