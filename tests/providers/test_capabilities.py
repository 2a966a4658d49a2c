"""What each model takes, by the table and by the user's own word."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.errors import ProviderError
from outrider.providers.capabilities import SAFE, capabilities_of


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
    assert capabilities_of("openai-chat", "other") == SAFE


@pytest.mark.parametrize("content", [None, "{", "[]", '{"a": {"image": "sideways"}}', '{"a": {"imagge": "no"}}'])
def test_one_that_cannot_be_used_is_named(content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "capabilities.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(file))
    with pytest.raises(ProviderError, match="OUTRIDER_CAPABILITIES names"):
        capabilities_of("openai-chat", "a")
