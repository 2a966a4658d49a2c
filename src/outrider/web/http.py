"""Requests, responses and streams of events as values, and the routes. aiohttp serves them, or ASGI in other apps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from outrider import errors
from outrider.providers.debugging import logger
from outrider.struct_types import described

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


MOST_UNSENT = 2_000
"""Events that may wait for a slow client. Then its connection is closed; the client comes back and catches up."""
PING_SECONDS = 20.0
"""Between events, so that a lost connection is noticed."""
RETRY_MILLISECONDS = 1_000


class EventStream:
    """The stream to one client."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self.only = ""
        """The session whose questions it gets; all of the owner if empty."""
        self.questions = b""
        """The questions that it has."""
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MOST_UNSENT)
        self._pinging: asyncio.TimerHandle | None = None
        self.is_open = True

    def send(self, data: bytes) -> None:
        """Send an encoded event. A client that does not keep up is disconnected."""
        if not self.is_open:
            return
        try:
            self._waiting.put_nowait(data)
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        self.is_open = False
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._waiting.put_nowait(b"")  # wakes it up

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what to write until the stream is closed."""
        self._ping()
        try:
            while True:
                waiting = [await self._waiting.get()]
                while not self._waiting.empty():
                    waiting.append(self._waiting.get_nowait())
                if not self.is_open:
                    return
                yield b"".join(waiting)
        finally:
            self.is_open = False
            if self._pinging:
                self._pinging.cancel()

    def _ping(self) -> None:
        """Send a comment if nothing waits, now and then. A time limit on each event would cost more than the event."""
        if self._waiting.empty():
            self.send(b": still here\n\n")
        self._pinging = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)


def stream_response(pieces: AsyncIterator[bytes]) -> Response:
    return Response(200, pieces, {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})


def encoded(name: str, value: Any, id: int | str | None = None) -> bytes:
    """Return an event as bytes. JSON has no line breaks, so one line of data is enough.

    >>> encoded("entry", {"seq": 3}, 3)
    b'id: 3\\nevent: entry\\ndata: {"seq":3}\\n\\n'
    """
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(value, enc_hook=str) + b"\n\n"


_NAME = re.compile(r"\{(\w+)\}")
_NUMBERS = ("seq", "page")
"""Values of paths that are numbers."""


class Route(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One operation: its path, its types, and the function that answers it."""

    method: str
    path: str
    """With `{name}` for each value."""
    name: str
    """The name of the operation in the OpenAPI document."""
    about: str
    handle: Callable[[Request, Any], Awaitable[Any]]
    """Takes the request and its decoded query or body. Returns a value for JSON, or a Response."""
    query: type | None = None
    body: type | None = None
    answer: Any = None
    """The type of the value, or the content type of a response that is not JSON."""
    status: int = 200
    headers: Mapping[str, str] = {}
    """Those of the response that a client may use, with what each is."""
    is_public: bool = False
    """Whether everyone may ask."""
    is_private: bool = False
    """Whether only the user of the server may ask, and no owner: it shows what is in all sessions."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = _NAME.sub(lambda found: f"(?P<{found[1]}>{r'[0-9]+' if found[1] in _NUMBERS else '[^/]+'})", self.path)
        return re.compile(parts.replace(".", r"\."))

    @property
    def names(self) -> list[str]:
        return _NAME.findall(self.path)

    async def answered(self, request: Request) -> Response:
        if self.is_private and request.owner:
            raise RefusedError(403, "this address shows what is in the sessions of all; an owner may not use it")
        found = await self.handle(request, await self._given(request))
        return found if isinstance(found, Response) else json_response(found, self.status)

    async def _given(self, request: Request) -> Any:
        if self.query:  # empty values count as not given
            given = {name: value for name, value in request.query.items() if value}
            return msgspec.convert(given, described(self.query), strict=False)
        if not self.body:
            return None
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise RefusedError(415, f"send JSON, with the header Content-Type: {JSON}")
        return msgspec.json.decode(await request.read(), type=described(self.body))


def get(path: str, name: str, about: str, handle: Any, answer: Any, query: type | None = None) -> Route:
    return Route(method="GET", path=path, name=name, about=about, handle=handle, answer=answer, query=query)


def post(path: str, name: str, about: str, handle: Any, answer: Any, body: type | None, status: int = 200) -> Route:
    return Route(
        method="POST", path=path, name=name, about=about, handle=handle, answer=answer, body=body, status=status
    )


class Router:
    """Finds the route of a request, and explains what goes wrong."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = list(routes)

    def find(self, request: Request) -> Route:
        """Return the route of a request, which gets the values of its path. Raises RefusedError."""
        allowed: set[str] = set()
        for route in self.routes:
            if found := route.pattern.fullmatch(request.path):
                if request.method == route.method or (request.method == "HEAD" and route.method == "GET"):
                    request.values = found.groupdict()
                    return route
                allowed.add(route.method)
        if allowed:
            raise RefusedError(405, f"this address takes {' and '.join(sorted(allowed))}")
        raise RefusedError(404, "there is no such address")


async def explained(answer: Callable[[], Awaitable[Response]]) -> Response:
    """Return an answer, or the response that says what is wrong."""
    try:
        return await answer()
    except RefusedError as error:
        return error.response()
    except Exception as error:  # noqa: BLE001 - a client gets an answer whatever happens
        return _explained(error).response()


def _explained(error: Exception) -> RefusedError:
    match error:
        case errors.UnknownSessionError() | errors.AttachmentError():
            return RefusedError(404, str(error))
        case errors.SessionHeldError() | errors.AnsweredError() | errors.ConversationError():
            return RefusedError(409, str(error))
        case errors.OutriderError():
            return RefusedError(422, str(error))
        case msgspec.MsgspecError() | ValueError() | OverflowError():  # the latter for a number that no log has
            logger.debug("a request cannot be read", exc_info=error)
            return RefusedError(400, f"the request cannot be read: {error}")
    logger.error("a request failed", exc_info=error)
    return RefusedError(500, "the server failed; its log has the reason")
