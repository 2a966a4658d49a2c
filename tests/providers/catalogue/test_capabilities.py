"""What each model takes, by the table and by the user's own word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.errors import ProviderError
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.api import ApiProvider
from outrider.providers.catalogue.capabilities import SAFE, capabilities_of
from outrider.providers.resolution import resolve


@pytest.mark.parametrize(
    ("provider", "model", "image"),
    [
        ("anthropic", "claude-sonnet-5-5", "native"),
        ("openai", "gpt-5.6", "native"),
        ("openai-chat", "gpt-5.6", "moved"),
        ("gemini", "gemini-3-pro", "native"),
        ("gemini", "gemini-2.5-pro", "moved"),
        ("ollama", "llava", "moved"),
        ("ollama", "qwen2.5vl", "moved"),
        ("ollama", "qwen2.5vl:7b", "moved"),
        ("ollama", "gemma3:1b", "no"),
        ("ollama", "gemma3:27b", "moved"),
        ("ollama", "llama3.2", "no"),
        ("litellm", "azure/gpt-5", "moved"),
        ("litellm", "bedrock/anthropic.claude-sonnet-4-5", "native"),
        ("openai-chat", "unheard-of", "no"),
        ("openai-chat", "chatgpt-4o-latest", "moved"),
        ("openai-chat", "openai/gpt-4o", "moved"),
        ("openai-chat", "gpt-4", "no"),
        ("openai-chat", "gpt-4-0613", "no"),
        ("openai-chat", "o3-mini", "no"),
        ("openai-chat", "gpt-oss-120b", "no"),
        ("openai-chat", "deepseek-chat", "no"),
        ("openai", "o3-mini", "no"),
        ("ollama", "mistral-small3.2", "moved"),
        ("ollama", "mistral-small:24b", "no"),
        ("litellm", "xai/grok-4", "moved"),
        ("litellm", "groq/meta-llama/llama-4-scout-17b-16e-instruct", "moved"),
        ("litellm", "openrouter/openai/gpt-4o", "moved"),
        ("litellm", "mistral/mistral-large-2411", "no"),
        *(
            ("openai-compatible", model, "moved")
            for model in (
                "pixtral-12b-2409",
                "pixtral-large-latest",
                "grok-4",
                "grok-4-fast-reasoning",
                "grok-2-vision-1212",
                "openai/gpt-4o",
                "openai/gpt-5.6:floor",
                "anthropic/claude-sonnet-4.5",
                "google/gemini-3-pro",
                "google/gemma-3-27b-it:free",
                "meta-llama/llama-4-maverick-17b-128e-instruct",
                "meta-llama/Llama-3.2-11B-Vision-Instruct",
                "mistral-medium-latest",
                "mistral-medium-2508",
                "mistral-small-2506",
                "Qwen/Qwen2.5-VL-7B-Instruct",
                "qwen3-vl-30b-a3b",
                "z-ai/glm-4.5v",
                "moonshotai/kimi-k2.5",
                "OpenGVLab/InternVL3-8B",
                "microsoft/Phi-4-multimodal-instruct",
                "amazon.nova-pro-v1:0",
            )
        ),
        *(
            ("openai-compatible", model, "no")
            for model in (
                "qwen3",
                "google/gemma-3-1b-it",
                "grok-3",
                "x-ai/grok-code-fast-1",
                "mistral-small-2501",
                "mistral-large-2411",
                "mistral-medium-2312",
                "openai/gpt-oss-120b",
                "openai/o1-mini",
                "deepseek/deepseek-v3.2",
                "meta-llama/llama-3.3-70b-instruct",
                "z-ai/glm-4.6",
                "moonshotai/kimi-k2-thinking",
            )
        ),
    ],
)
def test_pictures_go_where_the_table_says(provider: str, model: str, image: str) -> None:
    assert capabilities_of(provider, model).image == image


def test_a_file_of_the_users_goes_before_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "capabilities.json"
    file.write_text('{"openai-chat/My-Model*": {"image": "moved", "images": 3}}')
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(file))
    mine = capabilities_of("openai-chat", "my-model-7b")
    assert (mine.image, mine.images, mine.pdf) == ("moved", 3, SAFE.pdf)
    assert capabilities_of("openai-chat", "other").image == SAFE.image


@pytest.mark.parametrize(
    "pattern",
    [
        "http://localhost:8000/v1#My-Model",
        "http://localhost:8000/v1#my-*",
        "http://localhost:8000/*",
        "*#my-model",
        "openai-compatible/my-model",
    ],
)
def test_a_model_of_a_compatible_server_goes_by_its_url(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "capabilities.json"
    file.write_text(json.dumps({pattern: {"image": "moved", "context_tokens": 9000}}))
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(file))
    for base in ("http://localhost:8000/v1", "http://localhost:8000/v1/"):
        model = resolve(f"{base}#my-model")
        assert isinstance(model, CompatibleServer)
        assert (model.capabilities.image, model.capabilities.context_tokens) == ("moved", 9000)
    other = resolve("http://localhost:8001/v1#another")
    assert isinstance(other, CompatibleServer)
    assert other.capabilities.image == "no"


def test_an_address_in_brackets_is_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "capabilities.json"
    file.write_text('{"http://[::1]:8000/v1#m": {"image": "moved"}}')
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(file))
    assert CompatibleServer("m", "http://[::1]:8000/v1").capabilities.image == "moved"


def test_servers_with_narrower_limits_keep_them() -> None:
    llama = "meta-llama/llama-4-scout-17b-16e-instruct"
    groq = CompatibleServer(llama, "https://api.groq.com/openai/v1").capabilities
    assert (groq.image, groq.images) == ("moved", 5)
    assert CompatibleServer(llama, "https://openrouter.ai/api/v1").capabilities.images > 5
    assert CompatibleServer("pixtral-12b", "https://api.mistral.ai/v1").capabilities.images == 8


@pytest.mark.parametrize("content", [None, "{", "[]", '{"a": {"image": "sideways"}}', '{"a": {"imagge": "no"}}'])
def test_one_that_cannot_be_used_is_named(content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "capabilities.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(file))
    with pytest.raises(ProviderError, match="the file in OUTRIDER_CAPABILITIES"):
        capabilities_of("openai-chat", "a")


CLAUDES = ("opus-4-6", "sonnet-5", "haiku-5-5", "fable-5", "mythos-5", "haiku-5", "sonnet-4-5")


@pytest.mark.parametrize("name", CLAUDES)
def test_claude_takes_as_many_pictures_and_pages_as_its_window_allows(name: str) -> None:
    model = resolve(f"anthropic/claude-{name}")
    assert isinstance(model, ApiProvider)
    most = 600 if (model.window or 0) > 200_000 else 100
    assert (model.capabilities.images, model.capabilities.pdf_pages) == (most, most)
