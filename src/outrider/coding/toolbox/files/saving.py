"""Save a file atomically, or through the editor if it has the file."""

from __future__ import annotations

import codecs
import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from outrider.coding.toolbox.editor import Buffers
from outrider.coding.toolbox.files.regular_files import open_regular_in
from outrider.coding.toolbox.files.versions import Version, stamp_file, stamp_of, stamp_path, version
from outrider.coding.toolbox.no_follow import Folder, opened_folder
from outrider.coding.toolbox.seen_files import Stamp
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
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
        with opened_folder(path.parent, create=True) as folder:
            place = _Place(folder, path.name, name)
            if before.disk:
                os.close(folder.open(path.name, os.O_WRONLY))  # do not replace a write-protected file
            by_editor = buffers and before.via_editor and _save_in_editor(buffers, path, place, data, before, context)
            if not by_editor:
                _replace(place, data, before.disk, context)
    except OSError as error:
        raise os_error(error, name, "written") from None
    workspace.seen.add_written(context, path, stamp_of(data), edited=edited)
    if not by_editor:
        return ""
    stamp, note = _check_saved(workspace, path, name, data)
    if stamp:
        workspace.seen.add_written(context, path, stamp, edited=edited)
    return note


class _Place(msgspec.Struct, frozen=True):
    """Where a file is written."""

    folder: Folder
    file_name: str
    name: str
    """The name that the model used."""


def _save_in_editor(
    buffers: Buffers, path: Path, place: _Place, data: bytes, before: Version, context: ToolContext
) -> bool:
    """Let the editor save the file, which follows links as the editor does. Returns False if it cannot."""
    _check_before_replacing(place, before.disk, context)
    try:
        return buffers.write(path, before.for_editor(data))
    except Exception:  # noqa: BLE001 - a front end may raise anything
        raise ToolCallError(
            f"The editor did not confirm that it saved {printable(place.name)}; it may or may not be written. "
            "Read it before you change it again."
        ) from None


def _check_saved(workspace: Workspace, path: Path, name: str, data: bytes) -> tuple[Stamp | None, str]:
    """Return the stamp of what the editor saved if it is the same text, or else a note for the model."""
    try:
        stamp, saved = stamp_path(path, name)
        if saved is not None and _normalized(saved) == _normalized(data):
            return stamp, ""  # the editor need not be asked
        now = version(workspace, path, name)
    except ToolCallError:
        return None, ""
    if now.data is None or _normalized(now.data) != _normalized(data):
        return None, "The editor changed the text when it saved it, as formatters do. Read it before the next change."
    return now.stamp, ""


def _normalized(data: bytes) -> bytes:
    return data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


def _replace(place: _Place, data: bytes, before: Stamp | None, context: ToolContext) -> None:
    """Write a temporary file beside the old one and rename it into place."""
    folder = place.folder
    temporary = f".outrider-{os.urandom(8).hex()}.tmp"
    try:
        _fill(folder, temporary, data, folder.status(place.file_name) if before else None)
        _check_before_replacing(place, before, context)
        folder.replace(temporary, place.file_name)
    finally:
        folder.remove(temporary)
    with suppress(OSError):  # the file is in place; not every file system can sync a folder
        folder.sync()


def _fill(folder: Folder, temporary: str, data: bytes, like: os.stat_result | None) -> None:
    """Write and sync a new file with the owner and permissions of `like`, or the defaults."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(folder.open(temporary, flags, 0o600 if like else 0o666), "wb") as file:
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


def _check_before_replacing(place: _Place, before: Stamp | None, context: ToolContext) -> None:
    """Raise ToolCallError if the file has changed or the call was cancelled."""
    now = _stamp(place)
    if before is None and now is not None:
        raise ToolCallError(
            f"{printable(place.name)} was just created by another program and was left as it is. Read it first."
        )
    if now != before:
        raise ToolCallError(
            f"{printable(place.name)} was just changed by another program and was left as it is. Read it again."
        )
    if context.cancelled:
        raise ToolCallError(f"{printable(place.name)} was not written: the call was cancelled.")


def _stamp(place: _Place) -> Stamp | None:
    """Return the stamp of the file that is there now; None if there is none."""
    try:
        with open_regular_in(place.folder, place.file_name, place.name) as file:
            return stamp_file(file)[0]
    except FileNotFoundError:
        return None
