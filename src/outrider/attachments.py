"""A file on its way to a model: bytes or a path, with its type, its name and what it shows.

Nothing is read when an attachment is made. Its bytes are read when a store takes them, which checks the size and that
the content is what the label says.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from outrider.errors import AttachmentError
from outrider.text import human_size

MAX_BYTES = 20 * 1024 * 1024
"""The default limit on one attachment."""

CHUNK = 1024 * 1024

# What the first bytes say: bytes at an offset, all those of a line together. The first line that fits counts.
_MAGIC: tuple[tuple[str, tuple[tuple[int, bytes], ...]], ...] = (
    ("image/png", ((0, b"\x89PNG\r\n\x1a\n"),)),
    ("image/jpeg", ((0, b"\xff\xd8\xff"),)),
    ("image/gif", ((0, b"GIF87a"),)),
    ("image/gif", ((0, b"GIF89a"),)),
    ("image/webp", ((0, b"RIFF"), (8, b"WEBP"))),
    ("audio/wav", ((0, b"RIFF"), (8, b"WAVE"))),
    ("image/heic", ((0, b"\0\0\0"), (4, b"ftyphei"))),
    ("image/heif", ((0, b"\0\0\0"), (4, b"ftypmif1"))),
    ("image/avif", ((0, b"\0\0\0"), (4, b"ftypavif"))),
    ("audio/mp4", ((0, b"\0\0\0"), (4, b"ftypM4A"))),
    ("video/mp4", ((0, b"\0\0\0"), (4, b"ftyp"))),
    ("application/pdf", ((0, b"%PDF-"),)),
    ("application/zip", ((0, b"PK\x03\x04"),)),
    ("application/gzip", ((0, b"\x1f\x8b"),)),
    ("audio/mpeg", ((0, b"ID3\x02"),)),
    ("audio/mpeg", ((0, b"ID3\x03"),)),
    ("audio/mpeg", ((0, b"ID3\x04"),)),
    ("audio/ogg", ((0, b"OggS\0"),)),
    ("audio/flac", ((0, b"fLaC\0"),)),
    ("application/x-executable", ((0, b"\x7fELF"),)),
    ("application/x-executable", ((0, b"MZ"), (3, b"\0"))),
    ("application/x-executable", ((0, b"\xcf\xfa\xed\xfe"),)),
)

_BY_SUFFIX = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".xml": "application/xml",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".zip": "application/zip",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

# Office documents are zip archives; only their names tell them apart.
_ZIPPED = frozenset(_BY_SUFFIX[suffix] for suffix in (".docx", ".xlsx", ".pptx"))

# A label of one of these promises the bytes of the table above, so a mismatch is a mistake or a trick.
_PROMISES_MAGIC = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})


class Attachment(msgspec.Struct, frozen=True):
    """A file that a tool returns or a person sends.

    >>> Attachment(b"%PDF-1.7 ...", "application/pdf", name="q3.pdf").name
    'q3.pdf'
    """

    source: bytes | Path
    """The bytes themselves, or the file that has them."""
    mime_type: str = ""
    """Told from the content, then from the name, when left out."""
    name: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        source: object = self.source
        if isinstance(source, bytearray | memoryview):
            msgspec.structs.force_setattr(self, "source", bytes(source))
        elif not isinstance(source, bytes | Path):
            raise TypeError(f"an attachment is made of bytes, not of {type(source).__name__}; from_path() takes a path")

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], mime_type: str = "", *, name: str = "", description: str = ""
    ) -> Attachment:
        """A file on disk. It is not opened before it is needed."""
        path = Path(path)
        return cls(path, mime_type, name or path.name, description)

    def open(self, max_bytes: int = MAX_BYTES) -> BinaryIO:
        """The bytes as a stream, once it is known that they are a file's and within the limit."""
        if isinstance(self.source, bytes):
            _check_size(len(self.source), max_bytes, self.label)
            return io.BytesIO(self.source)
        try:
            # Non-blocking, so that a FIFO without a writer is refused instead of waited for.
            handle = os.open(self.source, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from None
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise AttachmentError(f"{self.label} is not a regular file")
            _check_size(status.st_size, max_bytes, self.label)
        except AttachmentError:
            os.close(handle)
            raise
        return os.fdopen(handle, "rb")

    def chunks(self, max_bytes: int = MAX_BYTES) -> Iterator[bytes]:
        """The bytes piece by piece; a file that grows over the limit while it is read is refused too."""
        total = 0
        with self.open(max_bytes) as file:
            while chunk := self._read(file):
                total += len(chunk)
                _check_size(total, max_bytes, self.label)
                yield chunk

    def _read(self, file: BinaryIO) -> bytes:
        try:
            return file.read(CHUNK)
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError | ValueError) -> AttachmentError:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        where = self.source if isinstance(self.source, Path) else self.label
        return AttachmentError(f"{where} cannot be read: {reason}")

    def type_of(self, head: bytes) -> str:
        """The MIME type, given the first bytes; refused if the label promises something else."""
        found = sniff(head)
        label = self.mime_type.partition(";")[0].strip().lower()
        label = "image/jpeg" if label == "image/jpg" else label  # a common misspelling
        if not label:
            return self._type_by_name(found) or found or _plain_or_binary(head)
        if label in _PROMISES_MAGIC and found != label:
            truth = found or "something else"
            raise AttachmentError(f"{self.label} is labelled {label} but is {truth}; correct its type")
        return label

    def _type_by_name(self, found: str | None) -> str | None:
        """What the name says, where the content leaves it open or is a container that only the name tells apart."""
        by_name = _BY_SUFFIX.get(Path(self.name).suffix.lower())
        if found == "application/zip":
            return by_name if by_name in _ZIPPED else None
        return by_name if found is None and by_name not in _PROMISES_MAGIC else None

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        return self.name or (str(self.source) if isinstance(self.source, Path) else "the attachment")


def sniff(head: bytes) -> str | None:
    """The MIME type that the first bytes of a file show, if they are known.

    >>> sniff(b"%PDF-1.7")
    'application/pdf'
    """
    for mime_type, patterns in _MAGIC:
        if all(head.startswith(magic, offset) for offset, magic in patterns):
            return mime_type
    return None


def sha256(data: bytes) -> str:
    """The name of these bytes in a store."""
    import hashlib  # brings OpenSSL, which nobody needs before the first file

    return hashlib.sha256(data).hexdigest()


def _plain_or_binary(head: bytes) -> str:
    try:
        head[:4096].decode()
    except UnicodeDecodeError as error:
        # A character that the cut itself broke is no sign of a binary file.
        if error.start < len(head[:4096]) - 3:
            return "application/octet-stream"
    return "application/octet-stream" if b"\0" in head[:4096] else "text/plain"


def _check_size(size: int, max_bytes: int, label: str) -> None:
    if size > max_bytes:
        has, limit = human_size(size), human_size(max_bytes)
        if has == limit:
            has, limit = f"{size:,} bytes", f"{max_bytes:,}"
        raise AttachmentError(f"{label} has {has}; the limit is {limit} (limits.attachment_bytes)")
