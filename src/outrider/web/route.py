"""The routes of a server: which function answers a request, and what it takes and returns."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from outrider import errors
from outrider.providers.debugging import logger
from outrider.struct_types import described
from outrider.web.http import JSON, RefusedError, Request, Response, json_response

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
        """The paths of the route."""
        parts = _NAME.sub(lambda found: f"(?P<{found[1]}>{r'[0-9]+' if found[1] in _NUMBERS else '[^/]+'})", self.path)
        return re.compile(parts.replace(".", r"\."))

    @property
    def names(self) -> list[str]:
        """The names of the values in its path."""
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
