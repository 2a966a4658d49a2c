"""Requests to Gemini: what a conversation becomes on the wire, checked against the vendor's own types."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import History
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
from outrider.errors import AuthenticationError, RateLimitedError, RequestRefusedError
from outrider.providers.adapters.gemini import NO_SIGNATURE, Gemini
from outrider.providers.base import Request, ToolSpec
from outrider.providers.rendering.render import MOVED, NO_OUTPUT
from outrider.providers.resolution import resolve
from outrider.providers.transport.http import ErrorResponse
from tests.conversations import PDF_BYTES

NEW, OLD = "gemini-3.5-flash", "gemini-2.5-pro"
SIGNATURE = base64.b64encode(b"a signature").decode()
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = PDF_BYTES
WAV = b"RIFF\x24\0\0\0WAVEfmt "
READ = ToolSpec(
    "Read",
    "Read a file.",
    {
        "type": "object",
        "properties": {"span": {"$ref": "#/$defs/Span"}},
        "$defs": {"Span": {"type": "object", "properties": {"first": {"type": "integer"}}}},
    },
)


def request(messages: Sequence[Message], store: MemoryStore | None = None, **more: Any) -> Request:
    return Request(messages, store or MemoryStore(), **more)


def sent(messages: Sequence[Message], model: str = NEW, store: MemoryStore | None = None, **more: Any) -> list[Any]:
    """The contents of the request, after every check that can be made without the API."""
    body: list[Any] = checked(Gemini(model).render(request(messages, store, **more)), model)["contents"]
    return body


def checked(body: bytes, model: str = NEW) -> dict[str, Any]:
    from google.genai import types  # takes too long for every collection of tests

    data: dict[str, Any] = json.loads(body)
    assert set(data) <= {"contents", "systemInstruction", "tools", "generationConfig"}
    for content in [*data["contents"], data.get("systemInstruction", {})]:
        types.Content.model_validate_json(json.dumps(content))
    for tool in data.get("tools", []):
        types.Tool.model_validate_json(json.dumps(tool))
    types.GenerateContentConfig.model_validate_json(json.dumps(data["generationConfig"]))
    check_pairing(data["contents"], model)
    return data


def check_pairing(contents: list[Any], model: str) -> None:
    """Types see neither pairing nor order nor signatures."""
    assert contents[0]["role"] == "user"
    for content, following in zip(contents, [*contents[1:], None], strict=True):
        assert content["parts"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        responses = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        assert content["role"] == ("model" if calls else content["role"])
        assert len(responses) in (0, len(content["parts"])), "only results stand beside results"
        if calls:
            answers = [part["functionResponse"] for part in following["parts"]]
            assert following["role"] == "user"
            assert [(c["name"], c.get("id")) for c in calls] == [(r["name"], r.get("id")) for r in answers]
            first = next(part for part in content["parts"] if "functionCall" in part)
            assert model == OLD or first["thoughtSignature"]
        for response in responses:
            assert [type(value) for value in response["response"].values()] == [str]
    if any("functionResponse" in part for content in contents for part in content["parts"]):
        assert any("functionCall" in part for content in contents for part in content["parts"])


def state(data: dict[str, Any], model: str = NEW, route: str = "") -> ProviderState:
    return ProviderState("gemini", model, data, route)


def asks(*calls: ToolUseBlock) -> list[Message]:
    return [Message.user("Go."), Message.assistant(*calls)]


def result(call_id: str, *parts: str | AttachmentBlock, is_error: bool = False) -> ToolResultBlock:
    blocks = tuple(TextBlock(part) if isinstance(part, str) else part for part in parts)
    return ToolResultBlock(call_id, blocks, is_error)


def inline(mime_type: str, data: bytes) -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": base64.b64encode(data).decode()}}


def three_files(store: MemoryStore) -> tuple[AttachmentBlock, ...]:
    return (
        store.put(Attachment(PNG, "image/png", name="q3.png")),
        store.put(Attachment(PDF, "application/pdf", name="q3.pdf")),
        store.put(Attachment("Löhne;1".encode(), "text/csv", name="q3.csv")),
    )


# The request around the contents


def test_a_plain_conversation_with_system_prompt_and_tools_is_the_whole_request() -> None:
    asked = request([Message.user("Hello")], system="Be brief.", tools=(READ,))
    inlined = {"type": "object", "properties": {"first": {"type": "integer"}}}
    assert checked(Gemini(NEW).render(asked)) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "Read",
                        "description": "Read a file.",
                        "parametersJsonSchema": {"type": "object", "properties": {"span": inlined}},
                    }
                ]
            }
        ],
        "generationConfig": {"maxOutputTokens": 64_000},
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    }


def test_without_system_prompt_and_tools_neither_is_sent() -> None:
    assert set(checked(Gemini(NEW).render(request([Message.user("Hello")])))) == {"generationConfig", "contents"}


def test_the_users_options_stand_over_ours_and_the_configuration_is_merged() -> None:
    options = {"generationConfig": {"temperature": 0, "thinkingConfig": {"includeThoughts": True}}}
    body = checked(Gemini(NEW, options=options).render(request([Message.user("Hello")])))
    assert body["generationConfig"] == {"maxOutputTokens": 64_000, **options["generationConfig"]}
    fewer = Gemini(NEW, options={"generationConfig": {"maxOutputTokens": 5}})
    assert checked(fewer.render(request([Message.user("Hello")])))["generationConfig"] == {"maxOutputTokens": 5}


def test_other_tools_in_the_next_request_of_a_session_are_seen() -> None:
    memory: dict[str, Any] = {}
    write = ToolSpec("Write", "Write a file.", {"type": "object", "properties": {}})
    for tools in ((READ,), (READ, write), (write,)):
        body = checked(Gemini(NEW).render(request([Message.user("Hello")], tools=tools, memory=memory)))
        names = [each["name"] for each in body["tools"][0]["functionDeclarations"]]
        assert names == [spec.name for spec in tools]


def test_the_key_travels_in_a_header_and_never_in_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "second-choice")
    assert Gemini(NEW).key == "second-choice"
    monkeypatch.setenv("GEMINI_API_KEY", "first-choice")
    model = Gemini(NEW)
    assert model.headers(model.key)["x-goog-api-key"] == "first-choice"
    assert model.url() == (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse"
    )


def test_the_base_url_comes_from_the_usual_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://localhost:8080/")
    model = resolve(f"gemini/{NEW}")
    assert isinstance(model, Gemini)
    assert model.url().startswith("http://localhost:8080/v1beta/models/")


def test_a_reminder_is_one_more_user_content_and_leaves_the_others_as_they_are() -> None:
    messages = [Message.user("Hello")]
    with_reminder = sent(messages, reminder="Last turn.")
    assert with_reminder[:-1] == sent(messages)
    assert with_reminder[-1]["role"] == "user"
    assert "Last turn." in with_reminder[-1]["parts"][0]["text"]


# Calls and results


def test_parallel_calls_are_answered_in_one_content_in_call_order_with_the_ids_that_the_api_gave() -> None:
    messages = [
        *asks(
            ToolUseBlock("a", "Read", {"path": "x"}, state=state({"thoughtSignature": SIGNATURE, "id": "api-1"})),
            ToolUseBlock("b", "Read", {}, state=state({"id": "api-2"})),
        ),
        Message.user(result("a", "one"), result("b", "no such file", is_error=True), "And?"),
    ]
    assert sent(messages) == [
        {"role": "user", "parts": [{"text": "Go."}]},
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"id": "api-1", "name": "Read", "args": {"path": "x"}},
                    "thoughtSignature": SIGNATURE,
                },
                {"functionCall": {"id": "api-2", "name": "Read", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "api-1", "name": "Read", "response": {"output": "one"}}},
                {"functionResponse": {"id": "api-2", "name": "Read", "response": {"error": "no such file"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "And?"}]},
    ]


def test_a_call_that_the_api_gave_no_id_is_sent_back_without_one() -> None:
    messages = [*asks(ToolUseBlock("call-2", "Read", {})), Message.user(result("call-2", "text"))]
    _, call, answer = sent(messages)
    assert call["parts"][0]["functionCall"] == {"name": "Read", "args": {}}
    assert answer["parts"] == [{"functionResponse": {"name": "Read", "response": {"output": "text"}}}]


def test_a_call_that_the_session_renamed_goes_back_under_the_id_of_the_api() -> None:
    history = History([Message.user("Go.")])
    for _ in range(2):
        call = ToolUseBlock("same", "Read", {}, state=state({"thoughtSignature": SIGNATURE, "id": "same"}))
        adopted = history.normalized(Message.assistant(call))
        history.append(adopted)
        history.append(Message.user(result(adopted.tool_calls[0].id, "text")))
    contents = sent(history.sendable())
    assert history.messages[3].tool_calls[0].id != "same"
    assert [part["functionCall"]["id"] for c in contents for part in c["parts"] if "functionCall" in part] == [
        "same"
    ] * 2


def test_a_call_without_a_result_is_answered_all_the_same() -> None:
    history = History(
        [*asks(ToolUseBlock("c1", "Read", {}), ToolUseBlock("c2", "Read", {})), Message.user("Never mind.")]
    )
    *_, answers, said = sent(history.sendable())
    assert all("No result" in part["functionResponse"]["response"]["error"] for part in answers["parts"])
    assert said == {"role": "user", "parts": [{"text": "Never mind."}]}


def test_an_empty_result_says_that_there_was_no_output() -> None:
    *_, answer = sent([*asks(ToolUseBlock("c1", "Read", {})), Message.user(result("c1"))])
    assert answer["parts"][0]["functionResponse"]["response"] == {"output": NO_OUTPUT}


def test_a_result_that_looks_like_a_reference_stays_a_string() -> None:
    text = '{"$ref": "q3.png"}'
    *_, answer = sent([*asks(ToolUseBlock("c1", "Read", {})), Message.user(result("c1", text))])
    assert answer["parts"][0]["functionResponse"]["response"] == {"output": text}


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip))
def test_text_of_every_plane_arrives_unchanged(text: str) -> None:
    messages = [
        Message.user(text),
        Message.assistant(text, ToolUseBlock("c1", "Read", {text: text})),
        Message.user(result("c1", text)),
    ]
    said, call, answer = sent(messages)
    assert said["parts"] == [{"text": text}]
    assert call["parts"][0] == {"text": text}
    assert call["parts"][1]["functionCall"]["args"] == {text: text}
    assert answer["parts"][0]["functionResponse"]["response"] == {"output": text}


# Files


def test_gemini_3_gets_pictures_and_pdfs_in_the_response_and_text_files_in_its_words() -> None:
    store = MemoryStore()
    messages = [*asks(ToolUseBlock("c1", "Report", {})), Message.user(result("c1", "Q3", *three_files(store)))]
    contents = sent(messages, store=store)
    assert len(contents) == 3
    assert contents[-1]["parts"] == [
        {
            "functionResponse": {
                "name": "Report",
                "response": {
                    "output": "Q3\nq3.png:\n[attached as file 1]\nq3.pdf:\n[attached as file 2]\nq3.csv:\nLöhne;1"
                },
                "parts": [inline("image/png", PNG), inline("application/pdf", PDF)],
            }
        }
    ]


def test_gemini_2_gets_all_files_after_the_results_each_with_its_label() -> None:
    store = MemoryStore()
    picture, *others = three_files(store)
    messages = [
        *asks(ToolUseBlock("c1", "Plot", {}), ToolUseBlock("c2", "Report", {})),
        Message.user(result("c1", "Q3", picture), result("c2", *others), "Well?"),
    ]
    *_, answers, after = sent(messages, OLD, store)
    assert [part["functionResponse"]["response"] for part in answers["parts"]] == [
        {"output": "Q3\n[q3.png is shown after the tool results]"},
        {"output": "[q3.pdf is shown after the tool results]\n[q3.csv is shown after the tool results]"},
    ]
    assert after == {
        "role": "user",
        "parts": [
            {"text": MOVED},
            {"text": "q3.png, from Plot (call c1):"},
            inline("image/png", PNG),
            {"text": "q3.pdf, from Report (call c2):"},
            inline("application/pdf", PDF),
            {"text": "q3.csv, from Report (call c2):"},
            {"text": "Löhne;1"},
            {"text": "Well?"},
        ],
    }


def test_a_failed_call_may_bring_files_too() -> None:
    store = MemoryStore()
    picture = three_files(store)[0]
    messages = [*asks(ToolUseBlock("c1", "Plot", {})), Message.user(result("c1", picture, is_error=True))]
    *_, answer = sent(messages, store=store)
    response = answer["parts"][0]["functionResponse"]
    assert response["response"] == {"error": "q3.png:\n[attached]"}
    assert response["parts"] == [inline("image/png", PNG)]


@pytest.mark.parametrize("model", [NEW, OLD])
def test_audio_of_a_tool_moves_after_the_results(model: str) -> None:
    store = MemoryStore()
    sound = store.put(Attachment(WAV, "audio/wav", name="bell.wav"))
    *_, answer, after = sent([*asks(ToolUseBlock("c1", "Ring", {})), Message.user(result("c1", sound))], model, store)
    assert "parts" not in answer["parts"][0]["functionResponse"]
    assert after["parts"][1:] == [{"text": "bell.wav, from Ring (call c1):"}, inline("audio/wav", WAV)]


@pytest.mark.parametrize("model", [NEW, OLD])
def test_files_that_a_person_sends_stand_beside_the_words(model: str) -> None:
    store = MemoryStore()
    picture, pdf, table = three_files(store)
    assert sent([Message.user("See:", picture, pdf, table)], model, store) == [
        {
            "role": "user",
            "parts": [
                {"text": "See:"},
                {"text": "q3.png:"},
                inline("image/png", PNG),
                {"text": "q3.pdf:"},
                inline("application/pdf", PDF),
                {"text": "q3.csv:"},
                {"text": "Löhne;1"},
            ],
        }
    ]


def test_a_gif_is_sent_in_a_form_that_gemini_takes() -> None:
    from PIL import Image

    output = io.BytesIO()
    Image.new("RGB", (2, 2)).save(output, "GIF")
    store = MemoryStore()
    gif = store.put(Attachment(output.getvalue(), name="cat.gif"))
    (content,) = sent([Message.user(gif)], store=store)
    assert content["parts"][1]["inlineData"]["mimeType"] in ("image/png", "image/jpeg")


def test_a_file_of_an_unknown_kind_becomes_a_note() -> None:
    store = MemoryStore()
    archive = store.put(Attachment(b"PK\x03\x04", "application/zip", name="all.zip"))
    *_, answer = sent([*asks(ToolUseBlock("c1", "Pack", {})), Message.user(result("c1", archive))], store=store)
    assert "all.zip" in answer["parts"][0]["functionResponse"]["response"]["output"]


# Thoughts and signatures


def test_signatures_go_back_on_the_very_parts_that_brought_them() -> None:
    messages = [
        Message.user("Go."),
        Message.assistant(
            ThinkingBlock("Let me see", state({"thoughtSignature": "dGhpbms="})),
            TextBlock("Well", state({"thoughtSignature": "dGV4dA=="})),
            ThinkingBlock("", state({"thoughtSignature": "Ymxhbms=", "text": ""})),
            ToolUseBlock("c1", "Read", {}, state=state({"thoughtSignature": SIGNATURE})),
        ),
        Message.user(result("c1", "text")),
    ]
    assert sent(messages)[1]["parts"] == [
        {"text": "Let me see", "thought": True, "thoughtSignature": "dGhpbms="},
        {"text": "Well", "thoughtSignature": "dGV4dA=="},
        {"text": "", "thoughtSignature": "Ymxhbms="},
        {"functionCall": {"name": "Read", "args": {}}, "thoughtSignature": SIGNATURE},
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        ProviderState("anthropic", NEW, {"signature": "x", "thoughtSignature": "x", "id": "x"}),
        state({"thoughtSignature": "x", "id": "x"}, model=OLD),
        state({"thoughtSignature": "x", "id": "x"}, route="elsewhere.example"),
        state("not what we wrote"),  # type: ignore[arg-type]
        None,
    ],
)
def test_what_another_model_made_is_replayed_without_its_thoughts_signatures_and_ids(
    foreign: ProviderState | None,
) -> None:
    messages = [
        Message.user("Go."),
        Message.assistant(
            ThinkingBlock("Hmm", foreign),
            TextBlock("Well", foreign),
            ToolUseBlock("toolu_1", "Read", {}, state=foreign),
            ToolUseBlock("toolu_2", "Read", {}, state=foreign),
        ),
        Message.user(result("toolu_1", "one"), result("toolu_2", "two")),
    ]
    call = {"functionCall": {"name": "Read", "args": {}}}
    assert sent(messages)[1]["parts"] == [{"text": "Well"}, call | {"thoughtSignature": NO_SIGNATURE}, call]
    assert sent([Message.user("Go."), Message.assistant(ThinkingBlock("Hmm", foreign)), Message.user("And?")]) == [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "user", "parts": [{"text": "And?"}]},
    ]


def test_each_step_of_foreign_calls_has_a_substitute_for_the_signature() -> None:
    step = [Message.assistant(ToolUseBlock("c1", "Read", {})), Message.user(result("c1", "text"))]
    contents = sent([Message.user("Go."), *step, *step])
    signatures = [part["thoughtSignature"] for c in contents for part in c["parts"] if "functionCall" in part]
    assert signatures == [NO_SIGNATURE, NO_SIGNATURE]


def test_models_that_ask_for_no_signature_get_no_substitute() -> None:
    contents = sent([*asks(ToolUseBlock("c1", "Read", {})), Message.user(result("c1", "text"))], OLD)
    assert contents[1]["parts"] == [{"functionCall": {"name": "Read", "args": {}}}]


def test_signatures_of_another_host_stay_there() -> None:
    here = Gemini(NEW, base_url="http://gateway.example/gemini")
    block = TextBlock("Well", state({"thoughtSignature": SIGNATURE}, route=here.route))
    messages = [Message.user("Go."), Message.assistant(block), Message.user("And?")]
    assert json.loads(here.render(request(messages)))["contents"][1]["parts"][0]["thoughtSignature"] == SIGNATURE
    assert sent(messages)[1]["parts"] == [{"text": "Well"}]


# The same bytes every time


def long_conversation(store: MemoryStore) -> list[Message]:
    return [
        Message.user("Go."),
        Message.assistant("Yes", ToolUseBlock("c1", "Read", {}), ToolUseBlock("c2", "Plot", {"b": 1, "a": 2})),
        Message.user(result("c1", "text"), result("c2", *three_files(store)), "And?"),
        Message.assistant(ThinkingBlock("Hmm", state({"thoughtSignature": SIGNATURE})), "There."),
        Message.user("Thanks"),
        Message.assistant(ToolUseBlock("c3", "Read", {})),
        Message.user(result("c3", "gone", is_error=True)),
    ]


def contents_bytes(body: bytes) -> bytes:
    return body.partition(b'"contents":[')[2].removesuffix(b"]}")


@pytest.mark.parametrize("model", [NEW, OLD])
def test_rendering_twice_gives_the_same_bytes(model: str) -> None:
    store = MemoryStore()
    messages = long_conversation(store)
    kept = request(messages, store, tools=(READ,))
    again = Gemini(model).render(kept)
    assert Gemini(model).render(kept) == again == Gemini(model).render(request(messages, store, tools=(READ,)))
    checked(again, model)


@pytest.mark.parametrize("model", [NEW, OLD])
def test_the_contents_of_a_turn_are_a_prefix_of_those_of_the_next(model: str) -> None:
    store, memory = MemoryStore(), dict[str, Any]()
    messages = long_conversation(store)
    earlier = b""
    for length in (1, 3, 5, 7):
        now = contents_bytes(Gemini(model).render(request(messages[:length], store, memory=memory, reminder="")))
        assert now.startswith(earlier)
        assert len(now) > len(earlier)
        earlier = now


# Refusals


def refusal(status: int, message: str, *details: Any) -> ErrorResponse:
    error = {"error": {"code": status, "message": message, "status": "X", "details": details}}
    return ErrorResponse(status, {}, json.dumps([error]).encode())


def test_a_wrong_key_is_told_apart_from_other_bad_requests() -> None:
    model = Gemini(NEW)
    wrong = model.explain(refusal(400, "API key not valid. Please pass a valid API key."), "hunter22")
    assert isinstance(wrong, AuthenticationError)
    assert "GEMINI_API_KEY" in str(wrong)
    other = model.explain(refusal(400, "Invalid function name: hunter22"), "hunter22")
    assert isinstance(other, RequestRefusedError)
    assert "hunter22" not in str(other)
    assert not other.retryable


def test_the_wait_that_the_body_asks_for_is_known() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39.5s"}
    error = Gemini(NEW).explain(refusal(429, "Quota exceeded", info), "")
    assert isinstance(error, RateLimitedError)
    assert (error.retryable, error.retry_after) == (True, 39.5)
    assert Gemini(NEW).explain(refusal(429, "Quota exceeded"), "").retry_after is None


def test_the_oracle_rejects_what_the_api_does_not_know() -> None:
    from google.genai import types

    with pytest.raises(ValueError, match="Extra inputs"):
        types.Content.model_validate_json('{"role": "user", "parts": [{"text": "x", "colour": "red"}]}')
    with pytest.raises(ValueError, match="Extra inputs"):
        types.Tool.model_validate_json('{"functionDeclarations": [{"name": "x", "input_schema": {}}]}')
