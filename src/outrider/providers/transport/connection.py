"""One connection to an HTTP server: requests of HTTP/1.1 one after the other, and their responses as they arrive."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import zlib
from collections.abc import Iterable
from typing import Any, cast

import httptools

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes in a row that are no body: status line, headers, trailers."""
HIGH_WATER = 256 * 1024
"""Bytes that wait for their reader before the server is held back."""
PIECE = 1024 * 1024
"""The most bytes that are decompressed at once."""


class HttpError(Exception):
    """A server did not answer as HTTP wants it, or not to the end."""


class NoAnswerError(HttpError):
    """A server closed the connection before it answered."""

    def __str__(self) -> str:
        return "the server closed the connection without an answer"


class Connection(asyncio.Protocol):
    """A connection, with or without TLS. It sends bytes, and feeds what arrives to the response that is awaited."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._incoming: Incoming | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        """When the newest wait began."""
        self._limit = math.inf
        """The most seconds of a wait."""
        self._is_full = False
        """Whether the network takes no more bytes at the moment."""
        self.is_open = False
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is closed."""
        self.idle_since = 0.0

    async def send(self, head: bytes, body: bytes | Iterable[memoryview], limit: float) -> Incoming:
        """Send a request and return its response once the headers are there. Raise HttpError or OSError."""
        if not self.is_open:
            raise NoAnswerError
        self._limit = limit
        self._incoming = incoming = Incoming(self)
        if isinstance(body, bytes):
            self._transport.write(head + body if len(body) < HIGH_WATER else head)
            body = (memoryview(body),) if len(body) >= HIGH_WATER else ()
        else:
            self._transport.write(head)
        unheard = 0
        for piece in body:
            # A server may refuse a request before it has read all of it. What it says is heard between the pieces.
            while (self._is_full or self._transport.is_closing()) and not incoming.is_begun:
                await self.wait(incoming)
            if unheard >= HIGH_WATER:
                unheard = 0
                await asyncio.sleep(0)
            if incoming.is_begun:
                incoming.keeps_alive = False
                break
            self._transport.write(piece)
            unheard += len(piece)
        while not incoming.is_begun:
            await self.wait(incoming)
        return incoming

    async def wait(self, incoming: Incoming) -> None:
        """Wait until something happens to the response. Raise what it failed with."""
        if incoming.error is not None:
            raise incoming.error
        if incoming is not self._incoming:
            raise HttpError("its connection was given back")
        self._since = self._loop.time()
        if self._limit < math.inf:
            self._watch()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def hold_back(self, *, is_held: bool) -> None:
        """Let the server send no more for now, or go on."""
        if self.is_open:
            (self._transport.pause_reading if is_held else self._transport.resume_reading)()

    def end_response(self) -> bool:
        """Take leave of the response. Return whether the connection can take another request; if not, it is closed."""
        incoming, self._incoming = self._incoming, None
        if incoming is None or not (incoming.is_complete and incoming.keeps_alive and self.is_ready):
            self.abort()
            return False
        if self._transport.get_write_buffer_size():  # a part of the request, which the server did not read
            self.abort()
            return False
        incoming.leave()
        return True

    @property
    def is_ready(self) -> bool:
        """Whether it is open, and the server has not begun to close it."""
        return self.is_open and not self._transport.is_closing()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.is_open:
            self._transport.abort()

    async def start_tls(self, context: Any, host: str) -> None:
        """Speak TLS from now on, behind a proxy that was asked to connect to the host."""
        self._incoming = None
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None or not self.is_open:
            raise HttpError("the connection was closed")
        self._transport = transport

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        if (found := transport.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):  # a peer that is gone without a word is noticed some day
                found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if self._incoming is None:  # no one has asked
            self.abort()
            return
        self._incoming.feed(data)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._timer:
            self._timer.cancel()
        if self._incoming is not None:
            self._incoming.end(exc)
        self.lost.set_result(None)
        self._wake()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch(self) -> None:
        """See that a timer runs. One serves many waits: it is set anew only when it fires too early."""
        due = self._since + self._limit
        if self._timer is None or self._timer.when() > due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._check_time)

    def _check_time(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done() or self._incoming is None:
            return
        if self._loop.time() < self._since + self._limit:
            self._watch()
            return
        self._incoming.fail(TimeoutError("no answer in time"))
        self._wake()


class Incoming:
    """A response as it arrives. Its methods with `on_` are for the parser."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.reason = ""
        self.headers: list[tuple[str, str]] = []
        self.is_begun = False
        """Whether the headers are there."""
        self.is_complete = False
        self.keeps_alive = True
        self.error: Exception | None = None
        self._connection = connection
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_held = False
        self._no_body = 0
        """Bytes in a row that were no body."""
        self._is_until_close = False
        """Whether only the end of the connection ends the body."""
        self._decompressor: _Decompressor | None = None
        self._parser = httptools.HttpResponseParser(self)
        # What servers do, and clients have always read.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    async def read(self) -> bytes:
        """Return the next bytes of the body, decompressed, or b"" at its end. Raise HttpError or OSError."""
        if self._decompressor is None:
            return await self._raw()
        while not (data := self._decompressor.take()):
            if not (raw := await self._raw()):
                if self._is_until_close and self._decompressor.is_within:
                    raise HttpError("it is not complete")
                return b""
            self._decompressor.feed(raw)
        return data

    async def skip(self) -> None:
        """Wait for the next bytes of the body, and drop them as they are."""
        await self._raw()

    def header(self, name: str) -> str:
        """Return the first header of the name, in lower case, or ""."""
        return next((value for each, value in self.headers if each.lower() == name), "")

    async def _raw(self) -> bytes:
        while not self._pieces:
            if self.is_complete:
                return b""
            await self._connection.wait(self)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self.drop()
        return data

    def drop(self) -> None:
        """Forget what has arrived, and let more come."""
        self._pieces, self._size = [], 0
        if self._is_held:
            self._is_held = False
            self._connection.hold_back(is_held=False)

    # What the connection calls

    def leave(self) -> None:
        """Drop what is left of a response that has ended."""
        self.drop()
        del self._parser  # they refer to each other

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._no_body += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.is_complete:  # more than was asked for
                self.keeps_alive = False
            else:
                self.fail(HttpError(f"it is not HTTP ({error.__context__ or error})"))
            return
        if self._no_body > MAX_HEAD_BYTES:
            self.fail(HttpError("its headers are too long"))
        if self._size > HIGH_WATER and not self._is_held:
            self._is_held = True
            self._connection.hold_back(is_held=True)

    def fail(self, error: Exception) -> None:
        """End the response with an error, and the connection with it."""
        if not self.is_complete and self.error is None:
            self.error = error
        self._connection.abort()

    def end(self, error: Exception | None) -> None:
        """The connection has ended."""
        if self.is_complete or self.error is not None:
            return
        if self._is_until_close and error is None:
            self.is_complete = True
            return
        self.error = error or (HttpError("it is not complete") if self.is_begun else NoAnswerError())

    # What the parser calls

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise HttpError("a second answer")

    def on_status(self, status: bytes) -> None:
        self.reason += status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_begun:  # no trailer
            self.headers.append((name.decode("latin-1"), value.decode("utf-8", "surrogateescape").strip()))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:  # the answer is still to come
            self.reason, self.headers = "", []
            return
        self.is_begun = True
        has_length = is_chunked = False
        encodings: list[str] = []
        for name, value in self.headers:
            match name.lower():
                case "content-length":
                    has_length = True
                case "transfer-encoding":
                    is_chunked = value.lower().endswith("chunked")
                case "content-encoding":
                    encodings += [each.strip().lower() for each in value.split(",")]
        if real := [each for each in encodings if each in _Decompressor.ENCODINGS]:
            self._decompressor = _Decompressor(", ".join(real))
        self._is_until_close = not has_length and not is_chunked and self.status not in (204, 304)

    def on_body(self, body: bytes) -> None:
        self._no_body = 0
        self._size += len(body)
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self.is_begun:
            self.is_complete = True
            self.keeps_alive = self.keeps_alive and self._parser.should_keep_alive()


class _Decompressor:
    """Decompresses a body, a piece at a time: a small body may become a large one."""

    ENCODINGS = ("gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress", "lzma", "xz", "bzip2")
    """Those that mean what they say. Some servers send others, such as `utf-8`, with a body as it is."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._zlib: Any = None
        self._waiting = b""
        self._has_more = False
        """Whether zlib may still hold decompressed bytes."""
        self._is_later = self._is_over = False
        """Whether a file of gzip has ended, and whether something else came behind it."""

    @property
    def is_within(self) -> bool:
        """Whether more must come."""
        return self._zlib is not None

    def feed(self, data: bytes) -> None:
        """Take compressed bytes."""
        if not self._is_over:
            self._waiting += data

    def take(self) -> bytes:
        """Return decompressed bytes, or b"" if more compressed ones are needed. Raise HttpError."""
        while self._waiting or self._has_more:
            if self._zlib is None:
                if self._is_later and not self._is_another():
                    return b""
                self._zlib = zlib.decompressobj(self._window_bits())
            try:
                data: bytes = self._zlib.decompress(self._waiting, PIECE)
            except zlib.error:
                raise HttpError("its compressed body is damaged") from None
            self._waiting = self._zlib.unconsumed_tail
            self._has_more = len(data) == PIECE and not self._zlib.eof
            if self._zlib.eof:
                self._waiting = self._zlib.unused_data
                self._zlib, self._is_later, self._is_over = None, True, self._encoding == "deflate"
                if self._is_over:
                    self._waiting = b""
            if data:
                return data
        return b""

    def _is_another(self) -> bool:
        """Whether another file of gzip follows, as gzip allows. Zeros and the like behind a file count for nothing."""
        begins = b"\x1f\x8b".startswith(self._waiting[:2])
        if not begins:
            self._waiting, self._is_over = b"", True
        return begins and len(self._waiting) > 1

    def _window_bits(self) -> int:
        if self._encoding in ("gzip", "x-gzip"):
            return 16 + zlib.MAX_WBITS
        if self._encoding != "deflate":
            raise HttpError(f"its body is compressed as {self._encoding}, which was not asked for")
        has_header = self._waiting[0] & 0x0F == 8  # some servers leave it out
        return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
