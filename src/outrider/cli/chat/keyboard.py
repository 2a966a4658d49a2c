"""Keys pressed while the agent works and no line is being edited."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TextIO

from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

ESCAPE_SECONDS = 0.05
"""How long to wait after an Escape for the rest of a key sequence."""
TYPING_PAUSE_SECONDS = 0.7
"""A user who is typing when a question appears must pause this long; until then, keys are not taken as its answer."""
REACTION_SECONDS = 0.4
"""No one can read and answer a question faster; earlier keys were meant for something else."""
ALONE_SECONDS = 0.1
"""A key answers a question only if no other key follows within this time: else it is the start of a text."""
_INTERRUPTS = ("escape", "c-c")
_MOVES = ("up", "down")
"""Keys that begin no text: they may follow one another at any pace."""
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
        actions: Mapping[str, Callable[[], None]] | None = None,
        turn_to: Callable[[int], object] = lambda by: None,
        output: TextIO | None = None,
    ) -> None:
        self._interrupt = interrupt
        """Called with True for Ctrl-C and False for Escape."""
        self._send = send
        """Called with the line on Enter. Returns whether it was taken; else the line stays. Without it, Enter is a line
        break."""
        self._take_back = take_back
        """Called on ↑ in an empty line."""
        self._actions = actions or {}
        """Called on these keys, whatever else goes on."""
        self._turn_to = turn_to
        """Called on ← with -1 and on → with 1."""
        self._output = output
        """The terminal, which is asked to mark pastes."""
        self.is_paused = False
        """Whether another program has the terminal."""
        self._input = create_input()
        self._queue: asyncio.Queue[Key] | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._last_typed = float("-inf")
        """When a key was last typed."""
        self._is_typing = False
        """Whether keys still belong to the line that the user was typing."""
        self._is_question_shown = False
        """Whether the question that captures the keys is on the screen."""
        self.typed = ""
        """Text typed meanwhile, and not sent: the start of the next line."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read keys from the terminal until the end of the block."""
        with self._input.raw_mode(), self._input.attach(self._ready):
            self._mark_pastes(True)
            try:
                yield
            finally:
                self._mark_pastes(False)
                if self._flush:
                    self._flush.cancel()

    def _mark_pastes(self, wanted: bool) -> None:
        if self._output:
            self._output.write("\x1b[?2004h" if wanted else "\x1b[?2004l")
            self._output.flush()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to another program until the end of the block."""
        with self._input.detach(), self._input.cooked_mode():
            self.is_paused = True
            self._mark_pastes(False)
            try:
                yield
            finally:
                self._mark_pastes(True)
                self.is_paused = False

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Queue all keys for `next` until the end of the block."""
        self._queue = asyncio.Queue()
        self._is_typing, self._is_question_shown = True, False
        try:
            yield
        finally:
            following = self._captured()
            self._queue, self._is_typing = None, False
            for key in following:  # they came after the answer
                if key.name != "enter":
                    self._type(key)

    async def wait_until_idle(self) -> None:
        """Wait until the user can have read the question and has stopped typing, so that the next key is an answer.

        Call it once the question is on the screen. Keys that were pressed before, read or not, go to the line.
        """
        self._ready()
        self._last_typed = max(self._last_typed, time.monotonic() - TYPING_PAUSE_SECONDS + REACTION_SECONDS)
        while (remaining := self._last_typed + TYPING_PAUSE_SECONDS - time.monotonic()) > 0:
            await asyncio.sleep(remaining)  # each key extends the wait
            self._ready()  # for keys that were pressed while this process was busy
        self._is_question_shown = True

    async def next(self) -> Key:
        """Return the next captured key or paste."""
        assert self._queue is not None
        return await self._queue.get()

    async def next_alone(self) -> Key:
        """Return the next captured key that stands alone; Enter may follow it. Keys of a text go to the line."""
        while True:
            key = await self.next()
            if key.name in (*_INTERRUPTS, *_MOVES):
                return key
            if key.name != "paste":
                await asyncio.sleep(ALONE_SECONDS)
            following = self._captured()
            if key.name != "paste" and all(each.name == "enter" for each in following):
                for each in following:
                    self._press(each)
                return key
            self.give_back(key, *following)

    def give_back(self, *keys: Key) -> None:
        """Put captured keys into the line: they were no answer. What follows them without a pause goes there too."""
        self._is_typing, self._last_typed = True, time.monotonic()
        for key in (*keys, *self._captured()):
            self._press(key)

    def _captured(self) -> list[Key]:
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())] if self._queue else []

    def _ready(self) -> None:
        self._receive(self._input.read_keys())
        if self._flush:
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_later(
            ESCAPE_SECONDS, lambda: self._receive(self._input.flush_keys())
        )

    def _receive(self, presses: list[KeyPress]) -> None:
        keys: list[Key] = []
        for key in map(_key, presses):
            if keys and keys[-1].name == "escape":  # Escape directly followed by another key is Alt and that key
                keys[-1] = Key("paste", "\n") if key.name == "enter" else Key("")
            else:
                keys.append(key)
        for key in keys if self._queue is None else _joined(keys):
            self._press(key)

    def _press(self, key: Key) -> None:
        is_idle = time.monotonic() - self._last_typed >= TYPING_PAUSE_SECONDS
        if is_idle and (self._is_question_shown or self._queue is None):
            self._is_typing = False
        interrupts = key.name in _INTERRUPTS
        if action := self._actions.get(key.name):
            action()
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
        elif key.name in ("left", "right"):
            self._turn_to(1 if key.name == "right" else -1)
        elif self._send and key.name == "enter" and self.typed.strip() and not self.typed.endswith("\\"):
            if self._send(self.typed.strip()):
                self.typed = ""
        else:
            self.typed = with_key(self.typed, key)


def with_key(line: str, key: Key) -> str:
    """Return the text as the key leaves it. Ctrl-U deletes its last line, Ctrl-W its last word.

    >>> with_key("echo one two ", Key("c-w")), with_key("one\\ntwo", Key("c-u")), with_key("one\\n", Key("c-u"))
    ('echo one ', 'one\\n', '')
    """
    if key.name == "backspace":
        return line[:-1]
    if key.name == "c-u":
        return line[: line.rfind("\n", 0, -1) + 1]
    if key.name == "c-w":
        return line.rstrip().removesuffix((line.split() or [""])[-1])
    if key.name == "enter":
        return line.removesuffix("\\") + "\n" if line else line  # a backslash continues the line
    return line + key.text


def _joined(keys: list[Key]) -> list[Key]:
    """Return the keys with each run of several characters as one paste: no one types them at the same instant.

    Some terminals and connections do not mark pastes.
    """
    joined: list[Key] = []
    for is_text, run in itertools.groupby(keys, lambda key: bool(key.text) or key.name == "enter"):
        found = list(run)
        text = "".join("\n" if key.name == "enter" else key.text for key in found)
        joined += [Key("paste", text)] if is_text and len(found) > 1 else found
    return joined


def _key(press: KeyPress) -> Key:
    if press.key is Keys.BracketedPaste:
        return Key("paste", press.data.replace("\r\n", "\n").replace("\r", "\n"))
    name = press.key.value if isinstance(press.key, Keys) else press.key
    return Key(_NAMES.get(name, name), press.data if len(press.data) == 1 and press.data.isprintable() else "")
