"""The current version of a file: the editor's buffer with its unsaved changes, or else the file on disk.

The editor is asked about files that are UTF-8 on disk or do not exist yet. Editors differ in how they treat other
encodings, and a round trip might change the bytes. Pictures, PDFs and notebooks are always read from disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from outrider.coding.toolbox.files.regular_files import open_regular
from outrider.coding.toolbox.files.text_files import has_crlf, with_crlf
from outrider.coding.toolbox.seen_files import Stamp
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.attachments import sha256
from outrider.conversation.encodings import HEAD, Encoding, encoding_of
from outrider.conversation.mime_types import sniff
from outrider.text import clean

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
