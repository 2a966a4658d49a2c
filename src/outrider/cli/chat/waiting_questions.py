"""Questions of MCP servers between turns: the user is writing, so they wait until the next Enter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class WaitingQuestions:
    """Lets questions wait, and asks them together."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Event] = []
        self._open = 0
        self._answered = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the user looks. The question is asked and answered inside."""
        looked = asyncio.Event()
        self._waiting.append(looked)
        try:
            await looked.wait()
            yield
        finally:
            if looked in self._waiting:  # the server has given up
                self._waiting.remove(looked)
            else:
                self._open -= 1
                if self._open <= 0:
                    self._answered.set()

    async def ask_all(self) -> None:
        """Let the waiting questions be asked, and wait for their answers."""
        waiting, self._waiting = self._waiting, []
        self._open = len(waiting)
        self._answered.clear()
        for looked in waiting:
            looked.set()
        if waiting:
            await self._answered.wait()
