"""The events of an open session for other processes of the owner, over a Unix socket in the folder of the log.

A watcher reads lines as `outrider -p --output-format stream-json` prints them: the session, the events of the step that
goes on, then each event as it happens. It cannot send anything. Nothing is encoded while no one watches. Deltas within
three tenths of a second go together, as one: a session that is watched must not work noticeably more. A watcher that
reads too slowly is dropped; the log has what it missed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from outrider.errors import LogError
from outrider.filesystem import make_private
from outrider.log.inbox_tables import next_beat
from outrider.log.session_id import shown_id
from outrider.providers.deltas import TextDelta, ThinkingDelta, ToolCallDelta
from outrider.providers.streams.stream import merge_deltas
from outrider.runtime.events import (
    Event,
    MessageAdded,
    ReplyDiscarded,
    RunFinished,
    SubagentEvent,
    ToolProgress,
    TurnStarted,
    encode_json,
)

MOST_UNREAD = 4_000_000
"""Bytes that may wait for a watcher until it is dropped."""
MOST_WATCHERS = 50
MOST_RECENT = 4_000
"""Events of the step that goes on, which a new watcher gets first: the log does not have them yet."""
PACE_SECONDS = 0.3
"""The time between two writes of deltas and progress. The first one is written soon.

Writes are on the same beat as the looks of a log's watcher: waking the process up costs more than a write.
"""
SOON_SECONDS = 0.02
"""The longest wait of other events: those of one step are written together."""
MOST_UNSENT = 100
"""Events that wait for the next write at most."""
LONGEST_LINE = 256_000_000
_LONGEST_ADDRESS = 100
"""Bytes. Kernels take 104 to 108."""
_LEAVES_PATH: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""asyncio would look at the path, which may name a descriptor that is closed by now. `close` removes it."""
_PACED = (TextDelta, ThinkingDelta, ToolCallDelta, ToolProgress, SubagentEvent)
_STEPS = (TurnStarted, MessageAdded, ReplyDiscarded, RunFinished)


class LiveSocket:
    """Sends the events of one session to those who watch it. Used on one event loop."""

    def __init__(self, path: Path, session: str) -> None:
        self._path = path
        self._session = session
        self._watchers: list[asyncio.StreamWriter] = []
        self._bound: socket.socket | None = None
        self._inode = 0
        self._server: asyncio.Server | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_closed = False
        self._recent: deque[Event] = deque(maxlen=MOST_RECENT)
        self._unsent: list[Event] = []
        self._pause: asyncio.TimerHandle | None = None
        """Set while deltas wait for the next write."""
        self._soon: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to listen. A session without a socket, such as on a system that has none, goes on without it."""
        with suppress(OSError, AttributeError):
            self._bound = _bind(self._path)
            weakref.finalize(self, self._bound.close)  # also where no event loop is left to close it
            self._inode = self._path.stat().st_ino
            self._starting = asyncio.get_running_loop().create_task(self._listen(self._bound))

    def send(self, event: Event) -> None:
        """Send an event to all watchers, and keep it for new ones until the log has what it is about."""
        if isinstance(event, _STEPS):
            self._recent.clear()
        elif not isinstance(event, SubagentEvent):
            self._recent.append(event)
        if self._watchers:
            self._unsent.append(event)
            if len(self._unsent) >= MOST_UNSENT:
                self._flush()
            elif self._soon is None and (self._pause is None or not isinstance(event, _PACED)):
                self._soon = asyncio.get_running_loop().call_later(SOON_SECONDS, self._flush)

    def close(self) -> None:
        """Stop listening, disconnect all watchers and remove the socket. Works after the end of the event loop, too."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(RuntimeError):  # the event loop has ended
            self._flush()
        for timer in filter(None, (self._pause, self._soon)):
            timer.cancel()
        if self._starting:
            self._starting.cancel()
        if self._server:
            self._server.close()
        if self._bound:
            self._bound.close()
            with suppress(OSError):
                if self._path.stat().st_ino == self._inode:  # not that of a process that has the session by now
                    self._path.unlink()
        for watcher in self._watchers:
            watcher.close()
        self._watchers.clear()

    async def _listen(self, bound: socket.socket) -> None:
        # In two steps: if the second one is cancelled, `close` finds the server.
        options = {"sock": bound, "limit": 1024, "start_serving": False, **_LEAVES_PATH}
        self._server = await asyncio.start_unix_server(self._serve, **options)
        await self._server.start_serving()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._watchers) >= MOST_WATCHERS or not _is_owner(writer):
                return
            self._flush()  # a new watcher gets what waits with the recent events
            self._watchers.append(writer)
            first = [{"type": "session", "session": self._session}, *self._recent]
            self._write(b"".join(encode_json(each) + b"\n" for each in first), [writer])
            while await reader.read(1024):  # a watcher has nothing to say; its end of file ends it
                pass
        except asyncio.CancelledError:  # the event loop ends
            self._flush()
        except OSError:
            pass
        finally:
            self._drop(writer)

    def _flush(self) -> None:
        """Send what waits, and let deltas wait for a moment from now on."""
        if self._soon:
            self._soon.cancel()
            self._soon = None
        if self._unsent and self._watchers:
            self._write(b"".join(encode_json(each) + b"\n" for each in _merged(self._unsent)), list(self._watchers))
            if self._pause is None:
                loop = asyncio.get_running_loop()
                self._pause = loop.call_at(next_beat(loop.time(), PACE_SECONDS), self._end_pause)
        self._unsent = []

    def _end_pause(self) -> None:
        self._pause = None
        self._flush()

    def _write(self, line: bytes, watchers: list[asyncio.StreamWriter]) -> None:
        for watcher in watchers:
            watcher.write(line)
            if watcher.transport.get_write_buffer_size() > MOST_UNREAD:
                watcher.transport.abort()
                self._drop(watcher)

    def _drop(self, watcher: asyncio.StreamWriter) -> None:
        with suppress(ValueError):
            self._watchers.remove(watcher)
        watcher.close()


async def live_events(path: Path) -> AsyncIterator[dict[str, Any]]:
    """Yield the events of a session from its socket (`Log.live_socket`), the session itself first.

    It ends when the session is closed, when its process ends, and when it was read too slowly: the log has the rest.
    Raises LogError if no process shows the session live.
    """
    try:
        with _address(path) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=LONGEST_LINE)
    except (OSError, AttributeError) as error:
        raise LogError(f"no process shows the session {shown_id(path.stem)} live: {error}") from None
    try:
        with suppress(OSError):
            while (line := await reader.readline()).endswith(b"\n"):
                yield msgspec.json.decode(line)
    finally:
        writer.close()


def _merged(events: list[Event]) -> Iterator[Any]:
    """Yield events with adjacent deltas of one kind as one."""
    for kind, grouped in groupby(events, type):
        group: list[Any] = list(grouped)
        if kind in (TextDelta, ThinkingDelta):
            yield kind("".join([each.text for each in group]))
        else:
            yield from merge_deltas(group) if kind is ToolCallDelta else group


def _bind(path: Path) -> socket.socket:
    """Return a socket at a path, for the owner alone. One that a killed process left there is replaced."""
    make_private(path.parent)
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    try:
        with _address(path) as address:
            bound.bind(address)
        os.chmod(path, 0o600)  # before `listen`, connections are refused
        bound.listen()
    except BaseException:
        bound.close()
        raise
    return bound


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yield an address for a path. Addresses are short, so a long path is taken by the descriptor of its folder."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    if sys.platform != "linux":
        raise OSError(f"the path of the socket is too long: {path}")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _is_owner(writer: asyncio.StreamWriter) -> bool:
    """Return whether the other side runs as the same user. The folder is private; this is a second lock."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    import struct

    peer = writer.get_extra_info("socket")
    _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return bool(user == os.getuid())
