"""One client over standard input and output."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from outrider.acp.connection import Connection
from outrider.acp.handlers import Method
from outrider.acp.stdio import serve
from outrider.acp.writer import EditorWriter
from outrider.mcp import protocol
from outrider.mcp_server.host import Host

MAX_LINE = 4 * 1024 * 1024
MAX_RUNNING = 100


class Client:
    """The program that has started this one."""

    def __init__(self, writer: EditorWriter, host: Host) -> None:
        self._host = host
        self.capabilities: Mapping[str, Any] = {}
        optional: Any = dict[str, Any] | None
        requests = {name: Method(optional, partial(self._answer, name)) for name in host.methods}
        self.connection = Connection(
            writer, requests, {}, max_line=MAX_LINE, max_running=MAX_RUNNING, cancel=protocol.CANCELLED
        )

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self.connection.notify(method, params)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and return the result. Raises RpcError."""
        found: Any = await self.connection.request(method, params, dict)
        return found if isinstance(found, dict) else {}

    async def _answer(self, method: str, params: dict[str, Any] | None) -> dict[str, Any]:
        given = params or {}
        if method == protocol.INITIALIZE and isinstance(given.get("capabilities"), dict):
            self.capabilities = given["capabilities"]
        return await self._host.answer(method, given, self)


async def serve_stdio(host: Host) -> None:
    """Serve until the client closes its end."""
    await serve(lambda writer: Client(writer, host).connection, on_end=host.close)
