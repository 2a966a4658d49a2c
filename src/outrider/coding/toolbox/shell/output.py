"""What a command prints: its beginning and its end are held, the whole goes to a file, up to a limit."""

from __future__ import annotations

import codecs
import os
import re
from io import FileIO
from pathlib import Path

from outrider.conversation.attachments import MAX_BYTES
from outrider.text import REPLACEMENT

RING = 1024 * 1024
"""Bytes of the newest output that are held, and the most that is read at once."""
HEAD, TAIL = 22_500, 7_500
"""Characters of the beginning and of the end that a model gets to read; the beginning usually says more."""
NEWS = 64 * 1024
"""Bytes that an observer is shown at once."""

_WIDEST = 4  # bytes of a character

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # colours, the cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_OVERSTRUCK = re.compile(r"[^\n]\x08")
_UNREADABLE = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f]")


class Output:
    """The output of one command. The newest of it is in a ring, into which it is read without being copied."""

    def __init__(self, spool: Path) -> None:
        self.total = 0
        """Bytes so far."""
        self.stored = 0
        """Bytes of them that are in the file, which is begun when the text cannot hold them any more."""
        self.spool = spool
        self.fault = ""
        """Why the file could not be written, if so."""
        self._ring = memoryview(bytearray(RING))
        self._head = b""
        self._shown = 0
        self._file: FileIO | None = None
        self._storing = True

    def take(self, handle: int) -> int:
        """Read once. Gives the number of bytes, 0 at the end. Raises BlockingIOError if there is nothing to read."""
        place = self.total % RING
        if not place and self.total == RING:
            self._head = bytes(self._ring[: HEAD * _WIDEST])  # about to be written over
        count = os.readv(handle, [self._ring[place:]])
        self.total += count
        if self._storing and self.total > HEAD + TAIL:
            self._store()
        return count

    def news(self) -> str:
        """What came since the last time, in whole characters: its end, if that is much."""
        start = max(self._shown, self.total - NEWS)
        skipped = start - self._shown
        data = self._since(start)
        if skipped:
            data = _from_character(data)
        start = self.total - len(data)
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._shown = start + used
        return f"\n[{skipped:,} bytes are not shown here]\n{text}" if skipped else text

    def text(self) -> tuple[str, bool]:
        """What a model should read of it, and whether that is all."""
        if self.total <= (HEAD + TAIL) * _WIDEST:
            whole = _decoded(self._since(0))
            if len(whole) <= HEAD + TAIL:
                return readable(whole), True
        head = _beginning(self._head or bytes(self._ring[: min(self.total, HEAD * _WIDEST)]))
        tail = _decoded(_from_character(self._since(max(0, self.total - TAIL * _WIDEST))))[-TAIL:]
        left_out = self.total - _size(head) - _size(tail)
        note = f"[{left_out:,} of {self.total:,} bytes left out here.]"
        return f"{readable(head)}\n{note}\n{readable(tail)}", False

    def close(self) -> None:
        """Nothing more will come. The file stays."""
        self._storing = False
        if self._file:
            self._file.close()

    def _since(self, start: int) -> bytes:
        """The bytes from a place on, which must still be in the ring."""
        begin, end = start % RING, self.total % RING
        if start == self.total:
            return b""
        return bytes(self._ring[begin:end]) if begin < end else bytes(self._ring[begin:]) + bytes(self._ring[:end])

    def _store(self) -> None:
        """Bring the file up to date."""
        try:
            if self._file is None:
                handle = os.open(self.spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                self._file = FileIO(handle, "w")
            while self.stored < min(self.total, MAX_BYTES):
                begin = self.stored % RING
                size = min(self.total, MAX_BYTES) - self.stored
                self.stored += self._file.write(self._ring[begin : begin + size])
        except OSError as error:
            self.fault = error.strerror or "it could not be written"
        self._storing = not self.fault and self.stored < MAX_BYTES


def readable(text: str) -> str:
    """The text without what only a terminal understands: colours go, other control characters are replaced."""
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return _UNREADABLE.sub(REPLACEMENT, _OVERSTRUCK.sub("", text))


def _decoded(data: bytes) -> str:
    # Each byte that is no part of a character becomes one stand-in, so that bytes can be counted in the text.
    return data.decode("utf-8", "surrogateescape")


def _beginning(data: bytes) -> str:
    return codecs.utf_8_decode(data, "surrogateescape", False)[0][:HEAD]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _from_character(data: bytes) -> bytes:
    """The bytes from the first on that begins a character; a cut leaves at most three before it."""
    for start in range(min(_WIDEST, len(data))):
        if data[start] & 0xC0 != 0x80:
            return data[start:]
    return data
