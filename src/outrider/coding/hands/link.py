"""One life of a connection to the hands: frames out, frames in, and the requests that wait for an answer."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from typing import Any, Generic, TypeVar

from outrider.coding.hands.protocol import (
    VERSION,
    Answer,
    Ask,
    Cancel,
    Change,
    Chunk,
    Commands,
    Failure,
    FromHands,
    Hello,
    Progress,
    Refusal,
    Welcome,
    decoded,
    frame,
    from_hands,
    read_frame,
)
from outrider.coding.hands.requests import MOST_FILES, Request, Stance
from outrider.coding.hands.starter import Streams
from outrider.errors import HandsError
from outrider.text.visible import safe_line

MOST_BYTES = 256 * 1024 * 1024
"""The most bytes of progress and files that the answer to one request may bring."""

T = TypeVar("T")


class LinkLostError(Exception):
    """The connection ended."""


class ReceivedFile(FileIO):
    """A file without a name, which is gone when nothing needs it any more."""

    @classmethod
    def new(cls) -> ReceivedFile:
        """Return an empty file for the owner alone."""
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()), "rb+")

    def append(self, data: bytes) -> None:
        """Write all of the bytes."""
        view = memoryview(data)
        while view:
            view = view[self.write(view) or 0 :]

    def __del__(self) -> None:
        self.close()


class Exchange(Generic[T]):
    """A request, and what came for it."""

    def __init__(self, request: Request, kind: type[T], progress: Callable[[Any], None] | None) -> None:
        self.request = request
        self._kind = kind
        self.progress = progress
        """Shows progress, if it is set."""
        self.was_sent = False
        """Whether the hands may have read it."""
        self.is_cancelled = False
        self.reset()

    def reset(self) -> None:
        """Forget what came, so that it can be sent again."""
        self.files: list[ReceivedFile] = []
        self.id = 0
        self._received = 0
        self.was_sent = False

    def answer(self, said: Answer) -> None:
        """Take the answer. Raises HandsError if it is of the wrong type."""
        self.value: T = decoded(said.body, self._kind)

    def add_progress(self, said: Progress) -> None:
        """Show progress. Raises HandsError if there is too much."""
        self._count(len(bytes(said.content)))
        if self.progress:
            self.progress(decoded(said.content, Any))

    def add_chunk(self, chunk: Chunk) -> None:
        """Append bytes to a file on disk. Raises HandsError if there are too many."""
        self._count(len(chunk.data))
        if not 0 <= chunk.file <= len(self.files) or chunk.file >= MOST_FILES:
            raise HandsError(f"file {chunk.file} of an answer does not follow the ones before")
        if chunk.file == len(self.files):
            self.files.append(ReceivedFile.new())
        self.files[chunk.file].append(chunk.data)

    def _count(self, size: int) -> None:
        self._received += size
        if self._received > MOST_BYTES:
            raise HandsError(f"the answer to one request has over {MOST_BYTES:,} bytes")


class Link:
    """A connection that is open, or has ended for good."""

    def __init__(self, streams: Streams, stance: Stance, on_commands: Callable[[Commands], None]) -> None:
        self._streams = streams
        self._stance = stance
        self._on_commands = on_commands
        self._waiting: dict[int, tuple[Exchange[Any], asyncio.Future[None]]] = {}
        self._number = 0
        self._reading: asyncio.Task[None] | None = None
        self._lost = ""

    @property
    def is_alive(self) -> bool:
        """Whether requests can be sent."""
        return not self._lost

    async def greet(self, hello: Hello) -> Welcome:
        """Send the first message, and return the answer. Raises HandsError."""
        self._write(hello)
        match await read_frame(self._streams.reader, from_hands):
            case Welcome(version=version) as welcome if version == VERSION and welcome.folder.startswith("/"):
                self._reading = asyncio.ensure_future(self._read())
                return welcome
            case Refusal(reason):
                raise HandsError(safe_line(reason[:2_000]))
            case None:
                raise HandsError("they ended before they answered")
        raise HandsError("they do not speak as `outrider hands` of this version does")

    def use_stance(self, stance: Stance) -> None:
        """Tell the hands the session's permissions, if they have changed."""
        if stance != self._stance and self.is_alive:
            self._stance = stance
            self._write(Change(stance))

    async def exchange(self, exchange: Exchange[T]) -> Exchange[T]:
        """Send a request, and return once it is answered. Raises LinkLostError and HandsError."""
        if self._lost:
            raise LinkLostError(self._lost)
        self._number += 1
        exchange.id = self._number
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        data = frame(Ask(exchange.id, exchange.request))
        self._waiting[exchange.id] = exchange, done
        try:
            exchange.was_sent = True
            self._streams.writer.write(data)
            with suppress(ConnectionError):  # the reader learns why
                await self._streams.writer.drain()
            if exchange.is_cancelled:
                self._write(Cancel(exchange.id))
            await done
        except asyncio.CancelledError:
            self._write(Cancel(exchange.id))
            raise
        finally:
            self._waiting.pop(exchange.id, None)
        return exchange

    def cancel(self, exchange: Exchange[Any]) -> None:
        """Let the hands end a request, which is still answered."""
        exchange.is_cancelled = True
        if exchange.id in self._waiting:
            self._write(Cancel(exchange.id))

    async def close(self) -> None:
        """End the connection."""
        self._end("it was closed")
        if self._reading:
            self._reading.cancel()
        await self._streams.close()

    def _write(self, message: object) -> None:
        with suppress(ConnectionError, RuntimeError):
            self._streams.writer.write(frame(message))

    async def _read(self) -> None:
        why = "they ended"
        try:
            while (message := await read_frame(self._streams.reader, from_hands)) is not None:
                self._take(message)
            if said := self._streams.said():
                why = f"they ended ({said})"
        except HandsError as error:
            why = str(error)
        except OSError as error:
            why = error.strerror or str(error)
        finally:
            self._end(why)

    def _take(self, message: FromHands) -> None:
        """Handle a message. Raises HandsError for one that must not come now."""
        match message:
            case Commands():
                self._on_commands(message)
            case Welcome() | Refusal():
                raise HandsError("they greeted twice")
            case Answer(id=id) | Failure(id=id) | Progress(id=id) | Chunk(id=id):
                exchange, done = self._waiting.get(id, (None, None))
                if exchange is None or done is None or done.done():
                    return  # the caller is gone
                self._take_for(exchange, done, message)

    def _take_for(self, exchange: Exchange[Any], done: asyncio.Future[None], message: object) -> None:
        match message:
            case Progress():
                exchange.add_progress(message)
            case Chunk():
                exchange.add_chunk(message)
            case Answer():
                try:
                    exchange.answer(message)
                    done.set_result(None)
                except HandsError as error:
                    done.set_exception(error)
            case Failure(is_cancelled=True) if exchange.is_cancelled:
                done.cancel()
            case Failure(text=text):
                done.set_exception(HandsError(safe_line(text[:2_000])))

    def _end(self, why: str) -> None:
        self._lost = self._lost or why
        for _, done in self._waiting.values():
            if not done.done():
                done.set_exception(LinkLostError(self._lost))
