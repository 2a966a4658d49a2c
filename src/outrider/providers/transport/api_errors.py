"""Error responses of model APIs: the message, what to do about it, and whether to retry."""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec

from outrider import errors
from outrider.providers.credentials.secrets import masked
from outrider.providers.transport.http import ErrorResponse, retry_delay

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
LEAST_WINDOW = 512  # a smaller number in an error is not a context window


class BadCallError(errors.RequestRefusedError):
    """The server refused the model's own call. The body of its response can be read as a reply."""

    def __init__(self, message: str, body: bytes) -> None:
        super().__init__(message)
        self.body = body


def has_no_quota(response: ErrorResponse) -> bool:
    """Return whether the account has no credit left, which no retry changes."""
    return response.status == 429 and b"insufficient_quota" in response.body


def is_retryable(response: ErrorResponse) -> bool:
    if has_no_quota(response):
        return False
    advice = response.headers.get("x-should-retry", "").lower()
    if advice in ("true", "false"):
        return advice == "true"
    return response.status in (408, 409, 429) or response.status >= 500


def message_of(response: ErrorResponse) -> str:
    """Return the message in the body, in any of the usual shapes."""
    if "html" in response.headers.get("content-type", "").lower():
        return "it responded with a web page"
    try:
        body = msgspec.json.decode(response.body)
    except (ValueError, RecursionError):
        return response.body[:300].decode("utf-8", "replace").strip() or f"status {response.status}"
    return error_message(body) or f"status {response.status}"


def error_message(body: Any) -> str:
    """Return the message of an error: {"error": {"message": …}}, {"error": …}, {"message": …}, or a list of these."""
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict):
        return ""
    inner = body.get("error", body)
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("type") or inner.get("code") or ""
    return str(inner)[:1000]


def classified(
    status: int, message: str, *, label: str, model: str, key_variable: str
) -> tuple[type[errors.ProviderError], str]:
    if status in (401, 403):
        return (errors.AuthenticationError, f"{label} does not accept the key ({message}); check {key_variable}")
    if status == 404:
        return errors.RequestRefusedError, f"{label} does not know {model} ({message}); check its name"
    if status == 413:
        return (
            errors.RequestRefusedError,
            f"the request is too large for {label} ({message}); send fewer or smaller files",
        )
    if status == 429:
        return errors.RateLimitedError, f"{label} received too many requests ({message})"
    if status >= 500 or status in (408, 409):
        return errors.UnavailableError, f"{label} is not available: {status} ({message})"
    if status == 200:
        return (errors.ProviderError, f"{label} responded with a web page, not with a reply; check the URL and proxies")
    if 300 <= status < 400:
        return errors.RequestRefusedError, f"{label} redirects this URL to another one; check the base URL"
    return errors.RequestRefusedError, f"{label} refused the request: {message}; `outrider wire` shows what is sent"


def explained(response: ErrorResponse, kind: type[errors.ProviderError], sentence: str) -> errors.ProviderError:
    return kind(
        sentence,
        status=response.status,
        request_id=response.headers.get("request-id") or response.headers.get("x-request-id") or "",
        retryable=is_retryable(response),
        retry_after=retry_delay(response.headers, time.time),
    )


def mask_key(error: errors.ProviderError, key: str) -> None:
    """Remove the key from an error, and the errors behind it, which know the headers of the request."""
    error.args = (masked(str(error), key),)
    error.request_id = masked(error.request_id, key)
    error.__context__ = None


def too_long(error: errors.ProviderError) -> errors.ContextExceededError | None:
    """Return the error as one about the context window, or None if it is about something else.

    >>> found = too_long(errors.ProviderError("prompt is too long: 210000 tokens > 200000 maximum", status=400))
    >>> found.window
    200000
    """
    text = str(error)
    if isinstance(error, errors.ContextExceededError):
        return error
    if (
        error.status in (401, 403, 404, 429)
        or re.search(_RATE_WORDS, text, re.I)
        or not re.search(_WORDS, text, re.I | re.X)
    ):
        return None
    found = _of_the_window(error, f"{text.partition('; `outrider wire`')[0]}; {ADVICE}")
    found.window = limit_in(text)
    return found


def is_too_large(error: errors.ProviderError) -> bool:
    """Return whether a request had too many bytes. Some servers use the status for a rate of tokens."""
    is_known = isinstance(error, errors.ContextExceededError)
    return error.status == 413 and not is_known and not re.search(_RATE_WORDS, str(error), re.I)


def too_large(error: errors.ProviderError) -> errors.ProviderError:
    """Return an error about the bytes of a request as one about the context window: a shorter conversation may pass."""
    return _of_the_window(error, str(error)) if is_too_large(error) else error


def _of_the_window(error: errors.ProviderError, said: str) -> errors.ContextExceededError:
    found = errors.ContextExceededError(said, status=error.status)
    found.request_id, found.usage = error.request_id, error.usage
    return found


def limit_in(text: str) -> int | None:
    numbers = (group for match in re.finditer(_LIMIT, text, re.I | re.X) for group in match.groups() if group)
    windows = (int(number.replace(",", "")) for number in numbers)
    return next((window for window in windows if window >= LEAST_WINDOW), None)
