"""How much a model thinks: what each API gets for each level, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outrider import Agent
from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.errors import RequestRefusedError
from outrider.providers.api import ApiProvider
from outrider.providers.base import EFFORTS, Effort, ModelSettings, Request
from outrider.providers.catalogue import tiers
from outrider.providers.catalogue.efforts import levels_for
from outrider.providers.catalogue.known_models import known_models
from outrider.providers.resolution import resolve
from tests.oracles import type_errors

ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def sent(name: str, effort: Effort, **settings: Any) -> dict[str, Any]:
    model = resolve(name)
    assert isinstance(model, ApiProvider)
    asked = Request([Message.user("Hi")], MemoryStore(), settings=ModelSettings(effort, **settings))
    body: dict[str, Any] = msgspec.json.decode(model.render(asked))
    return body


@pytest.mark.parametrize(
    ("name", "effort", "expected"),
    [
        ("anthropic/claude-opus-5-5", "max", {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}),
        ("anthropic/claude-sonnet-4-6", "low", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
        ("anthropic/claude-sonnet-5-5", "none", {"thinking": {"type": "disabled"}}),
        ("anthropic/claude-sonnet-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 16384}}),
        ("openai/gpt-6.1-sol", "max", {"reasoning": {"effort": "max"}}),
        ("openai/gpt-5.2", "max", {"reasoning": {"effort": "xhigh"}}),
        ("openai/gpt-5.1", "none", {"reasoning": {"effort": "none"}}),
        ("openai/gpt-5", "none", {"reasoning": {"effort": "minimal"}}),
        ("openai/o3", "medium", {"reasoning": {"effort": "medium"}}),
        ("openai-chat/gpt-5.6-terra", "max", {"reasoning_effort": "max"}),
        ("openrouter/anthropic/claude-sonnet-4.5", "high", {"reasoning": {"effort": "high"}}),
        ("deepseek/deepseek-v4-flash", "none", {"thinking": {"type": "disabled"}}),
        ("mistral/mistral-small-2603", "high", {"reasoning_effort": "high"}),
        ("groq/qwen/qwen3-32b", "none", {"reasoning_effort": "none"}),
        ("xai/grok-4.3", "low", {"reasoning_effort": "low"}),
        ("ollama/gpt-oss:20b", "low", {"reasoning_effort": "low"}),
    ],
)
def test_each_model_gets_its_own_words(name: str, effort: Effort, expected: dict[str, Any]) -> None:
    body = sent(name, effort)
    assert {field: body.get(field) for field in expected} == expected


@pytest.mark.parametrize(
    ("name", "effort", "expected"),
    [
        ("gemini/gemini-4-argon", "max", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini/gemini-3.8-flash", "none", {"thinkingLevel": "minimal"}),
        ("gemini/gemini-2.5-pro", "max", {"thinkingBudget": 32768, "includeThoughts": True}),
        ("gemini/gemini-2.5-flash", "none", {"thinkingBudget": 0}),
    ],
)
def test_gemini_gets_a_level_or_a_budget(name: str, effort: Effort, expected: dict[str, Any]) -> None:
    assert sent(name, effort)["generationConfig"]["thinkingConfig"] == expected


@pytest.mark.parametrize(
    ("name", "effort", "sentence"),
    [
        ("openai/gpt-4o", "high", "openai/gpt-4o has no effort that could be set"),
        ("anthropic/claude-3-5-haiku-latest", "low", "has no effort that could be set"),
        ("gemini/gemini-2.0-flash", "low", "has no effort that could be set"),
        ("anthropic/claude-fable-5", "none", "it has low, medium, high, max"),
        ("gemini/gemini-2.5-pro", "none", "it has low, medium, high, max"),
        ("gemini/gemini-3-pro", "medium", "it has low, high, max"),
        ("openai/gpt-5-pro", "low", "it has high, max"),
        ("groq/llama-3.3-70b-versatile", "low", "has no effort that could be set"),
    ],
)
def test_a_level_that_a_model_does_not_have_is_refused(name: str, effort: Effort, sentence: str) -> None:
    with pytest.raises(RequestRefusedError, match=sentence):
        sent(name, effort)


async def test_a_refused_effort_ends_the_run_with_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    result = await Agent("openai/gpt-4o", effort="high").run("Hi")
    assert result.status == "error"
    assert "openai/gpt-4o has no effort that could be set; leave effort out" in result.error


@pytest.mark.sampled(2)
@pytest.mark.parametrize("prefix", ["anthropic", "openai", "openai-chat", "gemini"])
@pytest.mark.parametrize("tier", tiers.TIERS)
def test_the_vendor_s_types_take_every_level_of_every_tier(prefix: str, tier: str) -> None:
    levels = levels_for(resolve(f"{prefix}/{tier}"))
    assert levels
    for effort in levels:
        assert type_errors(prefix, sent(f"{prefix}/{tier}", effort)) == []


def test_a_call_that_must_be_made_is_made_without_thinking() -> None:
    assert "thinking" not in sent("anthropic/claude-sonnet-5-5", "high", tool_choice="required")
    assert sent("anthropic/claude-sonnet-5-5", "high", tool_choice="required")["output_config"] == {"effort": "high"}


def test_a_budget_leaves_room_for_the_reply() -> None:
    body = sent("anthropic/claude-sonnet-4-5", "max", max_tokens=8000)
    assert body["thinking"]["budget_tokens"] < body["max_tokens"] == 8000


def test_the_facts_are_dated_and_complete() -> None:
    facts = known_models()
    assert facts.date >= "2026-11-15"
    assert {scale for _, _, scale in facts.efforts.models} - {""} <= facts.efforts.scales.keys()
    assert all(set(levels) <= set(EFFORTS) for levels in facts.efforts.scales.values())
