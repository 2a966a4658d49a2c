"""What a model or a file brought into the history does not block the conversation: it goes out in another form."""

from __future__ import annotations

import base64
import io
from typing import Any

import msgspec
import pytest
from pypdf import PdfReader, PdfWriter

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import (
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import MemoryStore
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.base import Request, ToolSpec
from outrider.providers.transport.http import ErrorResponse
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import JPEG_BYTES, PDF_BYTES, PNG, PNG_BYTES, STORE, exchange, result


def rendered(case: Case, *messages: Message, tools: tuple[ToolSpec, ...] = (), store: MemoryStore | None = None) -> str:
    return case.adapter().render(Request(messages, store or MemoryStore(), tools=tools)).decode()


@each(*ONE_EACH)
def test_a_file_of_a_failed_call(case: Case) -> None:
    """Claude refuses every request whose history has a failed result with anything but text in it."""
    messages = exchange(result("c1", "half a chart", PNG, failed=True))
    body = rendered(case, *messages, store=STORE)
    assert base64.b64encode(PNG_BYTES).decode() in body
    if case.api == "anthropic":
        answer, *moved = msgspec.json.decode(body)["messages"][2]["content"]
        assert answer["is_error"]
        assert "image" not in str(answer["content"])
        assert "image" in [block["type"] for block in moved]


@each(*ONE_EACH)
@pytest.mark.parametrize("name", ["functions.Read file!", "", "x" * 80])
def test_a_name_that_a_model_made_up(case: Case, name: str) -> None:
    use = ToolUseBlock("c1", name, {})
    answer = ToolResultBlock("c1", (TextBlock("There is no such tool."),), is_error=True)
    body = rendered(case, Message.user("go"), Message.assistant(use), Message.user(answer))
    assert f'"{name}"' not in body
    assert '"functions_Read_file_"' in body or '"unknown"' in body or f'"{"x" * 64}"' in body


@each(*ONE_EACH)
def test_rules_at_the_root_of_a_schema(case: Case) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "anyOf": [{"required": ["x"]}]}
    body = rendered(case, Message.user("go"), tools=(ToolSpec("look", "Look.", schema),))
    assert '"anyOf"' not in body
    assert '\\"anyOf\\":' in body, "the description says it, in words"


@pytest.mark.parametrize("data", [None, {}, "odd", {"signature": ""}, {"redacted": ""}])
def test_a_thought_that_cannot_be_proved(data: Any) -> None:
    thought = ThinkingBlock("hm", ProviderState("anthropic", "claude-sonnet-4-5", data))
    body = rendered(ONE_EACH[0], Message.user("go"), Message.assistant(thought, "ok"), Message.user("on"))
    assert "thinking" not in body


def locked() -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(PDF_BYTES)))
    writer.encrypt("secret", algorithm="RC4-128")
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()


@each(*ONE_EACH)
@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (b"%PDF-1.7 cut", "application/pdf"),
        (locked(), "application/pdf"),
        (JPEG_BYTES[: len(JPEG_BYTES) // 3], "image/jpeg"),
    ],
    ids=["damaged pdf", "locked pdf", "cut picture"],
)
def test_a_file_that_cannot_be_opened_is_a_note(case: Case, data: bytes, mime_type: str) -> None:
    store = MemoryStore()
    file = store.put(Attachment(data, mime_type, name="broken"))
    body = rendered(case, Message.user("look", file), store=store)
    assert "broken" in body
    assert "cannot be shown" in body
    assert "base64," not in body
    assert '"base64"' not in body


def test_a_key_for_openai_is_not_sent_to_a_server_that_the_program_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai")
    assert OpenAIChat("qwen3", base_url="http://127.0.0.1:1/v1").key == ""
    assert OpenAIChat("qwen3", base_url="http://127.0.0.1:1/v1", api_key="own").key == "own"
    assert OpenAIChat("gpt-5.6").key == "sk-for-openai"


def test_no_quota_is_said_and_not_tried_again() -> None:
    body = msgspec.json.encode({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}})
    error = Anthropic("claude-sonnet-4-5").explain(ErrorResponse(429, {}, body), "k")
    assert not error.retryable
    assert "no quota left" in str(error)
