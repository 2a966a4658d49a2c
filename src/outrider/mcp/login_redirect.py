"""Receives the redirect of a browser at the end of a login, on a port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

from outrider.errors import McpLoginError

HOST = "127.0.0.1"
PATH = "/callback"
_MAX_LINE = 16 * 1024
_REQUEST_SECONDS = 10.0
_PAGE = b"<!doctype html><meta charset=utf-8><title>Outrider</title><p>%b</p>"
_DONE = _PAGE % b"You are logged in. You can close this page and go back to Outrider."
_UNKNOWN = _PAGE % b"This page belongs to no login that is under way."


class LoginRedirect:
    """Waits for the redirect that carries the state of the login. Others are refused, and do not end the wait."""

    def __init__(self, port: int, state: str) -> None:
        self.uri = f"http://{HOST}:{port}{PATH}"
        self._state = state
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def answer(self, seconds: float) -> dict[str, str]:
        """Return the parameters of the redirect. Raises McpLoginError if it does not come in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._answer
        except TimeoutError:
            raise McpLoginError(f"The login was not finished within {seconds / 60:g} minutes. Try again.") from None

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser."""
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readline()
                status, page = self._take(line.decode("ascii", "replace"))
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
                writer.write(f"{head}Connection: close\r\nReferrer-Policy: no-referrer\r\n\r\n".encode() + page)
                await writer.drain()
        except (OSError, ValueError):  # the browser went away, or sent too long a line
            return
        finally:
            writer.close()

    def _take(self, line: str) -> tuple[str, bytes]:
        verb, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        found = {name: values[0] for name, values in parse_qs(target.query, max_num_fields=50).items()}
        if verb != "GET" or target.path != PATH or found.get("state") != self._state:
            return "404 Not Found", _UNKNOWN
        if not self._answer.done():
            self._answer.set_result(found)
        return "200 OK", _DONE


@contextlib.asynccontextmanager
async def login_redirect(port: int, state: str) -> AsyncIterator[LoginRedirect]:
    """Listen on a port of 127.0.0.1; 0 for any. Raises McpLoginError if it is taken."""
    found: list[LoginRedirect] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await found[0].handle(reader, writer)

    try:
        server = await asyncio.start_server(handle, HOST, port, limit=_MAX_LINE)
    except OSError:
        raise McpLoginError(f"The login needs port {port} of this machine, which is taken.") from None
    async with server:
        found.append(LoginRedirect(server.sockets[0].getsockname()[1], state))
        yield found[0]
