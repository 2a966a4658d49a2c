"""Error responses of model APIs: the message, and whether to retry."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.providers.transport import ErrorResponse


def has_no_quota(response: ErrorResponse) -> bool:
    """Return whether the account has no credit left, which no retry changes."""
    return response.status == 429 and b"insufficient_quota" in response.body


def is_retryable(response: ErrorResponse) -> bool:
    """Return whether the same request may succeed later."""
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
