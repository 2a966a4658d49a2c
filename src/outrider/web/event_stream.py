"""Server-sent events: one stream for each client, which continues after a lost connection where it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from outrider.web.http import Response

MOST_UNSENT = 2_000
"""Events that may wait for a slow client. Then its connection is closed; the client comes back and catches up."""
PING_SECONDS = 20.0
"""Between events, so that a lost connection is noticed."""
RETRY_MILLISECONDS = 1_000


class EventStream:
    """The stream to one client."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self.only = ""
        """The session whose questions it gets; all of the owner if empty."""
        self.questions = b""
        """The questions that it has."""
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MOST_UNSENT)
        self._pinging: asyncio.TimerHandle | None = None
        self.is_open = True

    def send(self, data: bytes) -> None:
        """Send an encoded event. A client that does not keep up is disconnected."""
        if not self.is_open:
            return
        try:
            self._waiting.put_nowait(data)
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        self.is_open = False
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._waiting.put_nowait(b"")  # wakes it up

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what to write until the stream is closed."""
        self._ping()
        try:
            while True:
                waiting = [await self._waiting.get()]
                while not self._waiting.empty():
                    waiting.append(self._waiting.get_nowait())
                if not self.is_open:
                    return
                yield b"".join(waiting)
        finally:
            self.is_open = False
            if self._pinging:
                self._pinging.cancel()

    def _ping(self) -> None:
        """Send a comment if nothing waits, now and then. A time limit on each event would cost more than the event."""
        if self._waiting.empty():
            self.send(b": still here\n\n")
        self._pinging = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)


def stream_response(pieces: AsyncIterator[bytes]) -> Response:
    return Response(200, pieces, {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})


def encoded(name: str, value: Any, id: int | str | None = None) -> bytes:
    """Return an event as bytes. JSON has no line breaks, so one line of data is enough.

    >>> encoded("entry", {"seq": 3}, 3)
    b'id: 3\\nevent: entry\\ndata: {"seq":3}\\n\\n'
    """
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(value, enc_hook=str) + b"\n\n"
