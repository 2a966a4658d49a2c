"""`outrider mcp serve`: serve clients over standard input and output, or over HTTP on this machine."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from outrider.acp.connection import Connection
from outrider.acp.handlers import Method
from outrider.acp.stdio import serve
from outrider.acp.writer import EditorWriter
from outrider.errors import ConfigError
from outrider.mcp import protocol
from outrider.mcp_server.host import Host
from outrider.mcp_server.http import PATH, HttpServer
from outrider.mcp_server.tasks import Tasks
from outrider.processes.signals import on_signals
from outrider.sync import default_log


def run(options: argparse.Namespace) -> int:
    """Serve until the client, or Ctrl-C, ends it. Raises ConfigError."""
    folders = [Path(each).resolve() for each in options.folder or ["."]]
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"--folder {folder}: there is no such folder")
    with default_log() as log:
        host = Host([Tasks(log, folders, _flags(options)).tool], may_ask=not options.no_questions)
        asyncio.run(serve_stdio(host) if options.http is None else serve_http(host, options.http))
    return 0


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "model": options.model,
        "permissions.mode": options.permissions,
        "limits.max_turns": options.max_turns,
        "limits.max_cost": options.max_cost,
    }
    return {key: value for key, value in given.items() if value is not None}


async def serve_http(host: Host, port: int) -> None:
    """Serve on the loopback address until a signal."""
    stopped, token = asyncio.Event(), secrets.token_urlsafe(32)
    server = HttpServer(host, token)
    runner = await listen(server, port)
    try:
        print(f"{min(server.origins)}{PATH}", flush=True)
        print(f"Authorization: Bearer {token}", flush=True)
        print("Give clients the address and the header. Ctrl-C stops the server.", file=sys.stderr, flush=True)
        with on_signals(lambda _: stopped.set()):
            await stopped.wait()
    finally:
        await host.close()
        await runner.cleanup()


async def listen(server: HttpServer, port: int) -> web.AppRunner:
    """Listen on a port of the loopback address; any free one for 0."""
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    except OSError as error:
        await runner.cleanup()
        raise ConfigError(f"port {port}: {error.strerror or error}; choose another with --http PORT") from None
    found = runner.addresses[0][1]
    server.origins = {f"http://127.0.0.1:{found}", f"http://localhost:{found}"}
    return runner


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
