"""Vendors by name: where requests go, with which key, and what each server wants that others do not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outrider.coding.command_environment import command_environment
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import AuthenticationError
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.api import ApiProvider
from outrider.providers.base import ModelSettings, Request
from outrider.providers.catalogue.vendors import VENDORS
from outrider.providers.credentials.secrets import MODEL_KEYS, configured, masked
from outrider.providers.resolution import resolve
from tests.modelserver import Answer, ModelServer
from tests.providers.canned import LOOK, ask, delta, events

each_vendor = pytest.mark.parametrize("prefix", VENDORS)
CALL = ToolUseBlock("call_abcdefghijklmnop", "look", {"path": "a"})
RESULT = ToolResultBlock(CALL.id, (TextBlock("seen"),))
CALLED = (Message.user("Look."), Message.assistant(CALL), Message.user(RESULT))


def adapter(name: str) -> ApiProvider:
    found = resolve(name)
    assert isinstance(found, ApiProvider)
    return found


def body(model: ApiProvider, *messages: Message, **fields: Any) -> dict[str, Any]:
    request = Request(messages, MemoryStore(), tools=(LOOK,), **fields)
    decoded: dict[str, Any] = msgspec.json.decode(model.render(request))
    return decoded


@each_vendor
async def test_a_vendor_gets_the_name_after_its_own_and_its_key(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vendor = VENDORS[prefix]
    assert adapter(f"{prefix}/a/b:c").url() == f"{vendor.base_url}/chat/completions"
    async with ModelServer([Answer("Hello.")]) as server:
        monkeypatch.setenv(vendor.base_variable, f"{server.url}/v1/")
        monkeypatch.setenv(vendor.key_variables[-1], "the-key-of-the-vendor")
        model = adapter(f"{prefix}/maker/some-model:free")
        items = [item async for item in model.stream(Request([Message.user("Hi")], MemoryStore()))]
    assert items[-1].text == "Hello."  # type: ignore[union-attr]
    (asked,) = server.requests
    assert msgspec.json.decode(asked.body)["model"] == "maker/some-model:free"
    assert asked.headers["authorization"] == "Bearer the-key-of-the-vendor"


@each_vendor
async def test_a_missing_key_is_named(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VENDORS[prefix].key_variables:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(AuthenticationError, match=f"set {VENDORS[prefix].key_variables[0]}"):
        await anext(aiter(adapter(f"{prefix}/m").stream(Request([Message.user("Hi")], MemoryStore()))))


@pytest.mark.parametrize(
    "name",
    [
        *(name for vendor in VENDORS.values() for name in vendor.key_variables),
        *("AZURE_OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "VERTEX_ACCESS_TOKEN"),
    ],
)
def test_the_keys_of_vendors_reach_no_command_and_no_log(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in MODEL_KEYS
    assert command_environment({name: "secret", "HOME": "/"}) == {"HOME": "/"}
    monkeypatch.setenv(name, "entirely-unremarkable")
    assert "unremarkable" not in masked("bad key entirely-unremarkable", *configured())


# Mistral


def test_mistral_gets_a_reply_between_results_and_the_user_s_words() -> None:
    said = Message.user(RESULT, "And now?")
    roles = [each["role"] for each in body(adapter("mistral/m"), *CALLED[:2], said)["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    others = [each["role"] for each in body(adapter("groq/m"), *CALLED[:2], said)["messages"]]
    assert others == ["user", "assistant", "tool", "user"]


def test_mistral_gets_a_reply_before_a_reminder_too() -> None:
    reminded = body(adapter("mistral/m"), *CALLED, reminder="Last turn.")["messages"]
    assert [each["role"] for each in reminded[-3:]] == ["tool", "assistant", "user"]
    assert reminded[-2]["content"] == "OK"
    assert [each["role"] for each in body(adapter("mistral/m"), *CALLED)["messages"]][-1] == "tool"


@pytest.mark.parametrize("call_id", ["call_abcdefghijklmnop", "", "toolu_01ä", "x", "D681PevKs"])
def test_mistral_gets_ids_of_nine_characters_that_still_pair(call_id: str) -> None:
    call, result = ToolUseBlock(call_id, "look", {}), ToolResultBlock(call_id, (TextBlock("seen"),))
    messages = body(adapter("mistral/m"), Message.user("Hi"), Message.assistant(call), Message.user(result))["messages"]
    sent = messages[1]["tool_calls"][0]["id"]
    assert sent == messages[2]["tool_call_id"]
    assert len(sent) == 9
    assert sent.isalnum()
    assert (sent == call_id) is (call_id == "D681PevKs")


def test_the_quirks_of_a_vendor_apply_to_its_url_as_well() -> None:
    named = body(CompatibleServer("mistral-small", "https://api.mistral.ai/v1"), *CALLED)
    assert len(named["messages"][1]["tool_calls"][0]["id"]) == 9
    assert "stream_options" not in named
    assert "stream_options" in body(CompatibleServer("m", "http://localhost:8000/v1"), *CALLED)


async def test_mistral_s_thinking_parts_are_thinking_and_go_back_as_parts() -> None:
    def thought(text: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}

    stream = events(
        delta(content=[thought("Let me ")]),
        delta(content=[thought("see.")]),
        delta(content=[{"type": "text", "text": "It is "}]),
        delta("stop", content="4."),
    )
    model = adapter("mistral/magistral-medium")
    model._api_key = "k"
    heard = await ask(model, [stream])
    assert (heard.thinking, heard.text, heard.reply.text) == ("Let me see.", "It is 4.", "It is 4.")
    sent = body(model, Message.user("2+2?"), heard.reply.message, Message.user("Sure?"))["messages"][1]
    assert sent["content"] == [thought("Let me see."), {"type": "text", "text": "It is 4."}]
    moved = body(adapter("groq/x"), Message.user("2+2?"), heard.reply.message, Message.user("Sure?"))["messages"][1]
    assert moved == {"role": "assistant", "content": "It is 4."}


# OpenRouter and Groq


async def test_usage_in_groq_s_own_field_counts() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    stream = events(delta(content="Hi"), delta("stop") | {"x_groq": {"id": "req_1", "usage": usage}})
    model = adapter("groq/m")
    model._api_key = "k"
    heard = await ask(model, [stream])
    assert (heard.reply.usage.input_tokens, heard.reply.usage.output_tokens) == (20, 5)


async def test_openrouter_says_what_a_reply_cost() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "cost": 0.0123}
    model = adapter("openrouter/some/model")
    model._api_key = "k"
    heard = await ask(model, [events(delta("stop", content="Hi"), {"choices": [], "usage": usage})])
    assert heard.reply.usage.cost == 0.0123


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("groq/meta-llama/llama-4-scout-17b-16e-instruct", True),
        ("mistral/mistral-medium-3-5", True),
        ("mistral/mistral-small-latest", True),
        ("mistral/pixtral-12b-2409", True),
        ("xai/grok-4.3", True),
        ("openrouter/openai/gpt-4o", True),
        ("openrouter/anthropic/claude-sonnet-4.5", True),
        ("together/Qwen/Qwen2.5-VL-72B-Instruct", True),
        ("azure/gpt-5.6", True),
        ("groq/llama-3.3-70b-versatile", False),
        ("deepseek/deepseek-v4-flash", False),
        ("cerebras/gpt-oss-120b", False),
    ],
)
def test_hosted_vision_models_get_pictures(name: str, sees: bool) -> None:
    assert (adapter(name).capabilities.image == "moved") is sees


# Azure


def test_azure_has_the_url_of_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_BASE_URL", "https://mine.openai.azure.com/")
    assert adapter("azure/chat").url() == "https://mine.openai.azure.com/openai/v1/chat/completions"
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-04-01-preview")
    model = adapter("azure/chat")
    path = "openai/deployments/chat/chat/completions?api-version=2025-04-01-preview"
    assert model.url() == f"https://mine.openai.azure.com/{path}"
    assert model.headers("k")["api-key"] == "k"
    assert "max_completion_tokens" in body(model, *CALLED, settings=ModelSettings(max_tokens=9))


async def test_azure_without_an_address_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    with pytest.raises(AuthenticationError, match="set AZURE_BASE_URL"):
        await anext(aiter(adapter("azure/chat").stream(Request([Message.user("Hi")], MemoryStore()))))
