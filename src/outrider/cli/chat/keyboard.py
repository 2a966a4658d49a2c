"""Keys pressed while the agent works and no line is being edited."""

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
"""How long to wait after an Escape for the rest of a key sequence."""
TYPING_PAUSE_SECONDS = 0.7
"""A user who is typing when a question appears must pause this long; until then, keys are not taken as its answer."""
REACTION_SECONDS = 0.4
"""No one can read and answer a question faster; earlier keys were meant for something else."""
_NAMES = {"c-m": "enter", "c-j": "enter", "c-h": "backspace"}


class Key(NamedTuple):
    """A key press or pasted text."""

    name: str
    """A character, or a name such as `enter`, `escape`, `c-c`, `paste`."""
    text: str = ""
    """The text that it adds to a line."""


class Keyboard:
    """Passes keys to a question that captures them; else Escape and Ctrl-C interrupt, and Enter sends the line."""

    def __init__(
        self,
        interrupt: Callable[[bool], None],
        send: Callable[[str], bool] | None = None,
        take_back: Callable[[], None] = lambda: None,
        show_output: Callable[[], None] = lambda: None,
    ) -> None:
        self._interrupt = interrupt
        """Called with True for Ctrl-C and False for Escape."""
        self._send = send
        """Called with the line on Enter. Returns whether it was taken; else the line stays. Without it, Enter is a line
        break."""
        self._take_back = take_back
        """Called on ↑ in an empty line."""
        self._show_output = show_output
        """Called on Ctrl-O."""
        self.is_paused = False
        """Whether another program has the terminal."""
        self._input = create_input()
        self._queue: asyncio.Queue[Key] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._last_typed = float("-inf")
        """When a key was last typed."""
        self._is_typing = False
        """Whether keys still belong to the line that the user was typing."""
        self.typed = ""
        """Text typed meanwhile, and not sent: the start of the next line."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read keys from the terminal until the end of the block."""
        with self._input.raw_mode(), self._input.attach(self._ready):
            try:
                yield
            finally:
                if self._flush:
                    self._flush.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to another program until the end of the block."""
        with self._input.detach(), self._input.cooked_mode():
            self.is_paused = True
            try:
                yield
            finally:
                self.is_paused = False

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Queue all keys for `next` until the end of the block."""
        self._queue = asyncio.Queue()
        self._is_typing = True
        self._last_typed = max(self._last_typed, time.monotonic() - TYPING_PAUSE_SECONDS + REACTION_SECONDS)
        try:
            yield
        finally:
            self._queue, self._is_typing = None, False

    async def wait_until_idle(self) -> None:
        """Wait until the user has stopped typing, so that the next key is an answer."""
        while (remaining := self._last_typed + TYPING_PAUSE_SECONDS - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(remaining)  # each key extends the wait

    async def next(self) -> Key:
        """Return the next captured key."""
        assert self._queue is not None
        return await self._queue.get()

    def _ready(self) -> None:
        self._receive(self._input.read_keys())
        if self._flush:
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_later(
            ESCAPE_SECONDS, lambda: self._receive(self._input.flush_keys())
        )

    def _receive(self, presses: list[KeyPress]) -> None:
        keys = list(map(_key, presses))
        while keys:
            key = keys.pop(0)
            if key.name == "escape" and keys:  # Escape directly followed by another key is Alt and that key
                key = Key("paste", "\n") if keys.pop(0).name == "enter" else Key("")
            self._press(key)

    def _press(self, key: Key) -> None:
        if time.monotonic() - self._last_typed >= TYPING_PAUSE_SECONDS:
            self._is_typing = False
        interrupts = key.name in ("escape", "c-c")
        if key.name == "c-o":
            self._show_output()
        elif self._queue is not None and (interrupts or not self._is_typing):
            self._queue.put_nowait(key)
        elif interrupts:
            self._interrupt(key.name == "c-c")
        else:
            self._last_typed = time.monotonic()
            self._type(key)

    def _type(self, key: Key) -> None:
        if key.name == "up" and not self.typed:
            self._take_back()
        elif self._send and key.name == "enter" and self.typed.strip() and not self.typed.endswith("\\"):
            if self._send(self.typed.strip()):
                self.typed = ""
        else:
            self.typed = with_key(self.typed, key)


def with_key(line: str, key: Key) -> str:
    """Return the line after a key press."""
    if key.name == "backspace":
        return line[:-1]
    if key.name == "enter":
        return line.removesuffix("\\") + "\n" if line else line  # a backslash continues the line
    return line + key.text


def _key(press: KeyPress) -> Key:
    if press.key is Keys.BracketedPaste:
        return Key("paste", press.data.replace("\r\n", "\n").replace("\r", "\n"))
    name = press.key.value if isinstance(press.key, Keys) else press.key
    return Key(_NAMES.get(name, name), press.data if len(press.data) == 1 and press.data.isprintable() else "")
