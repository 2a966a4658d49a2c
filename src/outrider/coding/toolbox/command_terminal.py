"""The terminal of a command that the model types into: its screen, and the keys that go to it."""

from __future__ import annotations

import codecs
import os
import re
import select
import threading
import time
from contextlib import suppress

from outrider.processes.pseudo_terminal import is_read_by_key
from outrider.text.screen import Screen

SIZE = (80, 24)
QUIET_SECONDS = 0.3
"""Seconds without output after which a program that waits for keys has finished its answer."""
REACTION_SECONDS = 2.0
"""Seconds that a program has to react to keys at all."""
_LOOK_SECONDS = 0.05
_TYPING_SECONDS = 5.0

KEYS = {
    "Enter": "\r",
    "Tab": "\t",
    "Space": " ",
    "Escape": "\x1b",
    "Backspace": "\x7f",
    "Delete": "\x1b[3~",
    "Up": "\x1b[A",
    "Down": "\x1b[B",
    "Right": "\x1b[C",
    "Left": "\x1b[D",
    "Home": "\x1b[H",
    "End": "\x1b[F",
    "PageUp": "\x1b[5~",
    "PageDown": "\x1b[6~",
}


def keys_of(text: str) -> str:
    """Return what a keyboard sends: for a text that is nothing but names of keys, those; else its characters.

    >>> keys_of("C-c"), keys_of("Up Up Enter"), keys_of("1+1\\n"), keys_of("\\\\x04"), keys_of("Enter it")
    ('\\x03', '\\x1b[A\\x1b[A\\r', '1+1\\r', '\\x04', 'Enter it')
    """
    named = [_key(word) for word in text.split(" ")]
    if all(named):
        return "".join(each for each in named if each)
    return text.replace("\r\n", "\r").replace("\n", "\r")


def _key(word: str) -> str | None:
    if len(word) == 3 and word[:2] in ("C-", "c-", "^-") and "@" <= word[2].upper() <= "_":
        return chr(ord(word[2].upper()) & 0x1F)
    if re.fullmatch(r"\\x([01][0-9A-Fa-f]|7[Ff])", word):
        return chr(int(word[2:], 16))
    return KEYS.get(word)


class CommandTerminal:
    """Our end of a terminal. A thread shows what the command prints; calls type and look."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle
        self._screen = Screen(*SIZE)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._changed_at = 0.0
        self._typed_at: float | None = time.monotonic()

    def show(self, data: bytes) -> None:
        with self._lock:
            self._screen.add(self._decoder.decode(data))
            self._changed_at = time.monotonic()
            answers, self._screen.answers = self._screen.answers, ""
            if answers and self._handle is not None:
                with suppress(OSError):
                    os.write(self._handle, answers.encode())

    def close(self) -> None:
        """Take no more keys: the handle is about to be closed."""
        with self._lock:
            self._handle = None

    def type(self, keys: str) -> bool:
        """Send keys. Return whether the command has taken all of them."""
        data, deadline = keys.encode(), time.monotonic() + _TYPING_SECONDS
        self._typed_at = time.monotonic() if keys else None
        while data and time.monotonic() < deadline:
            with self._lock:
                if self._handle is None:
                    return False
                with suppress(BlockingIOError):
                    data = data[os.write(self._handle, data[:1024]) :]
                    continue
                select.select([], [self._handle], [], _LOOK_SECONDS)
            time.sleep(_LOOK_SECONDS)
        return not data

    @property
    def waits(self) -> bool:
        """Whether the command seems to wait for keys: it reads them one by one or unseen, or has asked something."""
        with self._lock:
            reads = self._handle is not None and is_read_by_key(self._handle)
            return reads or (self._handle is not None and self._screen.has_open_line)

    def wait(self, ended: threading.Event, seconds: float) -> None:
        """Wait until the command waits for keys and has printed all, has ended, or the time is over."""
        now = time.monotonic()
        typed, deadline, since = self._typed_at or 0.0, now + seconds, None
        while now < deadline and not ended.wait(min(_LOOK_SECONDS, deadline - now)):
            now = time.monotonic()
            has_reacted = self._changed_at > typed or now - typed > REACTION_SECONDS
            since = (since or now) if self.waits else None  # it may be about to print its prompt
            if has_reacted and since and now - max(since, self._changed_at) >= QUIET_SECONDS:
                return

    def take(self) -> str:
        with self._lock:
            return self._screen.take()
