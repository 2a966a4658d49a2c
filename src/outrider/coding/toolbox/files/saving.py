"""Save a file atomically, or through the editor if it has the file."""

from __future__ import annotations

import codecs
import os
import stat
from contextlib import suppress
from pathlib import Path

from outrider.coding.toolbox.editor import Buffers
from outrider.coding.toolbox.files.stamps import stamp_of, stamp_path
from outrider.coding.toolbox.files.versions import Version, version
from outrider.coding.toolbox.seen_files import Stamp
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.filesystem import sync_folder
from outrider.tools.context import ToolContext


def save(
    workspace: Workspace,
    path: Path,
    name: str,
    data: bytes,
    before: Version,
    context: ToolContext,
    *,
    edited: bool = False,
) -> str:
    """Replace the content of a file and record it as seen by the model. Raises ToolCallError.

    With `edited`, the model knows only the parts that it had seen before. A file that changed at the last moment is
    left as it is. Returns a note for the model if the file differs from what was written: editors may format it.
    """
    buffers = workspace.buffers
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if before.disk:
            os.close(os.open(path, os.O_WRONLY))  # do not replace a write-protected file
        by_editor = buffers and before.via_editor and _save_in_editor(buffers, path, name, data, before, context)
        if not by_editor:
            _replace(path, name, data, before.disk, context)
    except OSError as error:
        raise os_error(error, name, "written") from None
    workspace.seen.add_written(context, path, stamp_of(data), edited=edited)
    if not by_editor:
        return ""
    stamp, note = _check_saved(workspace, path, name, data)
    if stamp:
        workspace.seen.add_written(context, path, stamp, edited=edited)
    return note


def _save_in_editor(
    buffers: Buffers, path: Path, name: str, data: bytes, before: Version, context: ToolContext
) -> bool:
    """Let the editor save the file. Returns False if it cannot."""
    _check_before_replacing(path, name, before.disk, context)
    try:
        return buffers.write(path, before.for_editor(data))
    except Exception:  # noqa: BLE001 - a front end may raise anything
        raise ToolCallError(
            f"The editor did not confirm that it saved {printable(name)}; it may or may not be written. "
            "Read it before you change it again."
        ) from None


def _check_saved(workspace: Workspace, path: Path, name: str, data: bytes) -> tuple[Stamp | None, str]:
    """Return the stamp of what the editor saved if it is the same text, or else a note for the model."""
    try:
        now = version(workspace, path, name)
    except ToolCallError:
        return None, ""
    if now.data is None or _normalized(now.data) != _normalized(data):
        return None, "The editor changed the text when it saved it, as formatters do. Read it before the next change."
    return now.stamp, ""


def _normalized(data: bytes) -> bytes:
    return data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


def _replace(path: Path, name: str, data: bytes, before: Stamp | None, context: ToolContext) -> None:
    """Write a temporary file beside the old one and rename it into place."""
    temporary = path.parent / f".outrider-{os.urandom(8).hex()}.tmp"
    try:
        _fill(temporary, data, os.stat(path) if before else None)
        _check_before_replacing(path, name, before, context)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    with suppress(OSError):  # the file is in place; not every file system can sync a folder
        sync_folder(path.parent)


def _fill(temporary: Path, data: bytes, like: os.stat_result | None) -> None:
    """Write and sync a new file with the owner and permissions of `like`, or the defaults."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(temporary, flags, 0o600 if like else 0o666), "wb") as file:
        file.write(data)
        file.flush()
        if like:
            _copy_ownership(file.fileno(), like)
        os.fsync(file.fileno())


def _copy_ownership(handle: int, like: os.stat_result) -> None:
    if os.name != "posix":
        return
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, like.st_uid, like.st_gid)
    os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _check_before_replacing(path: Path, name: str, before: Stamp | None, context: ToolContext) -> None:
    """Raise ToolCallError if the file has changed or the call was cancelled."""
    _check_unchanged(path, name, before)
    if context.cancelled:
        raise ToolCallError(f"{printable(name)} was not written: the call was cancelled.")


def _check_unchanged(path: Path, name: str, before: Stamp | None) -> None:
    if before is None:
        if os.path.lexists(path):
            raise ToolCallError(
                f"{printable(name)} was just created by another program and was left as it is. Read it first."
            )
    elif stamp_path(path, name)[0] != before:
        raise ToolCallError(
            f"{printable(name)} was just changed by another program and was left as it is. Read it again."
        )
