"""Where the bytes of attachments live: each file once, under its SHA-256.

A history refers to files by hash and holds no bytes, so whoever sends it to a model reads them here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Protocol

from outrider.conversation.attachments import MAX_BYTES, Attachment, sha256
from outrider.conversation.messages import AttachmentBlock
from outrider.errors import AttachmentError
from outrider.filesystem import make_private, sync_folder
from outrider.text import clean

CHUNK = 3 * 2**18
"""Bytes that are read at once: a number of which base64 makes no padding."""


SIZE_UNKNOWN = -1
"""The size in the reference of those who know a file by its hash alone."""


class AttachmentStore(Protocol):
    """Takes files and gives them back by reference. Both raise AttachmentError, and only that."""

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Store the bytes, if they are not there yet, and return the reference."""
        ...

    def read(self, reference: AttachmentBlock) -> bytes:
        """The bytes, checked against the reference."""
        ...


class MemoryStore:
    """A store that ends with the process."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Keep the bytes in memory."""
        data = b"".join(attachment.chunks(max_bytes))
        name = sha256(data)
        mime_type = clean(attachment.type_of(data[:4096]))
        self._files.setdefault(name, data)
        return AttachmentBlock(name, mime_type, len(data), clean(attachment.name), clean(attachment.description))

    def read(self, reference: AttachmentBlock) -> bytes:
        """The bytes as they were put."""
        try:
            return _checked(self._files[reference.sha256], reference)
        except KeyError:
            raise _missing(reference) from None


class FolderStore:
    """A store in a folder: a temporary file, fsync, then a rename to the hash. For the owner alone."""

    def __init__(self, folder: str | os.PathLike[str] | Callable[[], Path]) -> None:
        self._where = folder

    @cached_property
    def folder(self) -> Path:
        """Where the files are. A function that finds it is called when the first file comes or goes."""
        return self._where() if callable(self._where) else Path(self._where)

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Copy the bytes piece by piece, so that a large file is never held whole."""
        try:
            make_private(self.folder)
            temporary = self.folder / f"incoming-{os.urandom(8).hex()}"
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                return self._take(attachment, max_bytes, handle, temporary)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise AttachmentError(f"the attachment store {self.folder} cannot be written: {error.strerror}") from error

    def _take(self, attachment: Attachment, max_bytes: int, handle: int, temporary: Path) -> AttachmentBlock:
        import hashlib

        digest, size, head = hashlib.sha256(), 0, b""
        with os.fdopen(handle, "wb") as file:
            for chunk in attachment.chunks(max_bytes):
                head = head or chunk[:4096]
                size += len(chunk)
                digest.update(chunk)
                file.write(chunk)
            kind = clean(attachment.type_of(head))
            file.flush()
            os.fsync(file.fileno())
        label, note = clean(attachment.name), clean(attachment.description)
        reference = AttachmentBlock(digest.hexdigest(), kind, size, label, note)
        path = self._path(reference.sha256)
        if not _is_wanted_again(path, reference.sha256):
            make_private(path.parent)
            os.replace(temporary, path)
            sync_folder(path.parent)
        return reference

    def read(self, reference: AttachmentBlock) -> bytes:
        """The bytes, verified: a file that was changed on disk is refused."""
        try:
            data = self._path(reference.sha256).read_bytes()
        except OSError:
            raise _missing(reference) from None
        if sha256(data) != reference.sha256:
            raise _changed(reference)
        return _checked(data, reference)

    def chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        """The bytes piece by piece, so that a large file is never held whole; verified before the first is given."""
        path = self._path(reference.sha256)
        if not path.is_file():
            raise _missing(reference)
        if not _holds(path, reference.sha256):
            raise _changed(reference)
        return _pieces(path)

    def _path(self, name: str) -> Path:
        # The name may come from a conversation that someone else wrote: only a hash may become a path.
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise AttachmentError(f"{name[:80]!r} is not a SHA-256")
        return self.folder / name[:2] / name


def _is_wanted_again(path: Path, name: str) -> bool:
    """Whether the file is there and whole; its age then counts from now, for those who remove what nobody refers to."""
    try:
        if _holds(path, name):
            os.utime(path)
            return True
    except FileNotFoundError:  # removed this very moment
        pass
    return False


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def _holds(path: Path, name: str) -> bool:
    """Whether the file is there and whole: a damaged one is replaced when its content comes again."""
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == name
    except OSError:
        return False


def _checked(data: bytes, reference: AttachmentBlock) -> bytes:
    if reference.size not in (len(data), SIZE_UNKNOWN):
        raise AttachmentError(
            f"{reference.label} has {len(data):,} bytes, not {reference.size:,} as its reference says"
        )
    return data


def _changed(reference: AttachmentBlock) -> AttachmentError:
    return AttachmentError(f"{reference.label} was changed in the attachment store and is not used")


def _missing(reference: AttachmentBlock) -> AttachmentError:
    return AttachmentError(f"{reference.label} is not in the attachment store (sha256 {reference.sha256[:12]}…)")
