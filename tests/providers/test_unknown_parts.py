"""Parts of replies that we do not know are kept, shown where possible, and sent back as they came."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.conversation.messages import (
    Message,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.errors import RequestRefusedError
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.hosted import adapter_of
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.base import Reply, StopReason
from outrider.providers.deltas import ServerToolFinished, ServerToolStarted
from tests.providers.canned import ask, delta, events, request

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAA="}
ITEMS: dict[str, dict[str, Any]] = {
    "file_search_call": {"queries": ["x"], "status": "completed", "results": None},
    "computer_call": {"call_id": "c1", "status": "completed", "action": {"type": "click"}, "pending_safety_checks": []},
    "program": {"call_id": "c1", "code": "1", "fingerprint": "f"},
    "program_output": {"call_id": "c1", "result": "1", "status": "completed"},
    "compaction": {"encrypted_content": "abc"},
    "shell_call": {"call_id": "c1", "status": "completed", "action": {"commands": ["ls"]}},
    "local_shell_call": {"call_id": "c1", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
    "apply_patch_call": {"call_id": "c1", "status": "completed", "operation": {"type": "delete_file", "path": "a"}},
    "mcp_call": {"arguments": "{}", "name": "n", "server_label": "s", "output": "found"},
    "mcp_list_tools": {"server_label": "s", "tools": []},
    "mcp_approval_request": {"arguments": "{}", "name": "n", "server_label": "s"},
    "of_next_year": {"anything": [{"nested": None}]},
}
ANSWERED = {"computer_call", "shell_call", "local_shell_call", "apply_patch_call", "mcp_approval_request"}


def responses() -> OpenAIResponses:
    return OpenAIResponses("gpt-5.6", api_key="key")


def stream(*items: dict[str, Any], end: str = "completed", **fields: Any) -> bytes:
    """A Responses stream with these items."""
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)
    ]
    usage = {"input_tokens": 100, "output_tokens": 10}
    return events(*done, {"type": f"response.{end}", "response": {"usage": usage, **fields}}, done=False)


async def replied(*items: dict[str, Any], **fields: Any) -> Reply:
    return (await ask(responses(), [stream(*items, **fields)])).reply


async def sent_back(reply: Reply, *more: Message) -> list[dict[str, Any]]:
    """The items of the next request, without the user's."""
    model = responses()
    asked = request(Message.user("Hello"), reply.message, *(more or (Message.user("Go on"),)))
    await ask(model, [stream()], asked)
    found: list[dict[str, Any]] = model._transport.body["input"]  # type: ignore[attr-defined]
    return [item for item in found if item.get("role") != "user"]


@pytest.mark.parametrize("kind", ITEMS)
async def test_an_item_without_a_block_of_its_own_is_kept_and_sent_back(kind: str) -> None:
    item = {"type": kind, "id": "it_1", **ITEMS[kind]}
    reply = await replied(REASONING, item)
    assert [type(block) for block in reply.message.content] == [ThinkingBlock, RawBlock]
    assert (await sent_back(reply))[:2] == [REASONING, item]


@pytest.mark.parametrize("kind", ITEMS)
async def test_a_call_that_nobody_runs_gets_an_answer(kind: str) -> None:
    """The API refuses a conversation with a call that has no output."""
    back = await sent_back(await replied({"type": kind, "id": "it_1", **ITEMS[kind]}))
    answers = [each["type"] for each in back[1:]]
    assert len(answers) == (kind in ANSWERED)
    assert all(each.endswith(("_output", "_response")) for each in answers)


async def test_a_call_that_the_api_has_run_gets_no_second_answer() -> None:
    call = {"type": "shell_call", "id": "sh_1", **ITEMS["shell_call"]}
    output = {"type": "shell_call_output", "id": "so_1", "call_id": "c1", "output": []}
    assert await sent_back(await replied(call, output)) == [call, output]


async def test_a_custom_call_runs_and_is_answered_as_one() -> None:
    item = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c1", "name": "look", "input": "a b"}
    reply = await replied(REASONING, item)
    call = reply.message.content[-1]
    assert isinstance(call, ToolUseBlock)
    assert (call.name, call.input, reply.stop_reason) == ("look", {"input": "a b"}, StopReason.TOOL_USE)
    result = Message("user", (ToolResultBlock("c1", (TextBlock("seen"),)),))
    back = await sent_back(reply, result)
    assert back == [REASONING, item, {"type": "custom_tool_call_output", "call_id": "c1", "output": "seen"}]


async def test_a_call_of_a_program_goes_back_with_its_caller() -> None:
    caller = {"type": "program", "caller_id": "p1"}
    item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "look", "arguments": "{}", "caller": caller}
    reply = await replied(item)
    call, output = await sent_back(reply, Message("user", (ToolResultBlock("c1", (TextBlock("seen"),)),)))
    assert call["caller"] == output["caller"] == caller


@pytest.mark.parametrize("error", [None, {"message": "out of paint"}])
async def test_a_picture_that_failed_is_told(error: Any) -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": None, "error": error}
    heard = await ask(responses(), [stream(REASONING, item)])
    assert heard.text == heard.reply.text
    assert "the picture was not made" in heard.text
    assert error is None or "out of paint" in heard.text
    [text] = await sent_back(heard.reply)
    assert text["role"] == "assistant"


@pytest.mark.parametrize(
    ("reason", "stop", "detail"),
    [
        ("max_messages", StopReason.MAX_TOKENS, ""),
        ("steered", StopReason.PAUSE, ""),
        ("of_next_year", StopReason.OTHER, "of_next_year"),
        (None, StopReason.OTHER, ""),
    ],
)
async def test_new_reasons_of_an_incomplete_response(reason: str | None, stop: StopReason, detail: str) -> None:
    message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
    reply = await replied(message, end="incomplete", incomplete_details={"reason": reason})
    assert (reply.stop_reason, reply.stop_detail, reply.text) == (stop, detail, "Hi")


async def test_a_violation_of_a_policy_says_what_happened() -> None:
    error = {
        "code": "misalignment_policy_violation",
        "message": "Blocked.",
        "misalignment": {"detailed_explanation": "It would have deleted data."},
    }
    with pytest.raises(RequestRefusedError, match=r"misalignment_policy_violation.*would have deleted") as raised:
        await replied(end="failed", error=error)
    assert not raised.value.retryable


async def test_the_context_is_unknown_after_tools_of_the_api() -> None:
    """Their steps are billed together, and the API does not tell the last one."""
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "x"}}
    assert (await replied(search)).usage.context == 0
    message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
    assert (await replied(message)).usage.context == 110


def gemini() -> Gemini:
    return Gemini("gemini-2.5-pro", api_key="key")


def chunk(*parts: Any, **fields: Any) -> dict[str, Any]:
    """A chunk of Gemini with these parts."""
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}]}


async def gemini_reply(*chunks: Any) -> Reply:
    return (await ask(gemini(), [events(*chunks, done=False)])).reply


async def gemini_back(reply: Reply) -> list[dict[str, Any]]:
    """The parts of the reply in the next request."""
    model = gemini()
    asked = request(Message.user("Hello"), reply.message, Message.user("Go on"))
    await ask(model, [events(chunk({"text": "x"}, finishReason="STOP"), done=False)], asked)
    return [
        part
        for content in model._transport.body["contents"]  # type: ignore[attr-defined]
        for part in content["parts"]
        if content["role"] == "model"
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"fileData": {"fileUri": "https://files.test/1", "mimeType": "video/mp4"}, "thoughtSignature": "U0lH"},
        {"fileData": {"fileUri": "https://files.test/1"}},
        {"functionResponse": {"name": "look", "response": {"output": "x"}}},
        {"ofNextYear": [1, None]},
    ],
)
async def test_a_part_of_gemini_that_we_do_not_know_is_kept_and_sent_back(part: dict[str, Any]) -> None:
    alone = await gemini_reply(chunk(part, finishReason="STOP"))
    assert [type(block) for block in alone.message.content] == [RawBlock]
    assert await gemini_back(alone) == [part]
    beside = await gemini_reply([chunk({"text": "a"}), chunk({"text": "b"}, part, {"text": "c"}, finishReason="STOP")])
    assert await gemini_back(beside) == [{"text": "ab"}, part, {"text": "c"}]


@pytest.mark.parametrize(
    "event",
    [
        3,
        None,
        {"candidates": 1},
        {"candidates": [{"content": {"parts": "text"}}]},
        chunk("text", None, {"text": {"of": "another form"}}, {"inlineData": "x"}, {"functionCall": []}),
        {"usageMetadata": {"promptTokenCount": "many"}, "promptFeedback": []},
    ],
)
async def test_an_event_of_gemini_of_another_form_does_not_end_the_reply(event: Any) -> None:
    reply = await gemini_reply(event, chunk({"text": "Hi"}, finishReason="STOP"))
    assert reply.text.endswith("Hi")


async def test_a_page_that_gemini_has_read_is_shown_as_a_call() -> None:
    pages = [
        {"retrievedUrl": "https://a.test", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
        {"retrievedUrl": "https://b.test", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
    ]
    told = chunk({"text": "Read."}, finishReason="STOP", urlContextMetadata={"urlMetadata": pages})
    reply = await gemini_reply(told)
    use, result, _ = reply.message.content
    assert isinstance(use, ServerToolUseBlock)
    assert isinstance(result, ServerToolResultBlock)
    assert (use.name, use.input) == ("web_fetch", {"urls": ["https://a.test", "https://b.test"]})
    assert "https://b.test: ERROR" in result.text
    assert await gemini_back(reply) == [{"text": "Read."}]


async def test_what_tools_of_gemini_read_is_billed_and_not_part_of_the_context() -> None:
    counts = {"promptTokenCount": 100, "toolUsePromptTokenCount": 5000, "candidatesTokenCount": 20}
    reply = await gemini_reply(chunk({"text": "Hi"}, finishReason="STOP") | {"usageMetadata": counts})
    assert (reply.usage.input_tokens, reply.usage.context) == (5100, 120)


async def test_gemini_says_why_it_stopped() -> None:
    reply = await gemini_reply(chunk({"text": "Hi"}, finishReason="SAFETY", finishMessage="Too sharp."))
    assert (reply.stop_reason, reply.stop_detail) == (StopReason.CONTENT_FILTER, "Too sharp.")


def chat() -> OpenAIChat:
    return OpenAIChat("gpt-5.6", api_key="key")


async def chat_back(model: OpenAIChat, reply: Reply, *more: Message) -> list[dict[str, Any]]:
    """The messages of the next request, without the user's."""
    asked = request(Message.user("Hello"), reply.message, *(more or (Message.user("Go on"),)))
    await ask(model, [events(delta("stop", content="x"))], asked)
    found: list[dict[str, Any]] = model._transport.body["messages"]  # type: ignore[attr-defined]
    return [message for message in found if message["role"] != "user"]


async def test_a_custom_call_of_chat_has_its_name_and_goes_back_as_one() -> None:
    pieces = [
        delta(tool_calls=[{"index": 0, "id": "c1", "type": "custom", "custom": {"name": "look", "input": "a "}}]),
        delta("tool_calls", tool_calls=[{"index": 0, "custom": {"input": "b"}}]),
    ]
    reply = (await ask(chat(), [events(*pieces)])).reply
    [call] = reply.message.tool_calls
    assert (call.name, call.input, reply.stop_reason) == ("look", {"input": "a b"}, StopReason.TOOL_USE)
    said, result = await chat_back(chat(), reply, Message("user", (ToolResultBlock("c1", (TextBlock("seen"),)),)))
    assert said["tool_calls"] == [{"id": "c1", "type": "custom", "custom": {"name": "look", "input": "a b"}}]
    assert (result["tool_call_id"], result["content"]) == ("c1", "seen")


async def test_tools_that_groq_runs_are_shown() -> None:
    ran = {"index": 0, "type": "search", "arguments": '{"query": "x"}'}
    pieces = [
        delta(executed_tools=[ran]),
        delta(executed_tools=[{"index": 0, "type": "search", "output": "found", "arguments": None}]),
        delta(content="Hi"),
        delta("stop"),
        {"choices": [], "usage": {"prompt_tokens": 9000, "completion_tokens": 10}},
    ]
    model = adapter_of("groq")("compound", api_key="key")
    heard = await ask(model, [events(*pieces)])
    assert ServerToolStarted("server_1", "web_search", {"query": "x"}) in heard.items
    assert ServerToolFinished("server_1", "web_search", "found") in heard.items
    assert [block.type for block in heard.reply.message.content] == ["server_tool_use", "server_tool_result", "text"]
    assert (heard.reply.usage.input_tokens, heard.reply.usage.context) == (9000, 0)
    [said] = await chat_back(model, heard.reply)
    assert said == {"role": "assistant", "content": "Hi"}


async def test_a_part_of_chat_that_we_do_not_know_is_kept_and_sent_back() -> None:
    part = {"type": "reference", "reference_ids": [1]}
    reply = (await ask(chat(), [events(delta(content=[{"type": "text", "text": "Hi"}, part]), delta("stop"))])).reply
    assert [type(block) for block in reply.message.content] == [TextBlock, RawBlock]
    [said] = await chat_back(chat(), reply)
    assert said["content"] == [{"type": "text", "text": "Hi"}, part]


@pytest.mark.parametrize(
    "event",
    [
        5,
        {"choices": {}},
        {"choices": [None, {"delta": "text", "finish_reason": 5}]},
        {"choices": [{"index": 0, "delta": {"content": {"text": 1}, "tool_calls": [7, {"function": {"name": 1}}]}}]},
        {"usage": [], "error": None},
    ],
)
async def test_a_chunk_of_another_form_does_not_end_the_reply(event: Any) -> None:
    heard = await ask(chat(), [events(event, delta(content="Hi"), delta("stop"))])
    assert heard.text == "Hi"


async def test_a_finish_reason_that_we_do_not_know_is_told() -> None:
    reply = (await ask(chat(), [events(delta("of_next_year", content="Hi"))])).reply
    assert (reply.stop_reason, reply.stop_detail) == (StopReason.OTHER, "of_next_year")
