"""Errors that say that a conversation is too long, in the words of each API."""

from __future__ import annotations

import pytest

from outrider.errors import ContextExceededError, ProviderError, RateLimitedError
from outrider.providers.transport.api_errors import too_long

TEXTS = {
    "anthropic": ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
    "anthropic with max_tokens": (
        "input length and `max_tokens` exceed context limit: 188059 + 20000 > 200000, decrease input length or "
        "`max_tokens` and try again",
        200_000,
    ),
    "openai": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 129124 tokens. "
        "Please reduce the length of the messages.",
        128_000,
    ),
    "openai responses": ("Your input exceeds the context window of this model. Please adjust your input.", None),
    "openai code": ("context_length_exceeded", None),
    "gemini": (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1_048_575,
    ),
    "gemini without count": ("The input token count exceeds the maximum number of tokens allowed 1048576.", 1_048_576),
    "llama.cpp": ("request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it", 8_192),
    "older llama.cpp": (
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        None,
    ),
    "llama-cpp-python": ("Requested tokens (2285) exceed context window of 2048", 2_048),
    "vllm": (
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
        "messages, 10000 in the completion). Please reduce the length of the messages or completion.",
        16_384,
    ),
    "openrouter": (
        "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307 tokens (94307 of "
        'text input). Please reduce the length of either one, or use the "middle-out" transform.',
        16_384,
    ),
    "bedrock": ("Input is too long for requested model.", None),
    "xai": ("This model's maximum prompt length is 131072 but the request contains 537812 tokens", 131_072),
    "moonshot": ("Invalid request: Your request exceeded model token limit: 262144", 262_144),
    "mistral": ("Prompt contains 40000 tokens ... too large for model with 32768 maximum context length", 32_768),
    "together": ("Input length (265330) exceeds model's maximum context length (262144).", 262_144),
    "ollama": ("the input length exceeds the context length", None),
}
OTHERS = (
    "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens",
    "Request too large for gpt-4o on tokens per min (TPM): Limit 10000, Requested 20000",
    "messages.1.content.0.image: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    "string too long. Expected a string with maximum length 64, but got a string with length 70 instead",
    "tools.0.custom.input_schema: invalid",
)


@pytest.mark.parametrize(("text", "window"), TEXTS.values(), ids=TEXTS)
def test_each_api_says_it_in_its_own_words(text: str, window: int | None) -> None:
    found = too_long(ProviderError(f"the API refused the request: {text}; see the log", status=400))
    assert isinstance(found, ContextExceededError)
    assert found.window == window
    assert not found.retryable
    assert text in str(found)


@pytest.mark.parametrize("text", OTHERS)
def test_other_limits_are_not_the_context_window(text: str) -> None:
    assert too_long(ProviderError(text, status=400)) is None


def test_a_rate_limit_is_not_the_context_window() -> None:
    assert too_long(RateLimitedError("prompt is too long for your tier", status=429)) is None


def test_a_server_error_that_is_about_the_window_is_not_retried() -> None:
    found = too_long(ProviderError("the request exceeds the available context size", status=500, retryable=True))
    assert found is not None
    assert not found.retryable
