"""A loopback server with a small model: it says what a test gives, as llama.cpp's server would, within a window.

It answers `/props` and `/models`, refuses a request that does not fit into its window with the error of llama.cpp, and
holds a reply to the schema of `response_format`: a reply that does not satisfy it is replaced by `decoded`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.providers.canned import delta, events

BYTES_A_TOKEN = 3


class SmallModel:
    """Gives its replies one after the other, and keeps the requests."""

    def __init__(
        self,
        replies: Sequence[str],
        *,
        window: int = 8192,
        decoded: Any = None,
        tells: bool = True,
        takes_schemas: bool = False,
    ) -> None:
        self.requests: list[Any] = []
        self.url = ""
        self._replies = list(replies)
        self.window = window
        self._decoded = decoded
        """The data that decoding by a schema gives; None if the server refuses schemas."""
        self._takes_schemas = takes_schemas
        """Whether a reply is taken for what decoding by a schema gives."""
        self._tells = tells
        """Whether the server says how large its window is, other than in an error."""

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/props" and self._tells:
            return web.json_response({"default_generation_settings": {"n_ctx": self.window}})
        if not request.path.endswith("/chat/completions"):
            return web.json_response({"data": []})
        raw = await request.read()
        body = msgspec.json.decode(raw)
        self.requests.append(body)
        if len(raw) // BYTES_A_TOKEN > self.window:
            said = {"code": 400, "type": "exceed_context_size_error", "n_ctx": self.window}
            said["message"] = "the request exceeds the available context size, try increasing it"
            return web.json_response({"error": said}, status=400)
        text = self._replies.pop(0)
        if "response_format" in body and not self._takes_schemas:
            if self._decoded is None:
                return web.json_response({"error": {"message": "response_format is not supported"}}, status=400)
            text = msgspec.json.encode(self._decoded).decode()
        return web.Response(body=events(delta(content=text), delta("stop")), content_type="text/event-stream")


@asynccontextmanager
async def running(model: SmallModel) -> AsyncIterator[SmallModel]:
    """Run the server."""
    application = web.Application(client_max_size=10**8)
    application.router.add_route("*", "/{path:.*}", model.handle)
    async with TestServer(application) as server:
        model.url = f"{server.make_url('')}".rstrip("/") + "/v1#small"
        yield model
