"""Error responses of model APIs: the message, what to do about it, and whether to retry."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.errors import (
    AuthenticationError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
from outrider.providers.secrets import masked
from outrider.providers.transport import ErrorResponse


class BadCallError(RequestRefusedError):
    """The server refused the model's own call. The body of its response can be read as a reply."""

    def __init__(self, message: str, body: bytes) -> None:
        super().__init__(message)
        self.body = body


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


def classified(
    status: int, message: str, *, label: str, model: str, key_variable: str
) -> tuple[type[ProviderError], str]:
    """Return the error class for a status, and a sentence that says what to do."""
    if status in (401, 403):
        return (
            AuthenticationError,
            f"{label} does not accept the key ({message}); check {key_variable}",
        )
    if status == 404:
        return RequestRefusedError, f"{label} does not know {model} ({message}); check its name"
    if status == 413:
        return (
            RequestRefusedError,
            f"the request is too large for {label} ({message}); send fewer or smaller files",
        )
    if status == 429:
        return RateLimitedError, f"{label} received too many requests ({message})"
    if status >= 500 or status in (408, 409):
        return UnavailableError, f"{label} is not available: {status} ({message})"
    if status == 200:
        return (
            ProviderError,
            f"{label} responded with a web page, not with a reply; check the URL and proxies",
        )
    if 300 <= status < 400:
        return RequestRefusedError, f"{label} redirects this URL to another one; check the base URL"
    return RequestRefusedError, f"{label} refused the request: {message}; `outrider wire` shows what is sent"


def mask_key(error: ProviderError, key: str) -> None:
    """Remove the key from an error, and the errors behind it, which know the headers of the request."""
    error.args = (masked(str(error), key),)
    error.request_id = masked(error.request_id, key)
    error.__context__ = None
