"""Requests and responses as values. The servers make and send them: aiohttp for the program, ASGI for other apps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

Body: TypeAlias = bytes | AsyncIterator[bytes]
MAX_BODY = 1_000_000
"""Bytes that a request may have."""
JSON = "application/json"


class Request(msgspec.Struct):
    """A request, and who sends it."""

    method: str
    path: str
    """Below the place where the app is mounted, decoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By their names in lower case."""
    read: Callable[[], Awaitable[bytes]]
    """Returns the body. Raises RefusedError if it is longer than MAX_BODY."""
    mount: str = ""
    values: Mapping[str, str] = {}
    """What the path has where the path of the route has names in braces."""
    owner: str = ""
    """Whose sessions it may see and use. Empty: those of all owners."""
    is_page: bool = False
    """Whether it comes from the page, which begins sessions only in folders that had one."""


class Response(msgspec.Struct):
    """A response. A body in pieces is sent as they come."""

    status: int = 200
    body: Body = b""
    headers: dict[str, str] = {}


class Problem(msgspec.Struct, frozen=True):
    """Why a request failed."""

    error: str


class RefusedError(Exception):
    """A request that gets no answer, with the status and the reason that its sender reads."""

    def __init__(self, status: int, reason: str, retry_after: int = 0) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after = status, reason, retry_after

    def response(self) -> Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        return json_response(Problem(self.reason), self.status, headers)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, msgspec.json.encode(value, enc_hook=str), {"Content-Type": JSON, **(headers or {})})


def too_long() -> RefusedError:
    return RefusedError(413, f"the body of a request may have {MAX_BODY:,} bytes")
