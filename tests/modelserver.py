"""A loopback server that speaks the four model APIs, says what it is told to, and fails on demand.

    async with ModelServer([Answer("Hello"), Status(429, {"retry-after": "2"}), Answer("Again")]) as server:
        ...

Each request takes the next step. What came in stands in `server.requests`. The server runs on the test's own event loop
and writes HTTP by hand, so that a test decides about every byte: when it is sent, and whether.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from tests.streams import Answer, Point, error_event, stream_of, stream_up_to

Pace: TypeAlias = Literal["whole", "events", "bytes"]


class Status(msgspec.Struct, frozen=True):
    """An answer that is not 200."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b'{"error": {"type": "some_error", "message": "no luck"}}'


class Paced(msgspec.Struct, frozen=True):
    """An answer in one write, event by event, or byte by byte."""

    answer: Answer
    pace: Pace
    seconds: float = 0.0
    """The pause after each piece."""


class Held(msgspec.Struct, frozen=True):
    """An answer of which the rest is held back after a point, until `server.release` is set."""

    answer: Answer
    after: Point = "first delta"


class Broken(msgspec.Struct, frozen=True):
    """An answer that breaks off after a point."""

    answer: Answer
    after: Point
    how: Literal["reset", "close", "end", "error"]
    """The connection is reset or closed, or the stream ends cleanly or with an error event."""


class Page(msgspec.Struct, frozen=True):
    """A web page with status 200, as a proxy or a login form answers."""

    text: str = "<html><body>Please log in</body></html>"


class Flood(msgspec.Struct, frozen=True):
    """So many megabytes, as events that mean nothing or as one line that never ends."""

    megabytes: int
    one_line: bool = False


class Endless(msgspec.Struct, frozen=True):
    """A stream that goes on with comments for ever, or falls silent."""

    silent: bool


class Raw(msgspec.Struct, frozen=True):
    """These bytes as the body of a good answer."""

    body: bytes


Step: TypeAlias = Answer | Status | Paced | Held | Broken | Page | Flood | Endless | Raw


class Recorded(msgspec.Struct, frozen=True):
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """Which connection it came on, counted from 1."""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def api(self) -> str:
        """The API that the path belongs to."""
        endings = {"/messages": "anthropic", "/responses": "openai", "/chat/completions": "openai-chat"}
        path = self.path.partition("?")[0]
        return next((api for ending, api in endings.items() if path.endswith(ending)), "gemini")


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server once its newest connection is served, so that whoever ends those that are served ends all."""
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    for _ in range(5):  # asyncio serves a connection some steps after it was accepted
        await asyncio.sleep(0)
    server.close()


class ModelServer:
    """Plays its steps, one a request; a request after the last step gets a 418, which nobody retries.

    A function instead of steps decides about each request.
    """

    def __init__(
        self, steps: Sequence[Step] | Callable[[Recorded], Step] = (), *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[Recorded] = []
        self.release = asyncio.Event()
        self.held = asyncio.Event()
        """Set when an answer is being held back."""
        self.left = asyncio.Event()
        """Set when a client closed its connection in the middle of an answer."""
        self.connections = 0
        self.steps: list[Step] = [] if callable(steps) else list(steps)
        """The answers to come."""
        self._decide = steps if callable(steps) else lambda _: self.steps.pop(0) if self.steps else Status(418)
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ModelServer:
        await self.open()
        return self

    async def open(self, port: int = 0) -> None:
        """Listen, on a port of its own or on the given one."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, ssl=self._tls)
        host, self.port = self._server.sockets[0].getsockname()
        self.url = f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening, and give up every connection."""
        await stop_listening(self._server)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._converse(reader, writer, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        try:
            while request := await _read_request(reader, number):
                self.requests.append(request)
                step = self._decide(request)
                if not await self._play(step, request, reader, writer):
                    return
        except ConnectionError:
            self.left.set()
        finally:
            writer.close()

    async def _play(
        self, step: Step, request: Recorded, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer, and say whether the connection may be used again."""
        if isinstance(step, Status | Page):
            _send_whole(writer, step)
            return True
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        sending = asyncio.ensure_future(self._send(step, request, writer))
        # A client sends nothing while it reads: what can be read here is the end of its interest.
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.left.set()
                return False
            return sending.result() and not leaving.done()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait((sending, leaving))

    async def _send(self, step: Step, request: Recorded, writer: asyncio.StreamWriter) -> bool:
        async for piece in self._pieces(step, request.api):
            if piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
        if isinstance(step, Broken) and step.how in ("reset", "close"):
            if step.how == "reset":
                await _reset(writer)
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _pieces(self, step: Step, api: str) -> AsyncIterator[bytes]:
        if isinstance(step, Held):
            whole, begun = b"".join(stream_of(api, step.answer)), b"".join(stream_up_to(api, step.answer, step.after))
            yield begun
            self.held.set()
            await self.release.wait()
            yield whole[len(begun) :]
        elif isinstance(step, Broken):
            yield b"".join(stream_up_to(api, step.answer, step.after))
            yield error_event(api) if step.how == "error" else b""
        elif isinstance(step, Flood | Endless):
            async for piece in _without_end(step):
                yield piece
        elif isinstance(step, Raw):
            yield step.body
        elif isinstance(step, Answer | Paced):
            paced = Paced(step, "whole") if isinstance(step, Answer) else step
            for piece in _cut_up(stream_of(api, paced.answer), paced.pace):
                yield piece
                await asyncio.sleep(paced.seconds)


def _cut_up(events: Sequence[bytes], pace: Pace) -> Sequence[bytes]:
    whole = b"".join(events)
    return {"whole": [whole], "events": events, "bytes": [bytes([byte]) for byte in whole]}[pace]


async def _without_end(step: Flood | Endless) -> AsyncIterator[bytes]:
    if isinstance(step, Flood):
        megabyte = b"x" * (1024 * 1024 - 4)
        line = megabyte if step.one_line else b": " + megabyte + b"\n\n"
        for _ in range(step.megabytes):
            yield line
        return
    while True:
        yield b": still here\n\n"
        await (asyncio.Event().wait() if step.silent else asyncio.sleep(0.001))


async def _read_request(reader: asyncio.StreamReader, connection: int) -> Recorded | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Recorded(first.split(" ")[1], headers, body, connection)


def _send_whole(writer: asyncio.StreamWriter, step: Status | Page) -> None:
    if isinstance(step, Page):
        step = Status(200, {"content-type": "text/html; charset=utf-8"}, step.text.encode())
    headers = {"content-type": "application/json", "content-length": str(len(step.body))} | step.headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {step.status} Some Reason\r\n{lines}\r\n".encode() + step.body)


async def _reset(writer: asyncio.StreamWriter) -> None:
    """Close without the usual farewell: what is still on its way to the client counts as lost."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
