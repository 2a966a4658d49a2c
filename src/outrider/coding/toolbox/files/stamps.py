"""Stamps of files, which detect changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from outrider.coding.toolbox.files.regular_files import open_regular
from outrider.coding.toolbox.seen_files import Stamp
from outrider.conversation.attachments import sha256

WHOLE = 20 * 1024 * 1024
"""The largest file, in bytes, that is held in memory."""


def stamp_of(data: bytes) -> Stamp:
    """Return the stamp of a file with these bytes."""
    return Stamp(sha256(data), len(data))


def stamp_file(file: BinaryIO) -> tuple[Stamp, bytes | None]:
    """Return the stamp of an open file, and its bytes unless there are too many."""
    status = os.fstat(file.fileno())
    data = b""
    if status.st_size <= WHOLE:  # files in /proc report 0 and have more
        data = file.read(WHOLE + 1) or b""
    if status.st_size > WHOLE or len(data) > WHOLE:
        return Stamp("", status.st_size, status.st_mtime_ns), None
    return stamp_of(data), data


def stamp_path(path: Path, name: str) -> tuple[Stamp, bytes | None]:
    """Return the stamp and the bytes of the file at a path, like `stamp_file`. Raises ToolCallError."""
    with open_regular(path, name) as file:
        return stamp_file(file)
