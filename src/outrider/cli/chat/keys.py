"""Keys that are pressed while the program is at work, when no line is being edited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prompt_toolkit.input import create_input
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPress

ESCAPE_SECONDS = 0.05
"""How long an Escape waits to be the beginning of another key."""


_NAMES = {"c-m": "enter", "c-j": "enter", "c-h": "backspace"}


class Keyboard:
    """Hands each key to whoever listens; without a listener, Escape and Ctrl-C interrupt and the rest is kept."""

    def __init__(self, interrupt: Callable[[bool], None]) -> None:
        self._interrupt = interrupt
        """Called with whether it was Ctrl-C."""
        self._input = create_input()
        self._listener: asyncio.Future[str] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self.typed = ""
        """What was typed meanwhile: the beginning of the next line."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take keys from the terminal until the end of the block."""
        with self._input.raw_mode(), self._input.attach(self._ready):
            try:
                yield
            finally:
                if self._flush:
                    self._flush.cancel()

    async def next(self) -> str:
        """The next key: a character, or a name such as `enter`, `escape`, `c-c`."""
        self._listener = asyncio.get_running_loop().create_future()
        try:
            return await self._listener
        finally:
            self._listener = None

    def _ready(self) -> None:
        self._take(self._input.read_keys())
        if self._flush:
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_later(
            ESCAPE_SECONDS, lambda: self._take(self._input.flush_keys())
        )

    def _take(self, presses: list[KeyPress]) -> None:
        for press in presses:
            self._press(press)

    def _press(self, press: KeyPress) -> None:
        key = press.key.value if isinstance(press.key, Keys) else press.key
        name = _NAMES.get(key, key)
        if self._listener and not self._listener.done():
            self._listener.set_result(name)
        elif name in ("escape", "c-c"):
            self._interrupt(name == "c-c")
        elif name == "backspace":
            self.typed = self.typed[:-1]
        elif press.key is Keys.BracketedPaste or (len(press.data) == 1 and press.data.isprintable()):
            self.typed += press.data
