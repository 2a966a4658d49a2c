"""The output of a command: its beginning and end in memory, the whole in a file, up to a limit."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from outrider.conversation.attachments import MAX_BYTES
from outrider.text.terminal import LiveText, rendered

RING = 1024 * 1024
"""Bytes of the newest output in memory, and the most that is read at once."""
HEAD, TAIL = 22_500, 7_500
"""Characters of the beginning and the end for the model; the beginning usually says more."""
NEW_TEXT_BYTES = 64 * 1024
"""Bytes that observers are shown at once."""

_WIDEST = 4  # bytes of a character


class Output:
    """The output of one command. It is read straight into a ring buffer, without copying."""

    def __init__(self, spool: Path) -> None:
        self.total = 0
        """Bytes so far."""
        self.stored = 0
        """Bytes in the file, which is created when the result cannot hold the output."""
        self.spool = spool
        self.error = ""
        """Why the file could not be written; "" if it could."""
        self._ring = memoryview(bytearray(RING))
        self._head = b""
        self._shown = 0
        self._live = LiveText()
        self._file: FileIO | None = None
        self._storing = True

    def read_from(self, handle: int) -> int:
        """Read once. Return the number of bytes, 0 at the end. Raises BlockingIOError if there is nothing to read."""
        place = self.total % RING
        if not place and self.total == RING:
            self._head = bytes(self._ring[: HEAD * _WIDEST])  # about to be overwritten
        count = os.readv(handle, [self._ring[place:]])
        self.total += count
        if self._storing and self.total > HEAD + TAIL:
            self._store()
        return count

    def new_text(self) -> str:
        """Return the output since the last call as `LiveText` shows it; only its end if there is much."""
        start = max(self._shown, self.total - NEW_TEXT_BYTES)
        skipped = start - self._shown
        data = self._since(start)
        if skipped:
            data = _align(data)
        start = self.total - len(data)
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._shown = start + used
        if skipped:
            self._live = LiveText()
            return f"\n[{skipped:,} bytes are not shown here]\n{self._live.add(text)}"
        return self._live.add(text)

    def text(self) -> tuple[str, bool]:
        """Return the text for the model, and whether it is complete."""
        if self.total <= RING:  # a progress bar prints much and shows little
            whole = _rendered(_decode(self._since(0)))
            if len(whole) <= HEAD + TAIL:
                return whole, True
        start = self._head or bytes(self._ring[: min(self.total, HEAD * _WIDEST)])
        head = codecs.utf_8_decode(start, "surrogateescape", False)[0][:HEAD]
        tail = _decode(_align(self._since(max(0, self.total - TAIL * _WIDEST))))[-TAIL:]
        left_out = self.total - _size(head) - _size(tail)
        note = f"[{left_out:,} of {self.total:,} bytes left out here.]"
        return f"{_rendered(head)}\n{note}\n{_rendered(tail)}", False

    def so_far(self) -> Iterator[bytes]:
        """Yield all output in order; if not all of it is stored, the newest part."""
        if self.total <= RING:
            yield self._since(0)
        elif self.stored == self.total:
            with self.spool.open("rb") as file:
                while data := file.read(RING):
                    yield data
        else:
            yield f"[{self.total - RING:,} bytes of older output are dropped.]\n".encode()
            yield _align(self._since(self.total - RING))

    def close(self) -> None:
        """Close the file. It is not deleted."""
        self._storing = False
        if self._file:
            self._file.close()

    def _since(self, start: int) -> bytes:
        """Return the bytes from an offset on, which must still be in the ring."""
        begin, end = start % RING, self.total % RING
        if start == self.total:
            return b""
        return bytes(self._ring[begin:end]) if begin < end else bytes(self._ring[begin:]) + bytes(self._ring[:end])

    def _store(self) -> None:
        try:
            if self._file is None:
                handle = os.open(self.spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                self._file = FileIO(handle, "w")
            while self.stored < min(self.total, MAX_BYTES):
                begin = self.stored % RING
                size = min(self.total, MAX_BYTES) - self.stored
                self.stored += self._file.write(self._ring[begin : begin + size])
        except OSError as failure:
            self.error = failure.strerror or "it could not be written"
        self._storing = not self.error and self.stored < MAX_BYTES


def _rendered(text: str) -> str:
    return rendered(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _decode(data: bytes) -> str:
    # Each invalid byte becomes one surrogate, so that bytes can be counted in the text.
    return data.decode("utf-8", "surrogateescape")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _align(data: bytes) -> bytes:
    """Drop the bytes before the first whole character; a cut leaves at most three."""
    for start in range(min(_WIDEST, len(data))):
        if data[start] & 0xC0 != 0x80:
            return data[start:]
    return data
