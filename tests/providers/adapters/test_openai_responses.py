"""OpenAI Responses: what is asked, checked against the vendor's own types."""

from __future__ import annotations

import base64
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import violations
from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import MemoryStore
from outrider.errors import AuthenticationError
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.base import Request, ToolSpec
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.providers.resolution import resolve
from tests.conversations import PDF_BYTES

MODEL = "gpt-5.6"
PNG_BYTES = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAFElEQVR4nGM8ISfHAANMDEgANwcANHYBDK9qubUAAAAASUVORK5CYII="
)
STORE = MemoryStore()
PNG = STORE.put(Attachment(PNG_BYTES, "image/png", "q3.png"))
PDF = STORE.put(Attachment(PDF_BYTES, "application/pdf", "q3.pdf"))
NAMELESS_PDF = STORE.put(Attachment(PDF_BYTES, "application/pdf"))
NOTES = STORE.put(Attachment("naïve\n".encode(), "text/plain", "notes.txt"))

LABEL = {"type": "input_text", "text": "q3.png:"}
IMAGE = {
    "type": "input_image",
    "detail": "auto",
    "image_url": f"data:image/png;base64,{base64.b64encode(PNG_BYTES).decode()}",
}
FILE = {
    "type": "input_file",
    "filename": "q3.pdf",
    "file_data": f"data:application/pdf;base64,{base64.b64encode(PDF_BYTES).decode()}",
}
READ = ToolSpec("Read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Look first."}],
    "encrypted_content": "gAAAA=",
}


@cache
def _vendor_types() -> Any:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
    from pydantic import TypeAdapter

    return TypeAdapter(ResponseCreateParamsStreaming)


def _consumed(value: Any) -> Any:
    """The value with everything lazy in it read, which is when it is checked."""
    if isinstance(value, dict):
        return {name: _consumed(item) for name, item in value.items()}
    return value if isinstance(value, str | int | float | None) else [_consumed(item) for item in value]


def checked(body: bytes) -> dict[str, Any]:
    """The body, after the vendor's types have taken all of it: fields that they do not know would be missing."""
    decoded: dict[str, Any] = msgspec.json.decode(body)
    assert _consumed(_vendor_types().validate_python(decoded)) == decoded
    _check_pairs(decoded["input"])
    return decoded


def _check_pairs(items: list[dict[str, Any]]) -> None:
    """What the types do not see: outputs right after their calls in call order, reasoning never last, ids used once."""
    ids = [item["id"] for item in items if "id" in item]
    assert len(ids) == len(set(ids))
    waiting: list[str] = []
    for index, item in enumerate(items):
        if item["type"] == "function_call_output":
            assert item["call_id"] == waiting.pop(0)
        elif item["type"] == "function_call":
            assert len(item["call_id"]) <= 64
            waiting.append(item["call_id"])
        elif item["type"] == "message" and item["role"] == "user":
            assert not waiting
        elif item["type"] == "reasoning":
            assert "id" in items[index + 1]
    assert not waiting


def request(*messages: Message, **fields: Any) -> Request:
    assert violations(messages) == []
    return Request(messages, STORE, **fields)


def input_of(*messages: Message, adapter: OpenAIResponses | None = None, **fields: Any) -> list[dict[str, Any]]:
    body = checked((adapter or OpenAIResponses(MODEL)).render(request(*messages, **fields)))
    items: list[dict[str, Any]] = body["input"]
    return items


def user_item(*texts: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def result(call_id: str, *parts: str | AttachmentBlock, failed: bool = False) -> ToolResultBlock:
    return ToolResultBlock(call_id, tuple(TextBlock(p) if isinstance(p, str) else p for p in parts), failed)


def answer_to(block: ToolResultBlock, **options: Any) -> dict[str, Any]:
    """The output item of one result to one call."""
    call = ToolUseBlock(block.tool_use_id, "Read", {"path": "a"})
    return input_of(Message.user("go"), Message.assistant(call), Message.user(block), **options)[2]


def own(data: dict[str, Any], model: str = MODEL, provider_name: str = "openai") -> ProviderState:
    return ProviderState(provider_name, model, data)


def thoughtful(*, thinking: ProviderState | None, call: ProviderState | None) -> list[Message]:
    return [
        Message.user("go"),
        Message.assistant(
            ThinkingBlock("Look first.", thinking), ToolUseBlock("c1", "Read", {"path": "a"}, state=call)
        ),
        Message.user(result("c1", "ok")),
    ]


def test_a_plain_conversation_is_a_list_of_messages() -> None:
    body = OpenAIResponses(MODEL).render(
        request(Message.user("Hello"), Message.assistant("Hi."), Message.user("Go on."), system="Be brief.")
    )
    assert checked(body) == {
        "model": MODEL,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "input": [
            user_item("Hello"),
            {"type": "message", "role": "assistant", "content": "Hi."},
            user_item("Go on."),
        ],
    }


def test_tools_are_functions_without_strict_schemas() -> None:
    body = checked(OpenAIResponses(MODEL).render(request(Message.user("go"), tools=(READ,))))
    assert body["tools"] == [
        {
            "type": "function",
            "name": "Read",
            "description": "Read a file",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            "strict": False,
        }
    ]


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        *((model, True) for model in ("gpt-5.6", "gpt-5-mini", "gpt-6.1-sol", "o3", "o4-mini")),
        *((model, False) for model in ("gpt-4.1", "gpt-4o", "gpt-5-chat-latest", "unheard-of")),
    ],
)
def test_only_models_that_reason_are_asked_for_their_reasoning(model: str, reasons: bool) -> None:
    body = checked(OpenAIResponses(model).render(request(Message.user("go"))))
    assert ("include" in body) is reasons


def test_options_of_the_user_go_over_ours() -> None:
    adapter = OpenAIResponses(MODEL, options={"store": True, "reasoning": {"effort": "low", "summary": "auto"}})
    body = checked(adapter.render(request(Message.user("go"))))
    assert (body["store"], body["reasoning"]) == (True, {"effort": "low", "summary": "auto"})


def test_parallel_calls_are_answered_one_by_one_in_call_order() -> None:
    calls = (ToolUseBlock("c1", "Read", {"path": "a"}), ToolUseBlock("c2", "Read", {}))
    items = input_of(
        Message.user("go"),
        Message.assistant("I'll look.", *calls),
        Message.user(result("c1", "one"), result("c2", "two"), "And now?"),
    )
    assert items == [
        user_item("go"),
        {"type": "message", "role": "assistant", "content": "I'll look."},
        {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a"}'},
        {"type": "function_call", "call_id": "c2", "name": "Read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        user_item("And now?"),
    ]


def test_a_failed_call_says_so_in_its_text() -> None:
    assert answer_to(result("c1", "no such file", failed=True))["output"] == "[This call failed]\nno such file"


def test_an_empty_result_says_that_there_is_no_output() -> None:
    assert answer_to(result("c1"))["output"] == "(no output)"


def test_a_result_with_three_files_has_them_in_their_order() -> None:
    assert answer_to(result("c1", "Q3:", PNG, PDF, NOTES)) == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [
            {"type": "input_text", "text": "Q3:"},
            LABEL,
            IMAGE,
            FILE,
            {"type": "input_text", "text": "notes.txt:\nnaïve\n"},
        ],
    }


def test_a_text_file_alone_becomes_the_text_of_the_result() -> None:
    assert answer_to(result("c1", NOTES))["output"] == "notes.txt:\nnaïve\n"


def test_a_failed_call_with_a_file_says_so_before_the_file() -> None:
    output = answer_to(result("c1", "half a chart", PNG, failed=True))["output"]
    assert output == [
        {"type": "input_text", "text": "[This call failed]"},
        {"type": "input_text", "text": "half a chart"},
        LABEL,
        IMAGE,
    ]


def test_a_pdf_without_a_name_gets_one_that_says_its_kind() -> None:
    filename = answer_to(result("c1", NAMELESS_PDF))["output"][0]["filename"]
    assert filename.endswith(".pdf")
    assert "/" not in filename


def test_a_file_that_the_person_sends_is_in_the_user_message() -> None:
    assert input_of(Message.user("What is this?", PNG))[0]["content"] == [
        {"type": "input_text", "text": "What is this?"},
        LABEL,
        IMAGE,
    ]


def test_files_that_have_to_move_come_in_one_user_message_after_all_results() -> None:
    adapter = OpenAIResponses(MODEL, capabilities=Capabilities(image="moved", pdf="moved"))
    calls = (ToolUseBlock("c1", "Read", {}), ToolUseBlock("c2", "Read", {}))
    messages = (Message.assistant(*calls), Message.user(result("c1", PNG), result("c2", PDF), "Well?"))
    items = input_of(Message.user("go"), *messages, adapter=adapter)
    assert [item["type"] for item in items[3:]] == ["function_call_output", "function_call_output", "message"]
    assert items[3]["output"] == "[q3.png is shown after the tool results]"
    kinds = [part["type"] for part in items[5]["content"]]
    assert kinds == ["input_text", "input_text", "input_image", "input_text", "input_file", "input_text"]
    assert items[5]["content"][1]["text"] == "q3.png, from Read (call c1):"
    assert items[5]["content"][-1]["text"] == "Well?"


def test_text_of_every_plane_goes_through_unchanged() -> None:
    text = "é \x00 \u2028 😀 \U0010fffd שלום"
    assert input_of(Message.user(text)) == [user_item(text)]
    assert answer_to(result("c1", text))["output"] == text


def test_call_ids_of_other_providers_are_made_fit_on_both_sides() -> None:
    long = "call:" + "x" * 100
    items = input_of(
        Message.user("go"), Message.assistant(ToolUseBlock(long, "Read", {})), Message.user(result(long, "ok"))
    )
    assert items[1]["call_id"] == items[2]["call_id"]
    assert len(items[1]["call_id"]) <= 64


def test_arguments_that_were_not_json_are_sent_as_none() -> None:
    call = ToolUseBlock("c1", "Read", {}, invalid_input='{"path": ')
    items = input_of(Message.user("go"), Message.assistant(call), Message.user(result("c1", "bad", failed=True)))
    assert items[1]["arguments"] == "{}"


def test_a_reminder_is_an_extra_message_at_the_end_and_not_kept() -> None:
    memory: dict[str, Any] = {}
    conversation = [Message.user("go")]
    reminded = input_of(*conversation, reminder="This is your FINAL turn.", memory=memory)
    assert reminded[1:] == [user_item("[A reminder from the runtime, not from the user]\nThis is your FINAL turn.")]
    assert input_of(*conversation, memory=memory) == [user_item("go")]


# Reasoning


def test_own_reasoning_goes_back_whole_before_the_item_that_followed_it() -> None:
    call = own({"id": "fc_1", "status": "completed", "follows": "rs_1"})
    assert input_of(*thoughtful(thinking=own(REASONING), call=call))[1:3] == [
        REASONING,
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "Read",
            "arguments": '{"path":"a"}',
            "id": "fc_1",
            "status": "completed",
        },
    ]


def test_own_text_after_reasoning_keeps_its_id_and_phase() -> None:
    text = TextBlock("Done.", own({"id": "msg_1", "status": "completed", "phase": "final_answer", "follows": "rs_1"}))
    items = input_of(
        Message.user("go"), Message.assistant(ThinkingBlock("", own(REASONING)), text), Message.user("Thanks")
    )
    assert items[1:3] == [
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
        },
    ]


@pytest.mark.parametrize(
    ("thinking", "call"),
    [
        pytest.param(
            own({"signature": "abc"}, "claude-opus-4-5", "anthropic"),
            own({"whatever": 1}, "claude-opus-4-5", "anthropic"),
            id="another-provider",
        ),
        pytest.param(
            own(REASONING, "gpt-5.5"), own({"id": "fc_1", "follows": "rs_1"}, "gpt-5.5"), id="another-model-of-OpenAI"
        ),
        pytest.param(None, None, id="no-state"),
        pytest.param(own(REASONING), own({"id": "fc_9", "follows": "rs_9"}), id="its-follower-was-dropped"),
        pytest.param(own(REASONING), None, id="its-follower-is-foreign"),
        pytest.param(None, own({"id": "fc_1", "follows": "rs_1"}), id="the-reasoning-was-dropped"),
        pytest.param(
            own(REASONING | {"encrypted_content": None}), own({"id": "fc_1", "follows": "rs_1"}), id="only-a-reference"
        ),
        pytest.param(own({"id": 5}), own({"follows": []}), id="nonsense"),
    ],
)
def test_reasoning_that_cannot_be_paired_is_left_out_with_the_ids(
    thinking: ProviderState | None, call: ProviderState | None
) -> None:
    assert input_of(*thoughtful(thinking=thinking, call=call))[1:] == [
        {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]


def test_an_item_whose_own_reasoning_is_gone_goes_without_its_id_beside_other_reasoning() -> None:
    calls = (
        ToolUseBlock("c1", "Read", {}, state=own({"id": "fc_1", "follows": "rs_1"})),
        ToolUseBlock("c2", "Read", {}, state=own({"id": "fc_2"})),
        ToolUseBlock("c3", "Read", {}, state=own({"id": "fc_3", "follows": "rs_3"})),
        ToolUseBlock("c4", "Read", {}, state=own({"id": "fc_4"})),
    )
    items = input_of(
        Message.user("go"),
        Message.assistant(ThinkingBlock("", own(REASONING)), *calls),
        Message.user(*(result(call.id, "ok") for call in calls)),
    )
    assert [item.get("id") for item in items[1:6]] == ["rs_1", "fc_1", "fc_2", None, None]


def test_reasoning_at_the_end_of_a_reply_is_left_out() -> None:
    items = input_of(
        Message.user("go"), Message.assistant("Hm.", ThinkingBlock("Well", own(REASONING))), Message.user("?")
    )
    assert items[1:-1] == [{"type": "message", "role": "assistant", "content": "Hm."}]


def test_fields_of_reasoning_that_are_null_are_not_sent_back() -> None:
    state = own(REASONING | {"content": None, "status": None})
    items = input_of(*thoughtful(thinking=state, call=own({"id": "fc_1", "follows": "rs_1"})))
    assert items[1] == REASONING


def test_a_reply_that_is_only_foreign_thinking_leaves_no_item() -> None:
    foreign = ThinkingBlock("Hm", own({"signature": "abc"}, "claude-opus-4-5", "anthropic"))
    assert input_of(Message.user("a"), Message.assistant(foreign), Message.user("b")) == [
        user_item("a"),
        user_item("b"),
    ]


# The bytes stay the same


def _long_conversation() -> list[Message]:
    call = own({"id": "fc_1", "status": "completed", "follows": "rs_1"})
    return [
        *thoughtful(thinking=own(REASONING), call=call),
        Message.assistant("I'll look at more.", ToolUseBlock("c2", "Read", {"path": "ü"})),
        Message.user(result("c2", PNG, PDF, NOTES), "Go on."),
        Message.assistant("Done."),
        Message.user("Thanks."),
    ]


def test_rendering_twice_gives_the_same_bytes_with_and_without_memory() -> None:
    messages = _long_conversation()
    memory: dict[str, Any] = {}
    first = OpenAIResponses(MODEL).render(request(*messages, system="Be brief.", tools=(READ,), memory=memory))
    assert OpenAIResponses(MODEL).render(request(*messages, system="Be brief.", tools=(READ,), memory=memory)) == first
    assert OpenAIResponses(MODEL).render(request(*messages, system="Be brief.", tools=(READ,))) == first


def test_each_request_is_the_beginning_of_the_next() -> None:
    messages = _long_conversation()
    memory: dict[str, Any] = {}
    lengths = range(1, len(messages) + 1, 2)
    bodies = [
        OpenAIResponses(MODEL).render(request(*messages[:n], system="s", tools=(READ,), memory=memory)) for n in lengths
    ]
    assert len(bodies) == 4
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}") + b",")
        checked(longer)


# Where it goes


def test_the_name_of_a_model_finds_the_adapter() -> None:
    found = resolve("openai/gpt-5.6")
    assert isinstance(found, OpenAIResponses)
    assert found.name == "openai/gpt-5.6"


def test_the_request_goes_to_the_base_url_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAIResponses(MODEL).url() == "https://api.openai.com/v1/responses"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    assert OpenAIResponses(MODEL).url() == "http://127.0.0.1:9/v1/responses"
    assert OpenAIResponses(MODEL).headers("k")["authorization"] == "Bearer k"


async def test_a_missing_key_is_named() -> None:
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY"):
        async for _ in OpenAIResponses(MODEL).stream(request(Message.user("go"))):
            pass
