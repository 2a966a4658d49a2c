"""From a name to a provider: prefixes, tiers, servers by URL, and what is said about names that mean nothing."""

from __future__ import annotations

import os
from typing import Any

import pytest

from outrider.errors import MissingKeyError, UnknownModelError
from outrider.providers.api import ApiProvider
from outrider.providers.catalogue import tiers
from outrider.providers.catalogue.capabilities import SAFE
from outrider.providers.catalogue.prices import context_tokens, rates_of
from outrider.providers.catalogue.tiers import TIERS, models_of
from outrider.providers.demo.demo import DemoModel
from outrider.providers.resolution import PREFIXES, resolve

TIERED = ("anthropic", "openai", "openai-chat", "gemini")
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}


@pytest.fixture(autouse=True)
def _no_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OUTRIDER_") and name != "OUTRIDER_HOME":
            monkeypatch.delenv(name)


def api(model: str) -> ApiProvider:
    provider = resolve(model)
    assert isinstance(provider, ApiProvider)
    return provider


# Prefixes


@pytest.mark.parametrize("prefix", [prefix for prefix in PREFIXES if prefix != "demo"])
def test_every_prefix_has_an_adapter_that_keeps_the_name(prefix: str) -> None:
    provider = api(f"{prefix}/some-model:7b")
    assert (provider.name, provider.model, provider.prefix) == (f"{prefix}/some-model:7b", "some-model:7b", prefix)


def test_a_model_may_have_slashes_in_its_name() -> None:
    assert api("litellm/anthropic/claude-sonnet-4-5").model == "anthropic/claude-sonnet-4-5"
    assert api("openai-chat/Qwen/Qwen3-8B").model == "Qwen/Qwen3-8B"


def test_white_space_around_a_name_does_not_count() -> None:
    assert resolve(" anthropic/claude-sonnet-4-5\n").name == "anthropic/claude-sonnet-4-5"


def test_a_provider_stands_for_itself() -> None:
    model = DemoModel()
    assert resolve(model) is model


@pytest.mark.parametrize("model", [None, 5, b"demo", object()])
def test_what_is_neither_a_name_nor_a_provider_is_refused(model: Any) -> None:
    with pytest.raises(UnknownModelError, match="a name or a provider object, not"):
        resolve(model)


# Names without a provider


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("claude-sonnet-4-20250514", "anthropic/claude-sonnet-4-20250514"),
        ("gpt-5.6", "openai/gpt-5.6"),
        ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
        ("ft:gpt-4o-mini:acme::9", "openai/ft:gpt-4o-mini:acme::9"),
        ("o3", "openai/o3"),
        ("o4-mini", "openai/o4-mini"),
        ("gemini-3-pro", "gemini/gemini-3-pro"),
        (" gpt-5.6\n", "openai/gpt-5.6"),
    ],
)
def test_a_vendors_own_name_finds_its_provider(name: str, found: str) -> None:
    assert resolve(name).name == found


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("prefix", ["anthropic", "openai", "gemini"])
def test_every_model_of_a_tier_is_found_without_its_provider(prefix: str, tier: str) -> None:
    assert resolve(models_of(prefix)[tier]).name == f"{prefix}/{models_of(prefix)[tier]}"


@pytest.mark.parametrize("name", ["o33", "gpt-oss-120b", "claude-", "gpt", "llama-4", "gpt-5.6/mini"])
def test_a_name_that_is_not_surely_one_vendors_is_refused(name: str) -> None:
    with pytest.raises(UnknownModelError, match=f"there is no model {name!r}"):
        resolve(name)


# Names that mean nothing


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Claude-Opus-5-5", "anthropic/claude-opus-5-5"),
        ("claude", f"anthropic/{models_of('anthropic')['balanced']}"),
        ("ChatGPT", f"openai/{models_of('openai')['balanced']}"),
        ("gpt-oss:20b", "ollama/gpt-oss:20b"),
        ("models/o3", "openai/o3"),
        ("antropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("OpenAI/gpt-5.6", "openai/gpt-5.6"),
        ("openai_chat/gpt-5.6", "openai-chat/gpt-5.6"),
        ("google/gemini-3-pro", "gemini/gemini-3-pro"),
        ("blanced", "balanced"),
    ],
)
def test_a_name_that_is_nearly_right_gets_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        resolve(name)
    assert f"did you mean {meant!r}?" in str(caught.value)


@pytest.mark.parametrize("name", ["", "   ", "llama", "grok/llama-3", "/gpt", "ftp://host/v1#m"])
def test_a_name_that_means_nothing_gets_the_list_of_those_that_do(name: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        resolve(name)
    for known in (*PREFIXES, *TIERS, "http://host:port/v1#model"):
        assert known in str(caught.value)


@pytest.mark.parametrize("prefix", [prefix for prefix in PREFIXES if prefix != "demo"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_provider_without_a_model_is_refused_with_an_example(prefix: str, slash: str) -> None:
    with pytest.raises(UnknownModelError, match=f"names no model.*'{prefix}/[a-z]"):
        resolve(prefix + slash)


# Tiers


@pytest.mark.parametrize("prefix", TIERED)
@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_is_a_current_model_that_the_tables_know(prefix: str, tier: str) -> None:
    provider = api(f"{prefix}/{tier}")
    assert provider.name == f"{prefix}/{models_of(prefix)[tier]}"
    assert rates_of(prefix, provider.model), "it is in the price list"
    assert context_tokens(prefix, provider.model)
    assert provider.capabilities != SAFE, "it is in the table of capabilities"


@pytest.mark.parametrize("prefix", TIERED)
def test_a_higher_tier_costs_more(prefix: str) -> None:
    costs = [rates_of(prefix, model)[-1].output for model in models_of(prefix).values()]
    assert costs == sorted(costs)
    assert len(set(costs)) == 3


@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_without_a_key_names_the_variables_and_is_never_the_demo_model(tier: str) -> None:
    wanted = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, run `outrider login`"
    with pytest.raises(MissingKeyError, match=f"no key for the model '{tier}'; {wanted}") as refused:
        resolve(tier)
    assert "the model `demo` needs no key" in str(refused.value)


@pytest.mark.parametrize("first", tiers.ORDER)
def test_a_tier_alone_is_of_the_first_provider_with_a_key(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix in tiers.ORDER[tiers.ORDER.index(first) :]:
        monkeypatch.setenv(KEYS[prefix], "a-key")
    assert resolve("fast").name == f"{first}/{models_of(first)['fast']}"


def test_the_user_may_set_the_model_of_a_providers_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_OPENAI_CHAT_FAST", "gpt-4.1-nano")
    assert resolve("openai-chat/fast").name == "openai-chat/gpt-4.1-nano"
    assert resolve("openai/fast").name == f"openai/{models_of('openai')['fast']}"


def test_the_user_may_set_the_model_of_a_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    monkeypatch.setenv("OUTRIDER_FAST", "openai/gpt-5.4-mini")
    assert resolve("fast").name == "openai/gpt-5.4-mini"
    assert resolve("balanced").name.startswith("anthropic/")
    monkeypatch.setenv("OUTRIDER_FAST", "balanced")
    with pytest.raises(UnknownModelError, match="OUTRIDER_FAST is 'balanced', which is a tier itself"):
        resolve("fast")


def test_a_provider_without_tiers_takes_the_word_as_a_name() -> None:
    assert resolve("ollama/fast").name == "ollama/fast"


# Servers by URL


@pytest.mark.parametrize(
    ("name", "base", "model"),
    [
        ("http://localhost:8000/v1#qwen3", "http://localhost:8000/v1", "qwen3"),
        ("https://models.example/api/v1/#Qwen/Qwen3-8B", "https://models.example/api/v1", "Qwen/Qwen3-8B"),
        ("http://[::1]:8000/v1#m#1", "http://[::1]:8000/v1", "m#1"),
    ],
)
def test_a_url_is_an_openai_compatible_server(name: str, base: str, model: str) -> None:
    provider = api(name)
    assert (provider.base_url, provider.model) == (base, model)
    assert provider.url() == f"{base}/chat/completions"
    assert provider.name == f"{base}#{model}"
    assert resolve(provider.name).name == provider.name


@pytest.mark.parametrize("name", ["http://localhost:8000/v1", "http://localhost:8000/v1#", "https://#m"])
def test_a_url_without_a_model_or_a_host_is_refused(name: str) -> None:
    with pytest.raises(UnknownModelError, match="http://host:port/v1#model"):
        resolve(name)


def test_a_url_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UnknownModelError, match="OPENAI_COMPATIBLE_API_KEY") as caught:
        resolve("https://me:hunter22@models.example/v1#m")
    assert "hunter22" not in str(caught.value)


def test_the_key_for_openai_is_not_sent_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai-only")
    provider = api("http://localhost:8000/v1#qwen3")
    assert not provider.key_required
    assert provider.key == ""
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "for-the-server")
    assert provider.key == "for-the-server"


def test_a_local_server_with_a_vision_model_is_shown_pictures() -> None:
    assert api("http://localhost:8000/v1#qwen2.5-vl-7b").capabilities.image == "moved"
    assert api("http://localhost:8000/v1#qwen3").capabilities.image == "no"
