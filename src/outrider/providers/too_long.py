"""Recognise the errors of APIs that say that a conversation is longer than the model's context window."""

from __future__ import annotations

import re

from outrider.errors import ContextExceededError, ProviderError

# These are compiled when the first error is seen: compiling takes milliseconds, and most programs see none.
_WORDS = r"""
    prompt\ is\ too\ long                                   # Anthropic: "prompt is too long: 2 tokens > 1 maximum"
    | exceeds?\ (the\ )?context\ (limit|window|length)      # Anthropic: "… exceed context limit: 1 + 2 > 2"
    | context[_ ](length|window)[_ ](is\ )?exceeded         # OpenAI: context_length_exceeded
    | maximum\ context\ (length|limit)                      # OpenAI, vLLM, OpenRouter
    | input\ token\ count\b.*\bexceeds\ the\ maximum        # Gemini
    | (available\ context|context\ size\b).*\bexceed        # llama.cpp, LM Studio
    | exceeds?\ the\ available\ context
    | exceed_context_size
    | input\ is\ too\ long                                  # Bedrock
    | maximum\ (prompt|model)\ length\ is                   # xAI, vLLM
    | reduce\ the\ length\ of\ the\ (messages|prompt)       # Groq, OpenAI
    | exceeded\ model\ token\ limit                         # Moonshot
    | too\ large\ for\ model\ with\ \d+\ maximum            # Mistral
    | (prompt|input)\ (token\ count|length)\b.*\bexceeds    # GitHub Copilot, Together, Alibaba
    | range\ of\ input\ length\ should\ be                  # Alibaba
    | greater\ than\ the\ context\ length                   # LM Studio
    | exceeds\ maximum\ context\ length                     # Ollama
    """
_RATE_WORDS = r"per[ _]min|\bTPM\b|rate[ _]limit|quota|too many requests"
_LIMIT = r"""
    >\ (\d[\d,]*)
    | maximum\ (?:context|prompt|model)\ (?:length|limit)\ (?:is|of)\ (\d[\d,]*)
    | maximum\ (?:context\ length|number\ of\ tokens\ allowed)\ \(?(\d[\d,]*)
    | (?:context\ size|token\ limit|limit|window|model)\ ?(?::|\(|of|with|is)\ ?\(?(\d[\d,]*)(?![\d,]*\ \+)
    """
ADVICE = "send less at once, or choose a model with a larger context window"
LEAST_WINDOW = 512
"""A smaller number in an error is not a context window."""


def too_long(error: ProviderError) -> ContextExceededError | None:
    """Return the error as one about the context window, or None if it is about something else.

    >>> found = too_long(ProviderError("prompt is too long: 210000 tokens > 200000 maximum", status=400))
    >>> found.window
    200000
    """
    text = str(error)
    if isinstance(error, ContextExceededError):
        return error
    if (
        error.status in (401, 403, 404, 429)
        or re.search(_RATE_WORDS, text, re.I)
        or not re.search(_WORDS, text, re.I | re.X)
    ):
        return None
    said = text.partition("; `outrider wire`")[0]
    found = ContextExceededError(f"{said}; {ADVICE}", status=error.status)
    found.request_id, found.usage = error.request_id, error.usage
    found.window = limit_in(text)
    return found


def limit_in(text: str) -> int | None:
    """Return the context window that an error names, or None."""
    numbers = (group for match in re.finditer(_LIMIT, text, re.I | re.X) for group in match.groups() if group)
    windows = (int(number.replace(",", "")) for number in numbers)
    return next((window for window in windows if window >= LEAST_WINDOW), None)
