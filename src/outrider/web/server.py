"""The server: its parts, and the answer to each request. Two fronts send it requests: `aiohttp_front` and `asgi`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from outrider.log.log import Log
from outrider.web.agui import AgUi
from outrider.web.api import Api
from outrider.web.figures import Figures
from outrider.web.http import Request, Route, Router
from outrider.web.hub import Hub
from outrider.web.live_sessions import LiveSessions
from outrider.web.openapi import document_route
from outrider.web.opener import Opener
from outrider.web.owners import Owners, ServerLimits


class Server:
    """Answers requests about the sessions of one log."""

    def __init__(self, log: Log, opener: Opener, limits: ServerLimits, *, is_shared: bool) -> None:
        """`is_shared`: its sessions have owners, and nobody sees those of all."""
        self.figures = Figures(log)
        self.sessions = LiveSessions(log, opener)
        owners = Owners(log, self.sessions, limits)
        self.hub = Hub(log, self.sessions, owners)
        api = Api(log, self.sessions, owners, self.hub, self.figures)
        routes = [*api.routes(is_shared=is_shared), *AgUi(log, self.sessions, owners).routes()]
        self._is_shared = is_shared
        self._router = Router(routes)
        self._router.routes.append(document_route(routes, is_shared=is_shared))
        self._tasks: list[asyncio.Future[None]] = []

    def add_routes(self, routes: Iterable[Route]) -> None:
        """Add routes that only one front has."""
        self._router.routes.extend(routes)

    def route(self, request: Request) -> Route:
        """Return the route of a request. Raises RefusedError."""
        return self._router.find(request)

    async def start(self) -> None:
        """Let the sessions of the API go on, and prepare the figures."""
        self._tasks.append(asyncio.ensure_future(self.sessions.resume()))
        if not self._is_shared:
            self._tasks.append(asyncio.ensure_future(asyncio.to_thread(self.figures.prepare)))

    async def close(self) -> None:
        """End all streams and what runs here."""
        await self.hub.close()
        self.figures.close()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.sessions.close()
