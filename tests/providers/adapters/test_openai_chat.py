"""Requests to Chat Completions servers."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import repair
from outrider.conversation.messages import Message, ProviderState, TextBlock, ThinkingBlock, ToolUseBlock
from outrider.errors import AuthenticationError, ProviderError, RateLimitedError, RequestRefusedError
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.base import Request
from outrider.providers.catalogue.capabilities import Capabilities, capabilities_of
from outrider.providers.transport.http import ErrorResponse
from tests.adapters import Case
from tests.conversations import (
    BINARY,
    CSV,
    HISTORIES,
    JPEG,
    PDF,
    PDF_BYTES,
    PNG,
    STORE,
    SYSTEM,
    TOOLS,
    WAV,
    call,
    exchange,
    request_of,
    result,
)
from tests.oracles import check
from tests.providers.canned import CannedTransport, ask, delta, events, request

VISION = Case("openai-chat", "gpt-5.6")
BLIND = Case("openai-chat", "unheard-of")
LOCAL = "http://127.0.0.1:9/v1"


def sent(model: OpenAIChat, messages: list[Message], **fields: Any) -> dict[str, Any]:
    """The body of a request, after the judges have seen it."""
    asked = Request(repair(messages), STORE, fields.pop("system", ""), **fields)
    body = model.render(asked)
    check(Case("openai-chat", model.model), body, asked)
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded


def rendered(messages: list[Message], model: str = "gpt-5.6", **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sent(OpenAIChat(model), messages, **fields)["messages"]
    return found


@pytest.mark.parametrize("case", [VISION, BLIND], ids=lambda case: case.model)
@pytest.mark.parametrize("name", HISTORIES)
def test_every_history_is_what_the_api_takes(name: str, case: Case) -> None:
    asked = request_of(name, case)
    body = case.adapter().render(asked)
    check(case, body, asked)
    fresh = msgspec.structs.replace(asked, memory={})
    assert case.adapter().render(fresh) == body


@pytest.mark.parametrize("name", HISTORIES)
def test_what_was_sent_is_the_beginning_of_what_is_sent_next(name: str) -> None:
    asked = request_of(name, VISION)
    previous = b""
    for length in range(1, len(asked.messages) + 1):
        one = msgspec.structs.replace(asked, messages=asked.messages[:length], reminder="", memory={})
        body = VISION.adapter().render(one)
        assert body.startswith(previous)
        previous = body.removesuffix(b"]}")


def test_a_request_has_the_system_message_first_and_streams_with_usage() -> None:
    body = sent(OpenAIChat("gpt-5.6"), [Message.user("Hello")], system=SYSTEM, tools=TOOLS)
    assert body == {
        "model": "gpt-5.6",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in TOOLS
        ],
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hello"}],
    }


def test_the_users_options_count_over_ours() -> None:
    model = OpenAIChat("gpt-5.6", options={"stream_options": None, "temperature": 0.5})
    body = sent(model, [Message.user("Hello")])
    assert body["stream_options"] is None
    assert body["temperature"] == 0.5


def test_a_system_message_alone_is_a_sound_body() -> None:
    body = OpenAIChat("gpt-5.6").render(Request((), STORE, SYSTEM))
    assert msgspec.json.decode(body)["messages"] == [{"role": "system", "content": SYSTEM}]


def test_a_reminder_is_one_more_user_message_and_is_not_kept() -> None:
    model, memory = OpenAIChat("gpt-5.6"), {}
    messages = [Message.user("Hello")]
    with_reminder = sent(model, messages, system=SYSTEM, reminder="Hurry.", memory=memory)["messages"]
    assert [each["role"] for each in with_reminder] == ["system", "user", "user"]
    assert with_reminder[2]["content"].endswith("\nHurry.")
    assert sent(model, messages, system=SYSTEM, memory=memory)["messages"] == with_reminder[:2]


# Calls and results


def test_parallel_calls_stand_in_one_message_and_each_result_in_its_own() -> None:
    messages = rendered(exchange(result("c1", "one"), result("c2", "two")))
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": "I'll look.",
            "tool_calls": [
                {"id": name, "type": "function", "function": {"name": "read", "arguments": f'{{"path":"{name}.txt"}}'}}
                for name in ("c1", "c2")
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
    ]


def test_calls_without_words_have_null_for_content() -> None:
    messages = rendered([Message.user("Look."), Message.assistant(call("c1")), Message.user(result("c1", "one"))])
    assert messages[1]["content"] is None


def test_a_failed_result_says_so_in_its_text() -> None:
    failed, fine = rendered(exchange(result("c1", "no such file", failed=True), result("c2", "fine")))[2:]
    assert failed["content"] == "[This call failed]\nno such file"
    assert fine["content"] == "fine"


def test_an_empty_result_is_not_empty_on_the_wire() -> None:
    assert rendered(exchange(result("c1")))[-1]["content"] == "(no output)"


def test_arguments_that_were_not_json_go_back_as_an_empty_object() -> None:
    broken = ToolUseBlock("c1", "read", {}, invalid_input='{"path": "a')
    messages = rendered([Message.user("Look."), Message.assistant(broken), Message.user(result("c1", "not JSON"))])
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_ids_are_made_fit_for_openai_and_left_alone_elsewhere() -> None:
    strange = "functions.read:0 " + "x" * 60
    history = exchange(result(strange, "one"))
    made = rendered(history)
    assert made[1]["tool_calls"][0]["id"] == made[2]["tool_call_id"] != strange
    assert len(made[2]["tool_call_id"]) <= 40
    kept = sent(OpenAIChat("gpt-5.6", base_url=LOCAL), history)["messages"]
    assert kept[1]["tool_calls"][0]["id"] == kept[2]["tool_call_id"] == strange


# Files


def test_two_parallel_pictures_follow_both_results_in_one_message() -> None:
    messages = rendered([*exchange(result("c1", PNG), result("c2", "Here:", JPEG))])
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[2]["content"] == "[chart.png is shown after the tool results]"
    assert messages[3]["content"] == "Here:\n[photo.jpg is shown after the tool results]"
    intro, first_label, first, second_label, second = messages[4]["content"]
    assert "added by the runtime" in intro["text"]
    assert first_label["text"] == "chart.png (a red square), from read (call c1):"
    assert second_label["text"] == "photo.jpg, from read (call c2):"
    assert first["image_url"]["url"].startswith("data:image/png;base64,")
    assert second["image_url"]["url"].startswith("data:image/jpeg;base64,")


def test_what_the_person_says_comes_after_the_moved_files_in_the_same_message() -> None:
    results = result("c1", PNG)
    messages = rendered([*exchange(results)[:2], Message.user(results, "Nice?")])
    assert [part["type"] for part in messages[3]["content"]] == ["text", "text", "image_url", "text"]
    assert messages[3]["content"][3] == {"type": "text", "text": "Nice?"}


def test_three_files_of_one_result_arrive_as_picture_pdf_and_text() -> None:
    messages = rendered(exchange(result("c1", "Three:", PNG, PDF, CSV)))
    assert "Zürich,42" in messages[2]["content"]
    assert [part["type"] for part in messages[3]["content"]] == ["text", "text", "image_url", "text", "file"]
    assert messages[3]["content"][4]["file"]["filename"] == "report.pdf"


def test_a_pdf_has_a_file_name_even_if_it_had_none() -> None:
    unnamed = STORE.put(Attachment(PDF_BYTES, "application/pdf"))
    part = rendered([Message.user(unnamed)])[0]["content"][0]
    assert part["file"]["filename"].endswith(".pdf")
    assert "/" not in part["file"]["filename"]
    assert part["file"]["file_data"].startswith("data:application/pdf;base64,")


def test_a_model_that_sees_nothing_gets_plain_strings() -> None:
    messages = rendered(exchange(result("c1", PNG, PDF, CSV)), model="unheard-of")
    assert [each["role"] for each in messages] == ["user", "assistant", "tool"]
    assert "chart.png (image/png, " in messages[2]["content"]
    assert "Text of report.pdf:" in messages[2]["content"]


def test_pages_of_a_scan_move_as_pictures_do() -> None:
    from PIL import Image

    output = io.BytesIO()
    Image.new("RGB", (50, 50), "white").save(output, "PDF")
    scan = STORE.put(Attachment(output.getvalue(), "application/pdf", "scan.pdf"))
    model = OpenAIChat("m", capabilities=Capabilities(image="moved"))
    body = msgspec.json.decode(model.render(Request(repair(exchange(result("c1", scan))), STORE)))
    tool, user = body["messages"][2:]
    assert tool["content"] == "Pages of scan.pdf:\n[scan.pdf is shown after the tool results]"
    assert [part["type"] for part in user["content"]] == ["text", "text", "image_url"]


def test_audio_goes_to_models_that_hear() -> None:
    hears = msgspec.structs.replace(capabilities_of("openai-chat", "gpt-5.6"), audio="moved")
    model = OpenAIChat("gpt-5.6", capabilities=hears)
    part = sent(model, exchange(result("c1", WAV)))["messages"][3]["content"][2]
    assert part["input_audio"]["format"] == "wav"
    ogg = STORE.put(Attachment(b"OggS" + bytes(40), "audio/ogg", "memo.ogg"))
    note = sent(model, [Message.user(ogg)])["messages"][0]["content"][1]
    assert "memo.ogg (audio/ogg) cannot be shown" in note["text"]


def test_where_a_server_takes_pictures_in_results_they_stand_there() -> None:
    model = OpenAIChat("m", capabilities=Capabilities(image="native"))
    messages = repair(exchange(result("c1", "See:", PNG, failed=True), result("c2", BINARY)))
    first, second = msgspec.json.decode(model.render(Request(messages, STORE)))["messages"][2:]
    assert [part["type"] for part in first["content"]] == ["text", "text", "text", "image_url"]
    assert first["content"][2]["text"] == "chart.png (a red square):"
    assert first["content"][0]["text"] == "[This call failed]"
    assert isinstance(second["content"], str)


# Reasoning


def reasoning(model: str, field: str = "reasoning_content", text: str = "Hm.") -> ThinkingBlock:
    return ThinkingBlock(text, ProviderState("openai-chat", model, {"field": field}))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("text", ["Hm.", ""])
def test_reasoning_goes_back_under_its_own_name_even_if_it_is_empty(field: str, text: str) -> None:
    reply = Message.assistant(reasoning("deepseek-chat", field, text), call("c1", "look"))
    messages = rendered([Message.user("Look."), reply, Message.user(result("c1", "seen"))], model="deepseek-chat")
    assert messages[1][field] == text


@pytest.mark.parametrize(
    "block",
    [
        reasoning("another-model"),
        ThinkingBlock("Hm.", ProviderState("anthropic", "deepseek-chat", {"signature": "s"})),
        ThinkingBlock("Hm.", ProviderState("openai-chat", "deepseek-chat", {"field": "role"})),
        ThinkingBlock("Hm.", ProviderState("openai-chat", "deepseek-chat", "nonsense")),
        ThinkingBlock("Hm."),
    ],
)
def test_reasoning_of_others_stays_at_home(block: ThinkingBlock) -> None:
    history = [Message.user("Look."), Message.assistant(block, "So."), Message.user("And?")]
    assert rendered(history, model="deepseek-chat")[1] == {"role": "assistant", "content": "So."}


def test_a_message_of_nothing_but_foreign_thoughts_is_left_out() -> None:
    history = [Message.user("Look."), Message.assistant(ThinkingBlock("Hm.")), Message.user("And?")]
    assert [each["role"] for each in rendered(history)] == ["user", "user"]


async def test_what_a_server_thought_is_sent_back_as_it_was() -> None:
    model = OpenAIChat("deepseek-chat", base_url=LOCAL)
    chunks = (
        delta(reasoning_content="Hm", content=""),
        delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}]),
    )
    reply = (await ask(model, [events(*chunks, delta("tool_calls"))])).reply.message
    messages = sent(model, [Message.user("Look."), reply, Message.user(result("c1", "seen"))])["messages"]
    assert messages[1]["reasoning_content"] == "Hm"


# Keys and servers


async def test_openai_itself_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY"):
        await ask(OpenAIChat("gpt-5.6"), [])
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    model = OpenAIChat("gpt-5.6")
    await ask(model, [events(delta("stop", content="Hi"))])
    transport: Any = model._transport
    assert transport.headers["authorization"] == "Bearer sk-environment"
    assert model.url() == "https://api.openai.com/v1/chat/completions"


async def test_another_server_is_asked_without_a_key_if_there_is_none() -> None:
    model = OpenAIChat("m", base_url=f"{LOCAL}/")
    heard = await ask(model, [events(delta("stop", content="Hi"))])
    transport: Any = model._transport
    assert isinstance(transport, CannedTransport)
    assert heard.reply.text == "Hi"
    assert "authorization" not in transport.headers
    assert model.url() == f"{LOCAL}/chat/completions"


async def test_another_server_gets_the_key_that_it_was_given() -> None:
    model = OpenAIChat("m", base_url=LOCAL, api_key="local-key")
    await ask(model, [events(delta("stop", content="Hi"))])
    transport: Any = model._transport
    assert transport.headers["authorization"] == "Bearer local-key"


def test_the_base_url_comes_from_the_usual_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")
    model = OpenAIChat("m")
    assert model.url() == "http://127.0.0.1:8000/v1/chat/completions"
    assert not model.is_openai


@pytest.mark.parametrize(
    ("base", "own"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://api.openai.com.example.net/v1", False),
        ("https://notopenai.com/v1", False),
    ],
)
def test_openai_is_known_by_its_host(base: str, own: bool) -> None:
    assert OpenAIChat("m", base_url=base).is_openai is own


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthenticationError), (404, RequestRefusedError), (429, RateLimitedError)]
)
def test_a_refusal_is_explained_without_the_key(status: int, kind: type[ProviderError]) -> None:
    body = b'{"error": {"message": "wrong: hunter2secret", "type": "t", "code": null}}'
    error = OpenAIChat("gpt-5.6").explain(ErrorResponse(status, {}, body), "hunter2secret")
    assert type(error) is kind
    assert "wrong" in str(error)
    assert "hunter2" not in str(error)


async def test_the_request_is_not_changed_by_asking() -> None:
    asked = request(Message.user("Hello"), tools=TOOLS)
    before = msgspec.structs.replace(asked)
    await ask(OpenAIChat("m", base_url=LOCAL), [events(delta("stop", content="Hi"))], asked)
    assert asked.messages == before.messages == (Message.user(TextBlock("Hello")),)
    assert asked.tools is before.tools


def test_an_audio_model_hears_wav_and_mp3_and_gets_a_note_about_others() -> None:
    model = OpenAIChat("gpt-audio")
    ogg = STORE.put(Attachment(b"OggS\0" + bytes(40), "audio/ogg", "memo.ogg"))
    body = msgspec.json.decode(model.render(Request([Message.user(WAV, ogg)], STORE)))
    parts = body["messages"][0]["content"]
    assert [part["input_audio"]["format"] for part in parts if part["type"] == "input_audio"] == ["wav"]
    assert "memo.ogg (audio/ogg, 45 bytes) cannot be shown" in parts[-1]["text"]
