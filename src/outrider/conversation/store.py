"""Attachment stores: each file is stored once, under its SHA-256.

A history refers to files by hash and holds no bytes. Requests to a model read them from a store.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import IO, TYPE_CHECKING, Protocol

from outrider.conversation.attachments import MAX_BYTES, Attachment, sha256
from outrider.conversation.messages import AttachmentBlock
from outrider.environment import data_folder
from outrider.errors import AttachmentError
from outrider.filesystem import make_private, sync_folder
from outrider.text import clean

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 3 * 2**18
"""The size of a read in bytes: a multiple of three, so that base64 needs no padding."""


SIZE_UNKNOWN = -1
"""The size in a reference if only the hash is known."""


class AttachmentStore(Protocol):
    """Stores files and returns them by reference. Both methods raise only AttachmentError."""

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Store the bytes if they are new, and return the reference."""

    def read(self, reference: AttachmentBlock) -> bytes:
        """Return the bytes, after checking them against the reference."""


class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Keep the bytes in memory."""
        file = io.BytesIO()
        reference = copied(attachment, max_bytes, file)
        self._files.setdefault(reference.sha256, file.getvalue())
        return reference

    def read(self, reference: AttachmentBlock) -> bytes:
        """Return the stored bytes."""
        try:
            return checked(self._files[reference.sha256], reference)
        except KeyError:
            raise missing(reference) from None


class FolderStore:
    """A store in a folder with owner-only access. Each file is written to a temporary file, synced and renamed."""

    def __init__(self, folder: str | os.PathLike[str] | Callable[[], Path]) -> None:
        self._source = folder

    @cached_property
    def folder(self) -> Path:
        """The folder. If it was given as a function, the first use calls it."""
        from pathlib import Path

        return self._source() if callable(self._source) else Path(self._source)

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Copy the bytes in chunks, so that a large file is never in memory as a whole."""
        try:
            make_private(self.folder)
            temporary = self.folder / f"incoming-{os.urandom(8).hex()}"
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                return self._copy(attachment, max_bytes, handle, temporary)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise AttachmentError(
                f"the attachment store {self.folder} cannot be written: {error.strerror}; pass another folder, or "
                "store=MemoryStore()"
            ) from error

    def _copy(self, attachment: Attachment, max_bytes: int, handle: int, temporary: Path) -> AttachmentBlock:
        with os.fdopen(handle, "wb") as file:
            reference = copied(attachment, max_bytes, file)
            file.flush()
            os.fsync(file.fileno())
        path = self._path(reference.sha256)
        if not _refresh(path, reference.sha256):
            make_private(path.parent)
            os.replace(temporary, path)
            sync_folder(path.parent)
        return reference

    def read(self, reference: AttachmentBlock) -> bytes:
        """Return the bytes. Raise AttachmentError if the file changed on disk."""
        try:
            data = self._path(reference.sha256).read_bytes()
        except OSError:
            raise missing(reference) from None
        return checked(data, reference)

    def chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        """Return the bytes in chunks, after verifying all of them. A large file is never in memory as a whole."""
        path = self._path(reference.sha256)
        if not path.is_file():
            raise missing(reference)
        if not _holds(path, reference.sha256):
            raise changed(reference)
        return _read_chunks(path)

    def _path(self, name: str) -> Path:
        # The name may come from an untrusted conversation: only a hash may become a path.
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise AttachmentError(f"{name[:80]!r} is not a SHA-256")
        return self.folder / name[:2] / name


def default_store() -> AttachmentStore:
    """Return the store of everything without a log: a folder of the data folder, where other processes find the files.

    One store for scripts, agents and sessions: a conversation that one of them saved can be continued by any.
    """
    return FolderStore(lambda: data_folder() / "attachments")


def copied(attachment: Attachment, max_bytes: int, file: IO[bytes]) -> AttachmentBlock:
    """Copy the bytes of an attachment into a file, in chunks, and return the reference."""
    import hashlib

    digest, size, head = hashlib.sha256(), 0, b""
    for chunk in attachment.chunks(max_bytes):
        head = head or chunk[:4096]
        size += len(chunk)
        digest.update(chunk)
        file.write(chunk)
    kind, label, note = map(clean, (attachment.type_of(head), attachment.name, attachment.description))
    return AttachmentBlock(digest.hexdigest(), kind, size, label, note, url=attachment.url)


def _refresh(path: Path, name: str) -> bool:
    """Return whether the file exists intact. If so, update its time, so that the cleanup sees it as new."""
    try:
        if _holds(path, name):
            os.utime(path)
            return True
    except FileNotFoundError:  # just removed by another process
        pass
    return False


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _holds(path: Path, name: str) -> bool:
    """Return whether the file exists with the right content. A damaged file is replaced by the next `put`."""
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == name
    except OSError:
        return False


def read_stored(store: AttachmentStore, reference: AttachmentBlock) -> bytes:
    """Return the bytes of a file. Whatever a store raises becomes AttachmentError: a user's may break the contract."""
    try:
        return store.read(reference)
    except AttachmentError:
        raise
    except Exception as error:
        said = clean(f"{type(error).__name__}: {error}".removesuffix(": "))
        raise AttachmentError(f"{reference.label} cannot be read from the attachment store: {said}") from error


def checked(data: bytes, reference: AttachmentBlock) -> bytes:
    """Return the bytes if they are those of the reference. Raise AttachmentError."""
    if sha256(data) != reference.sha256:
        raise changed(reference)
    if reference.size not in (len(data), SIZE_UNKNOWN):
        raise AttachmentError(
            f"{reference.label} has {len(data):,} bytes, not {reference.size:,} as its reference says"
        )
    return data


def changed(reference: AttachmentBlock) -> AttachmentError:
    """Return the error for a file whose bytes are not those of its reference."""
    return AttachmentError(f"{reference.label} was changed in the attachment store and cannot be used")


def missing(reference: AttachmentBlock) -> AttachmentError:
    """Return the error for a file that is not in the store."""
    return AttachmentError(f"{reference.label} is not in the attachment store (sha256 {reference.sha256[:12]}…)")


def check_store(store: object) -> None:
    """Raise TypeError for what could not keep a file in the middle of a run."""
    if store is not None and not hasattr(store, "put"):
        raise TypeError(f"store must be MemoryStore() or FolderStore(folder), not {type(store).__name__}")
