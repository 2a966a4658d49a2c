"""The current version of a file: the editor's buffer with its unsaved changes, or else the file on disk; saving it.

The editor is asked about files that are UTF-8 on disk or do not exist yet. Editors differ in how they treat other
encodings, and a round trip might change the bytes. Pictures, PDFs and notebooks are always read from disk. A file is
saved atomically, or through the editor if it has the file.
"""

from __future__ import annotations

import codecs
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from outrider.coding.toolbox.editor import Buffers
from outrider.coding.toolbox.files.regular_files import has_crlf, open_regular, open_regular_in, with_crlf
from outrider.coding.toolbox.no_follow import Folder, opened_folder
from outrider.coding.toolbox.seen_files import Stamp
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.attachments import sha256
from outrider.conversation.encodings import HEAD, Encoding, encoding_of
from outrider.conversation.mime_types import sniff
from outrider.text import clean
from outrider.tools.context import ToolContext

EDITOR_MAX_BYTES = 10 * 1024 * 1024
"""The largest file, in bytes, that is requested from the editor."""
BOM = "\ufeff"


class Version(msgspec.Struct, frozen=True):
    """The current version of a file."""

    stamp: Stamp | None
    """None if the file does not exist."""
    data: bytes | None
    """The bytes as they would be on disk; None if there are too many to hold."""
    disk: Stamp | None
    """The stamp of the file on disk; None if it is not there."""
    via_editor: bool = False
    """Whether the editor should save the file, if it can."""
    drops_cr: bool = False
    """Whether the editor turns the CR LF on disk into line feeds, and restores CR LF when it saves."""
    drops_bom: bool = False
    """Whether the editor leaves out the byte order mark, and restores it when it saves."""

    @property
    def unsaved(self) -> bool:
        """Whether the editor's text differs from the file on disk."""
        return self.stamp != self.disk

    def for_editor(self, data: bytes) -> str:
        """Return bytes for the disk as the text that the editor should save, in the form that the editor uses."""
        text = data.decode()
        text = text.removeprefix(BOM) if self.drops_bom else text
        return text.replace("\r\n", "\n") if self.drops_cr else text


class EditorUnavailableError(ToolCallError):
    """The editor did not return its version of a file."""


def version(workspace: Workspace, path: Path, name: str) -> Version:
    """Return the current version of a file. Raises ToolCallError if it is missing or cannot be read."""
    if not os.path.lexists(path):
        draft = editor_version(workspace, path, name, None, b"")  # the editor may have what was never saved
        return draft if draft.stamp else _on_disk(*stamp_path(path, name))
    return editor_version(workspace, path, name, *stamp_path(path, name))


def version_or_none(workspace: Workspace, path: Path, name: str) -> Version:
    """Return the current version of a file that may be missing: its stamp is then None."""
    if os.path.lexists(path):
        return editor_version(workspace, path, name, *stamp_path(path, name))
    # The editor is not asked about a file that is to be created: it would answer with an error.
    via_editor = workspace.buffers is not None and _editor_may_have(workspace, path, None, b"")
    return msgspec.structs.replace(_on_disk(None, b""), via_editor=via_editor)


def editor_version(workspace: Workspace, path: Path, name: str, disk: Stamp | None, data: bytes | None) -> Version:
    """Return the current version of a file, given what is on disk. Raises EditorUnavailableError."""
    own = _on_disk(disk, data)
    buffers = workspace.buffers
    if buffers is None or data is None or not _editor_may_have(workspace, path, disk, data):
        return own
    try:
        text = buffers.read(path)
    except Exception:  # noqa: BLE001 - a front end may raise anything
        raise EditorUnavailableError(
            f"{printable(name)} was left as it is: the editor did not say whether it has unsaved changes. Try again."
        ) from None
    if text is None or (disk is None and not text):
        return msgspec.structs.replace(own, via_editor=True)
    return _from_editor(clean(text), disk, data)


def _on_disk(stamp: Stamp | None, data: bytes | None) -> Version:
    return Version(stamp, data, stamp)


def _from_editor(text: str, disk: Stamp | None, data: bytes) -> Version:
    encoding = encoding_of(data) or Encoding()
    old = encoding.decode(data)
    drops_bom = bool(encoding.mark) and not text.startswith(BOM)
    text = text.removeprefix(BOM) if encoding.mark else text
    drops_cr = "\r\n" in old and "\n" in text and "\r\n" not in text
    now = encoding.encode(_restore_line_ends(old, text) if drops_cr else text)
    return Version(stamp_of(now), now, disk, via_editor=True, drops_cr=drops_cr, drops_bom=drops_bom)


def _restore_line_ends(old: str, text: str) -> str:
    if text == old.replace("\r\n", "\n"):
        return old
    return with_crlf(text) if has_crlf(old) else text


def _editor_may_have(workspace: Workspace, path: Path, disk: Stamp | None, data: bytes) -> bool:
    if path.suffix == ".ipynb" or path.is_relative_to(workspace.temporary_path):
        return False
    if disk is None:
        return _is_new(path)
    return len(data) <= EDITOR_MAX_BYTES and _is_utf8_text(data)


def _is_new(path: Path) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:  # cannot tell
        return False
    return False


def _is_utf8_text(data: bytes) -> bool:
    encoding = encoding_of(data)
    if encoding is None or encoding.codec != "utf-8" or sniff(data[:HEAD]) == "application/pdf":
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


WHOLE = 20 * 1024 * 1024
"""The largest file, in bytes, that is held in memory."""


def stamp_of(data: bytes) -> Stamp:
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
