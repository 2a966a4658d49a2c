"""`outrider hands`: serves one session over the standard streams, until they end. Everything ends with them."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.hands.errands import Errands
from outrider.coding.hands.hand import Hand
from outrider.coding.hands.protocol import (
    PREAMBLE,
    VERSION,
    Answer,
    Ask,
    Cancel,
    Change,
    Chunk,
    Commands,
    CommandState,
    Failure,
    Hello,
    Progress,
    Refusal,
    encoded,
    frame,
    read_frame,
    to_hands,
)
from outrider.coding.hands.requests import Fetch, Judge, Request, Run
from outrider.descriptors import reserved_input, reserved_output
from outrider.errors import HandsError, OutriderError
from outrider.processes.signals import on_signals

MOST_REQUESTS = 100
"""Requests under way at the same time."""
MOST_WAITING = 1024 * 1024
"""Bytes that wait to be sent, from which on progress is left out."""
_EVERY_SECONDS = 0.5
"""How often the background commands are looked at."""


class Server:
    """Serves the session at the other end of two streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, folder: Path) -> None:
        self._reader, self._writer, self._folder = reader, writer, folder
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._told: tuple[CommandState, ...] = ()
        self.hand: Hand | None = None
        """The tools, once the session has said hello."""

    async def serve(self) -> None:
        """Serve until the stream ends. Raises HandsError if what comes is no message."""
        self._writer.write(PREAMBLE)
        hand = await self._greeted()
        if hand is None:
            return
        watching = asyncio.ensure_future(self._watch(hand))
        try:
            await self._obey(hand, Errands(hand))
        finally:
            watching.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.to_thread(hand.close)

    async def _greeted(self) -> Hand | None:
        """Return the tools for the session that says hello; None if it cannot be served."""
        hello = await read_frame(self._reader, to_hands)
        if not isinstance(hello, Hello) or hello.version != VERSION:
            self._write(Refusal(f"they speak version {VERSION} of the protocol, and the session speaks another one"))
            return None
        try:
            hand = Hand(self._folder, hello.setup, hello.stance, hello.first_command)
            welcome = await asyncio.to_thread(hand.welcome)
        except (OutriderError, OSError) as error:
            self._write(Refusal(str(error)))
            return None
        self.hand = hand
        self._write(welcome)
        return hand

    async def _obey(self, hand: Hand, errands: Errands) -> None:
        while (message := await read_frame(self._reader, to_hands)) is not None:
            match message:
                case Ask(id, request):
                    if id in self._tasks or len(self._tasks) >= MOST_REQUESTS:
                        raise HandsError("too many requests, or two with one number")
                    work = _Work(id, self._writer)
                    self._tasks[id] = asyncio.ensure_future(self._answered(hand, errands, work, request))
                    await asyncio.sleep(0)  # it is decided by the permissions of now: a change may follow
                case Cancel(id):
                    if task := self._tasks.get(id):
                        task.cancel()
                case Change(stance):
                    hand.use(stance)
                case Hello():
                    raise HandsError("the session said hello twice")

    async def _answered(self, hand: Hand, errands: Errands, work: _Work, request: Request) -> None:
        try:
            value = await self._value(hand, errands, work, request)
            self._tell_commands(hand)
            data = frame(Answer(work.id, msgspec.Raw(encoded(value))))
        except asyncio.CancelledError:
            data = frame(Failure(work.id, "it was cancelled", is_cancelled=True))
        except (OutriderError, OSError) as error:
            data = frame(Failure(work.id, str(error)))
        except Exception as error:  # noqa: BLE001 - every request is answered
            data = frame(Failure(work.id, f"{type(error).__name__}: {error}"))
        finally:
            self._tasks.pop(work.id, None)
            work.close()
        self._writer.write(data)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def _value(self, hand: Hand, errands: Errands, work: _Work, request: Request) -> Any:
        match request:
            case Judge():
                return hand.judge(request)
            case Run():
                return await hand.run(request, work)
            case Fetch():
                return await errands.fetch(request, work)
        return await hand.threads.run(errands.do, request)

    async def _watch(self, hand: Hand) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            self._tell_commands(hand)

    def _tell_commands(self, hand: Hand) -> None:
        """Send the list of background commands if it has changed. Their ages alone are no change."""
        now = hand.commands()
        ageless = tuple(msgspec.structs.replace(each, seconds=0.0) for each in now)
        if ageless != self._told:
            self._told = ageless
            self._write(Commands(now))

    def _write(self, message: object) -> None:
        self._writer.write(frame(message))


class _Work:
    """A request that is being done."""

    def __init__(self, id: int, writer: asyncio.StreamWriter) -> None:
        self.id = id
        self._writer = writer
        self._is_answered = False
        self._loop = asyncio.get_running_loop()

    def progress(self, content: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._send_progress, content)

    def _send_progress(self, content: object) -> None:
        """Send progress, unless the other side is too slow for it: the result has all."""
        if not self._is_answered and self._writer.transport.get_write_buffer_size() < MOST_WAITING:
            self._writer.write(frame(Progress(self.id, msgspec.Raw(encoded(content)))))

    async def chunk(self, file: int, data: bytes) -> None:
        self._writer.write(frame(Chunk(self.id, file, data)))
        await self._writer.drain()

    def close(self) -> None:
        """Send no more progress."""
        self._is_answered = True


def serve_streams(folder: Path) -> int:
    """Serve on the standard streams of this process, and return its exit code."""
    with reserved_input() as source, reserved_output() as sink:
        try:
            return asyncio.run(_serve(source, sink, folder))
        except HandsError as error:
            print(f"outrider hands: {error}", file=sys.stderr)
            return 1


async def _serve(source: int, sink: int, folder: Path) -> int:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    given = os.fdopen(source, "rb", 0, closefd=False)
    taken = os.fdopen(sink, "wb", 0, closefd=False)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), given)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, taken)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    serving = asyncio.ensure_future(Server(reader, writer, folder).serve())
    with on_signals(lambda _: serving.cancel()), suppress(asyncio.CancelledError, ConnectionError):
        await serving
    writer.close()
    return 0
