"""Keys that are pressed while the program is at work, when no line is being edited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.input import create_input
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPress

ESCAPE_SECONDS = 0.05
"""How long an Escape waits to be the beginning of another key."""
PAUSE_SECONDS = 0.7
"""Whoever was typing when somebody began to listen is heard only after such a pause: the keys were not meant for it."""
GRACE_SECONDS = 0.4
"""Nobody reads a question and answers it in so short a time: what comes before was meant for something else."""
_NAMES = {"c-m": "enter", "c-j": "enter", "c-h": "backspace"}


class Key(NamedTuple):
    """A key that was pressed, or a text that was pasted."""

    name: str
    """A character, or a name such as `enter`, `escape`, `c-c`, `paste`."""
    text: str = ""
    """What it adds to a line."""


class Keyboard:
    """Hands keys to whoever listens; otherwise Escape and Ctrl-C interrupt, and the rest is kept for the next line."""

    def __init__(self, interrupt: Callable[[bool], None]) -> None:
        self._interrupt = interrupt
        """Called with whether it was Ctrl-C."""
        self._input = create_input()
        self._heard: asyncio.Queue[Key] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._last = float("-inf")
        """When something was last typed."""
        self._is_typing = False
        """Whether keys still belong to the line that was being typed."""
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

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have all keys kept for `next` until the end of the block."""
        self._heard = asyncio.Queue()
        self._is_typing = True
        self._last = max(self._last, time.monotonic() - PAUSE_SECONDS + GRACE_SECONDS)
        try:
            yield
        finally:
            self._heard, self._is_typing = None, False

    async def until_heard(self) -> None:
        """Wait until keys are heard, for those who listen: until a moment has passed, and nobody is typing."""
        while (left := self._last + PAUSE_SECONDS - time.monotonic()) > 0:  # noqa: ASYNC110 - each key puts it off
            await asyncio.sleep(left)

    async def next(self) -> Key:
        """The next key, for those who listen."""
        assert self._heard is not None
        return await self._heard.get()

    def _ready(self) -> None:
        self._take(self._input.read_keys())
        if self._flush:
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_later(
            ESCAPE_SECONDS, lambda: self._take(self._input.flush_keys())
        )

    def _take(self, presses: list[KeyPress]) -> None:
        keys = list(map(_key, presses))
        while keys:
            key = keys.pop(0)
            if key.name == "escape" and keys:  # with another key right behind it, it is Alt and that key
                key = Key("enter", "") if keys.pop(0).name == "enter" else Key("")
            self._press(key)

    def _press(self, key: Key) -> None:
        if time.monotonic() - self._last >= PAUSE_SECONDS:
            self._is_typing = False
        interrupts = key.name in ("escape", "c-c")
        if self._heard is not None and (interrupts or not self._is_typing):
            self._heard.put_nowait(key)
        elif interrupts:
            self._interrupt(key.name == "c-c")
        else:
            self._last = time.monotonic()
            self.typed = with_key(self.typed, key)


def with_key(line: str, key: Key) -> str:
    """A line after a key was pressed."""
    if key.name == "backspace":
        return line[:-1]
    if key.name == "enter":
        return line.removesuffix("\\") + "\n" if line else line  # a backslash before it means the same as in a shell
    return line + key.text


def _key(press: KeyPress) -> Key:
    if press.key is Keys.BracketedPaste:
        return Key("paste", press.data.replace("\r\n", "\n").replace("\r", "\n"))
    name = press.key.value if isinstance(press.key, Keys) else press.key
    return Key(_NAMES.get(name, name), press.data if len(press.data) == 1 and press.data.isprintable() else "")
