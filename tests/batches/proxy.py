"""A TCP proxy whose network can be cut: nothing passes, and nobody is told."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.modelserver import stop_listening


class Proxy:
    """Forwards connections to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_listening(self._server)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def cut(self, seconds: float) -> None:
        """Let nothing pass for so long. The connections of before are dead then, as a router forgets them."""
        before = list(self._writers)
        self._open.clear()
        await asyncio.sleep(seconds)
        for writer in before:
            writer.transport.abort()
        self._open.set()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._open.wait()
            with suppress(OSError):
                source, sink = await asyncio.open_connection("127.0.0.1", self._target)
                self._writers.add(sink)
                pumps = [
                    asyncio.ensure_future(self._pump(reader, sink)),
                    asyncio.ensure_future(self._pump(source, writer)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    self._writers.discard(sink)
                    sink.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
