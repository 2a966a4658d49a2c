"""What is remembered of a file that the model has seen, so that nothing is overwritten unseen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from outrider.coding.toolbox.files.regular_files import opened
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.coding.toolbox.workspace import Stamp, Workspace
from outrider.conversation.attachments import sha256

WHOLE = 20 * 1024 * 1024
"""The largest file, in bytes, that is held in memory."""


def stamp_of(data: bytes) -> Stamp:
    """The stamp of a file with these bytes."""
    return Stamp(sha256(data), len(data))


def stamped(file: BinaryIO) -> tuple[Stamp, bytes | None]:
    """The stamp of an open file, and its bytes if they are not too many to hold."""
    status = os.fstat(file.fileno())
    data = b""
    if status.st_size <= WHOLE:  # some files of the system say 0 and have more, or nothing yet
        data = file.read(WHOLE + 1) or b""
    if status.st_size > WHOLE or len(data) > WHOLE:
        return Stamp("", status.st_size, status.st_mtime_ns), None
    return stamp_of(data), data


def current(path: Path, name: str) -> tuple[Stamp, bytes | None]:
    """As `stamped`, of the file as it is now. Raises RefusalError if it cannot be read."""
    with opened(path, name) as file:
        return stamped(file)


def check_seen(workspace: Workspace, path: Path, name: str, now: Stamp | None) -> None:
    """Refuse to change a file of which the model does not know what is in it."""
    seen = workspace.seen.get(path)
    if seen is None:
        raise RefusalError(f"{shown(name)} was not read in this session, so it was not changed. Read it first.")
    if seen != now:
        raise RefusalError(
            f"{shown(name)} has changed since it was read, so it was left as it is. Read it again first."
        )
