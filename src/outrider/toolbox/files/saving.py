"""Putting bytes in the place of a file: all of them or none."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from outrider.folders import sync_folder
from outrider.toolbox.files.stamps import current
from outrider.toolbox.refusals import RefusalError, refusal, shown
from outrider.toolbox.workspace import Stamp
from outrider.tools import ToolContext


def save(path: Path, name: str, data: bytes, before: Stamp | None, context: ToolContext) -> None:
    """Write a file anew beside the old one, then put it in its place; the old one is as it was until then.

    `before` is what is to be replaced, None for nothing: if something else is there at the last moment, it stays.
    """
    temporary = path.parent / f".outrider-{os.urandom(8).hex()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if before:
            os.close(os.open(path, os.O_WRONLY))  # a file that is write-protected is not replaced either
        try:
            _fill(temporary, data, os.stat(path) if before else None)
            _check_unchanged(path, name, before)
            if context.cancelled:
                raise RefusalError(f"{shown(name)} was not written: the call was cancelled.")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise refusal(error, name, "written") from None
    with suppress(OSError):  # the file is in its place; not every file system takes this
        sync_folder(path.parent)


def _fill(temporary: Path, data: bytes, like: os.stat_result | None) -> None:
    """A new file, on disk, with the owner and the permissions of the old one, or those of any new file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(temporary, flags, 0o600 if like else 0o666), "wb") as file:
        file.write(data)
        file.flush()
        if like:
            _resemble(file.fileno(), like)
        os.fsync(file.fileno())


def _resemble(handle: int, like: os.stat_result) -> None:
    if os.name != "posix":
        return
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, like.st_uid, like.st_gid)
    os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _check_unchanged(path: Path, name: str, before: Stamp | None) -> None:
    if before is None:
        if os.path.lexists(path):
            raise RefusalError(
                f"{shown(name)} was made by somebody else this moment and was left as it is. Read it first."
            )
    elif current(path, name)[0] != before:
        raise RefusalError(
            f"{shown(name)} was changed by somebody else this moment and was left as it is. Read it again."
        )
