"""A process that holds a session open as the chat does, and one as a program does, for `bench/web.py`.

It prints both. `append` writes an entry to the second one and prints when; `turn` runs a turn of the first one and
prints its CPU seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from outrider.coding.config.settings import Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Mode
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import Message
from outrider.log.entries import MessageEntry
from outrider.providers.base import Reply, Request
from outrider.providers.deltas import Delta, TextDelta
from outrider.sync import default_log
from outrider.testing import ScriptedModel

DELTAS = 300
"""Of one reply, a few milliseconds apart, as models send them."""


class StreamingModel(ScriptedModel):
    """Streams a reply word by word."""

    def __init__(self) -> None:
        super().__init__(lambda request: "word " * DELTAS)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Stream one reply."""
        async for item in super().stream(request):
            if isinstance(item, TextDelta):
                for word in item.text.split():
                    await asyncio.sleep(0.003)
                    yield TextDelta(f"{word} ")
            else:
                yield item


class Front:
    """A front end that does nothing. With one, the session can be watched."""

    place = "in a measurement"

    def answered(self, text: str) -> None:
        """Nobody asks."""

    def use_mode(self, mode: Mode) -> None:
        """The mode does not matter."""

    async def say(self, text: str) -> None:
        """Nobody talks."""

    def stop(self) -> None:
        """Nobody stops it."""


async def main() -> None:
    """Obey the lines of standard input."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    bench = Workbench(Settings(), Path.cwd(), front_end=FrontEnd(remote=Front()))
    with default_log() as log:
        plain = log.create()
        session = bench.open(log, model=StreamingModel())  # type: ignore[arg-type]
        print(session.id, plain.id, flush=True)
        while line := (await lines.readline()).decode().strip():
            if line == "append":
                written = time.time()
                plain.write_now(MessageEntry(Message.user("Something new.")))
                print(written, flush=True)
            else:
                started = time.process_time()
                assert (await session.run("Go on.")).status == "done"
                print(time.process_time() - started, flush=True)
        session.close()
    bench.close()


if __name__ == "__main__":
    asyncio.run(main())
