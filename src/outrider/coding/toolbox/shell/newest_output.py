"""A file with the newest output of a command, of a bounded size."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.text import human_size

KEPT = 5 * 1024 * 1024
"""Bytes that are kept at least. The file grows to twice that, then its older half is dropped."""


class NewestOutput:
    """Appends to a file for the owner alone. A write that fails is left out: the command goes on."""

    def __init__(self, path: Path, kept: int = KEPT) -> None:
        self.path = path
        self._kept = kept
        self._dropped = 0
        self._size = 0
        self._handle = self._open(path)

    def append(self, data: bytes) -> None:
        """Append output."""
        try:
            os.write(self._handle, data)
            self._size += len(data)
            if self._size > 2 * self._kept:
                self._drop_half()
        except OSError:  # the disk is full, or the session has removed its folder
            pass

    def close(self) -> None:
        """Close the file. It is not deleted."""
        os.close(self._handle)

    def _drop_half(self) -> None:
        """Replace the file at once by one that begins with a line on what it leaves out, at a whole line."""
        with self.path.open("rb") as file:
            file.seek(-self._kept, os.SEEK_END)
            rest = file.read()
        rest = rest[rest.find(b"\n") + 1 :]
        self._dropped += self._size - len(rest)
        part = self.path.with_suffix(".part")
        handle = self._open(part)
        try:
            os.write(handle, f"[{human_size(self._dropped)} of older output are dropped.]\n".encode() + rest)
            os.replace(part, self.path)
        except OSError:
            os.close(handle)
            part.unlink(missing_ok=True)
            raise
        os.close(self._handle)
        self._handle, self._size = handle, os.fstat(handle).st_size

    def _open(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
