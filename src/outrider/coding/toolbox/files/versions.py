"""A file as it is now: as the editor has it, with changes that are not saved, or else as it is on disk.

The editor is asked for files that are UTF-8 on disk, or not there yet. What editors make of others varies, and their
bytes might not survive the way there and back. Pictures, PDFs and notebooks are read from the disk in any case.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from outrider.coding.toolbox.files.stamps import current, stamp_of
from outrider.coding.toolbox.files.text_files import has_crlf, with_crlf
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.coding.toolbox.workspace import Stamp, Workspace
from outrider.conversation.attachments import sniff
from outrider.conversation.encodings import HEAD, Encoding, encoding_of
from outrider.text import clean

ASKED = 10 * 1024 * 1024
"""The largest file, in bytes, for which the editor is asked."""
MARK = "\ufeff"


class Version(msgspec.Struct, frozen=True):
    """What there is of a file."""

    stamp: Stamp | None
    """None if there is nothing."""
    data: bytes | None
    """The bytes, as they would be on disk; None if they are too many to hold."""
    disk: Stamp | None
    """What is on disk; None if nothing is there."""
    lent: bool = False
    """Whether the editor, if it can, is the one to save it."""
    plain: bool = False
    """Whether the editor gives plain line feeds for the CR LF on disk, which it puts back when it saves."""
    bare: bool = False
    """Whether the editor leaves out the byte order mark, likewise."""

    @property
    def unsaved(self) -> bool:
        """Whether the editor has another text than the disk."""
        return self.stamp != self.disk

    def for_editor(self, data: bytes) -> str:
        """Bytes for the disk as the text that the editor is to save, in the form in which it gave the old one."""
        text = data.decode()
        text = text.removeprefix(MARK) if self.bare else text
        return text.replace("\r\n", "\n") if self.plain else text


class SilentEditorError(RefusalError):
    """The editor did not say what it has of a file."""


def version(workspace: Workspace, path: Path, name: str) -> Version:
    """The file as it is now. Raises RefusalError if it is not there or cannot be read."""
    found = version_if_any(workspace, path, name)
    return found if found.stamp else _on_disk(*current(path, name))


def version_if_any(workspace: Workspace, path: Path, name: str) -> Version:
    """The same, of a file that need not be there."""
    stamp, data = current(path, name) if os.path.lexists(path) else (None, b"")
    return lent(workspace, path, name, stamp, data)


def lent(workspace: Workspace, path: Path, name: str, disk: Stamp | None, data: bytes | None) -> Version:
    """The version that counts of a file of which this is on disk. Raises SilentEditorError."""
    own = _on_disk(disk, data)
    buffers = workspace.buffers
    if buffers is None or data is None or not _is_lent(workspace, path, disk, data):
        return own
    try:
        text = buffers.read(path)
    except Exception:  # noqa: BLE001 - a front end may raise anything, and means the same by it
        raise SilentEditorError(
            f"{shown(name)} was left as it is: the editor did not say whether it has changes in it that are not saved. "
            "Try again."
        ) from None
    if text is None or (disk is None and not text):
        return msgspec.structs.replace(own, lent=True)
    return _in_editor(clean(text), disk, data)


def _on_disk(stamp: Stamp | None, data: bytes | None) -> Version:
    return Version(stamp, data, stamp)


def _in_editor(text: str, disk: Stamp | None, data: bytes) -> Version:
    encoding = encoding_of(data) or Encoding()
    old = encoding.decode(data)
    bare = bool(encoding.mark) and not text.startswith(MARK)
    text = text.removeprefix(MARK) if encoding.mark else text
    plain = "\r\n" in old and "\n" in text and "\r\n" not in text
    now = encoding.encode(_with_ends_of(old, text) if plain else text)
    return Version(stamp_of(now), now, disk, lent=True, plain=plain, bare=bare)


def _with_ends_of(old: str, plain: str) -> str:
    if plain == old.replace("\r\n", "\n"):
        return old
    return with_crlf(plain) if has_crlf(old) else plain


def _is_lent(workspace: Workspace, path: Path, disk: Stamp | None, data: bytes) -> bool:
    if path.suffix == ".ipynb" or path.is_relative_to(workspace.temporary_name):
        return False
    if disk is None:
        return _is_new(path)
    return len(data) <= ASKED and _is_utf8_text(data)


def _is_new(path: Path) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:  # nobody can tell what is there
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
