"""Errors of Chat Completions servers: their statuses, the window that they state, and calls that they refuse."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from outrider.providers.adapters import model_lookup
from outrider.providers.streams.chat_stream import is_bad_call

_WINDOW = re.compile(rb'(?:maximum context length is|"n_ctx"\s*:|context size \(|context window of)\s*(\d{3,9})')
"""The context window in the errors of vLLM, llama.cpp, LM Studio and others."""
# Words in the type or code of an error in the stream, and the HTTP status that the error corresponds to.
_STATUSES = {
    "rate_limit": 429,
    "too_many": 429,
    "quota": 429,
    "overloaded": 503,
    "unavailable": 503,
    "timeout": 504,
    "server": 500,
    "internal": 500,
    "api_error": 500,
    "api_key": 401,
    "authentication": 401,
    "invalid": 400,
    "bad": 400,
    "context_length": 400,
}


def stated_window(body: bytes) -> int | None:
    """Return the context window in tokens that the error of a server states.

    >>> stated_window(b'{"error": {"message": "This model\\'s maximum context length is 16384 tokens."}}')
    16384
    """
    found = _WINDOW.search(body[:5_000])
    return model_lookup.window_in(int(found[1])) if found else None


def has_bad_call(body: bytes) -> bool:
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and is_bad_call(value.get("error"))


def status_of(error: Any) -> int | None:
    """Return the HTTP status that an error in the stream corresponds to, or None if it is not known."""
    if not isinstance(error, dict):
        return None
    code = str(error.get("code") or error.get("status") or "")
    if code.isdecimal() and 400 <= int(code) < 600:
        return int(code)
    kind = f"{error.get('type')} {code}".lower()
    return next((status for word, status in _STATUSES.items() if word in kind), None)
