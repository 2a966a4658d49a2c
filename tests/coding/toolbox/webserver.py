"""A web server on the loopback interface that answers with exactly the bytes that a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from tests.modelserver import stop_listening

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
Answer: TypeAlias = bytes | Callable[[Send], Awaitable[None]]


def page(body: str | bytes, kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str) -> bytes:
    """An answer with a body of a kind."""
    data = body if isinstance(body, bytes) else body.encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    """An answer that leads elsewhere."""
    return page("", status=status, Location=location)


HANG_UP = b"hang up"
"""The answer of a server that gives none."""
NOTHING = page("Nothing here", "text/plain", "404 Not Found")


class WebServer:
    """What it was asked, and where it is."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.requests: list[str] = []
        """Each request with its headers."""
        self.port = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.requests.append(request)
        answer = self.answers.get(request.split(" ")[1]) or self.answers.get("*", NOTHING)
        if callable(answer):
            await answer(send)
        elif answer != HANG_UP:
            await send(answer)


@asynccontextmanager
async def serving(
    answers: dict[str, Answer], host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[WebServer]:
    """A server with these answers, by path; `*` is for all others."""
    web = WebServer(answers)
    server = await asyncio.start_server(web.serve, host, port, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        await stop_listening(server)
        for task in web.tasks:
            task.cancel()
        await asyncio.gather(*web.tasks, return_exceptions=True)
