"""Putting bytes in the place of a file: all of them or none, by the editor where it lends the file."""

from __future__ import annotations

import codecs
import os
import stat
from contextlib import suppress
from pathlib import Path

from outrider.coding.toolbox.editor import Buffers
from outrider.coding.toolbox.files.stamps import current, stamp_of
from outrider.coding.toolbox.files.versions import Version, version
from outrider.coding.toolbox.refusals import RefusalError, refusal, shown
from outrider.coding.toolbox.workspace import Stamp, Workspace
from outrider.filesystem import sync_folder
from outrider.tools.context import ToolContext


def save(workspace: Workspace, path: Path, name: str, data: bytes, before: Version, context: ToolContext) -> str:
    """Put bytes in the place of what there is, and remember that the model knows them. Raises RefusalError.

    If something else is there at the last moment, it stays. Gives a note for the model where the file is not what it
    wrote: editors may have it formatted.
    """
    buffers = workspace.buffers
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if before.disk:
            os.close(os.open(path, os.O_WRONLY))  # a file that is write-protected is not replaced either
        by_editor = buffers and before.lent and _hand_over(buffers, path, name, data, before, context)
        if not by_editor:
            _replace(path, name, data, before.disk, context)
    except OSError as error:
        raise refusal(error, name, "written") from None
    workspace.seen[path] = stamp_of(data)
    return _look_back(workspace, path, name, data) if by_editor else ""


def _hand_over(buffers: Buffers, path: Path, name: str, data: bytes, before: Version, context: ToolContext) -> bool:
    """Have the editor save it. False if it cannot."""
    _check_last(path, name, before.disk, context)
    try:
        return buffers.write(path, before.for_editor(data))
    except Exception:  # noqa: BLE001 - a front end may raise anything, and means the same by it
        raise RefusalError(
            f"The editor did not say whether it saved {shown(name)}: nothing is known to be written. "
            "Read it before you change it again."
        ) from None


def _look_back(workspace: Workspace, path: Path, name: str, data: bytes) -> str:
    """Remember what the editor made of it, if that is the same text."""
    try:
        now = version(workspace, path, name)
    except RefusalError:
        return ""
    if now.data is None or _text(now.data) != _text(data):
        return (
            "The editor made something else of it when it saved it, as formatters do. Read it before the next change."
        )
    if now.stamp:
        workspace.seen[path] = now.stamp
    return ""


def _text(data: bytes) -> bytes:
    return data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


def _replace(path: Path, name: str, data: bytes, before: Stamp | None, context: ToolContext) -> None:
    """Write a file anew beside the old one, then put it in its place; the old one is as it was until then."""
    temporary = path.parent / f".outrider-{os.urandom(8).hex()}.tmp"
    try:
        _fill(temporary, data, os.stat(path) if before else None)
        _check_last(path, name, before, context)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
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


def _check_last(path: Path, name: str, before: Stamp | None, context: ToolContext) -> None:
    """Refuse at the last moment, if somebody was there before or nobody waits any more."""
    _check_unchanged(path, name, before)
    if context.cancelled:
        raise RefusalError(f"{shown(name)} was not written: the call was cancelled.")


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
