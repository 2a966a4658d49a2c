"""Files for a model: bytes or a path, with a type, a name and a description.

Creating an attachment reads nothing. A store reads its bytes later, and checks the size and that the content matches
the declared type.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from outrider.conversation.documents import kinds
from outrider.conversation.encodings import encoding_of, is_utf8
from outrider.descriptors import real_path
from outrider.errors import AttachmentError
from outrider.text import human_size

if TYPE_CHECKING:
    from pathlib import Path
else:
    from os import PathLike as Path  # pathlib is slow to import; help() evaluates annotations

MAX_BYTES = 20 * 1024 * 1024
"""The default limit on one attachment."""

CHUNK = 1024 * 1024

_SELF_DESCRIBING = (kinds.ODT, kinds.ODS, kinds.ODP, kinds.EPUB)

# Magic bytes: all (offset, bytes) pairs of a line must match. The first matching line counts.
_MAGIC: tuple[tuple[str, tuple[tuple[int, bytes], ...]], ...] = (
    ("image/png", ((0, b"\x89PNG\r\n\x1a\n"),)),
    ("image/jpeg", ((0, b"\xff\xd8\xff"),)),
    ("image/gif", ((0, b"GIF87a"),)),
    ("image/gif", ((0, b"GIF89a"),)),
    ("image/webp", ((0, b"RIFF"), (8, b"WEBP"))),
    ("audio/wav", ((0, b"RIFF"), (8, b"WAVE"))),
    ("image/bmp", ((0, b"BM"), (6, b"\0\0\0\0"))),
    ("image/tiff", ((0, b"II*\0"),)),
    ("image/tiff", ((0, b"MM\0*"),)),
    ("image/vnd.microsoft.icon", ((0, b"\0\0\x01\0"), (5, b"\0"), (9, b"\0"))),
    ("image/heic", ((0, b"\0\0\0"), (4, b"ftyphei"))),
    ("image/heif", ((0, b"\0\0\0"), (4, b"ftypmif1"))),
    ("image/avif", ((0, b"\0\0\0"), (4, b"ftypavif"))),
    ("audio/mp4", ((0, b"\0\0\0"), (4, b"ftypM4A"))),
    ("video/quicktime", ((0, b"\0\0\0"), (4, b"ftypqt  "))),
    ("video/mp4", ((0, b"\0\0\0"), (4, b"ftyp"))),
    ("video/webm", ((0, b"\x1a\x45\xdf\xa3"),)),
    ("video/avi", ((0, b"RIFF"), (8, b"AVI "))),
    ("video/mpeg", ((0, b"\0\0\x01\xba"),)),
    ("application/pdf", ((0, b"%PDF-"),)),
    (kinds.RTF, ((0, b"{\\rtf"),)),
    (kinds.OLE, ((0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),)),
    # These archives begin with a file named "mimetype" that holds their type.
    *((kind, ((0, b"PK\x03\x04"), (30, b"mimetype" + kind.encode()))) for kind in _SELF_DESCRIBING),
    (kinds.ZIP, ((0, b"PK\x03\x04"),)),
    ("application/gzip", ((0, b"\x1f\x8b"),)),
    ("audio/mpeg", ((0, b"ID3\x02"),)),
    ("audio/mpeg", ((0, b"ID3\x03"),)),
    ("audio/mpeg", ((0, b"ID3\x04"),)),
    ("audio/mpeg", ((0, b"\xff\xfb"),)),
    ("audio/mpeg", ((0, b"\xff\xf3"),)),
    ("audio/ogg", ((0, b"OggS\0"),)),
    ("audio/flac", ((0, b"fLaC\0"),)),
    ("application/x-executable", ((0, b"\x7fELF"),)),
    ("application/x-executable", ((0, b"MZ"), (3, b"\0"))),
    ("application/x-executable", ((0, b"\xcf\xfa\xed\xfe"),)),
)

_BY_SUFFIX: Mapping[str, str] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".ico": "image/vnd.microsoft.icon",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".xml": "application/xml",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".avi": "video/avi",
    ".mpeg": "video/mpeg",
    ".mpg": "video/mpeg",
    ".zip": kinds.ZIP,
    **kinds.BY_SUFFIX,
}

# Containers whose content type follows only from the file name.
_BY_NAME: Mapping[str, frozenset[str]] = {
    kinds.ZIP: kinds.ZIPPED,
    kinds.OLE: kinds.OLD,
}

# The parts of an Office document, by the folder of most of them.
_OFFICE = {b"word/": kinds.DOCX, b"xl/": kinds.XLSX, b"ppt/": kinds.PPTX}

_NO_LABELS = frozenset(
    f"application/{prefix}{name}" for prefix in ("", "x-") for name in ("octet-stream", "binary", "download", "unknown")
) | {"binary/octet-stream", "application/force-download"}
"""Types that say nothing about the content."""

_OTHER_NAMES: Mapping[str, str] = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "image/x-bmp": "image/bmp",
    "image/x-ms-bmp": "image/bmp",
    "image/x-icon": "image/vnd.microsoft.icon",
    "image/x-tiff": "image/tiff",
    "application/x-pdf": "application/pdf",
    "application/acrobat": "application/pdf",
}
"""Other and wrong names of types."""

_PDF_HEAD = 1024
"""Bytes that may come before a PDF."""

# Patterns of MIME types; `re` compiles them on first use.
_LABEL = r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*"
_TEXT_TYPES = (
    r"text/.*|.*[/+](?:json|xml|yaml|x-yaml)"
    r"|application/(?:toml|javascript|ecmascript|x-javascript|typescript|x-sh|sql|graphql|x-ndjson|jsonl)"
)

# The types that the first bytes may show for a declared type. A declared type that is not here must match its family.
_HEIF = frozenset({"image/heic", "image/heif"})
_MP4 = frozenset({"audio/mp4", "video/mp4", "video/quicktime"})
_PROMISED: Mapping[str, frozenset[str | None]] = {
    **{mime_type: frozenset({mime_type}) for mime_type, _ in _MAGIC},
    **dict.fromkeys(kinds.ZIPPED - {*_SELF_DESCRIBING}, frozenset({kinds.ZIP})),
    **{kind: frozenset({kind, kinds.ZIP}) for kind in _SELF_DESCRIBING},
    **dict.fromkeys(_HEIF, _HEIF),
    **dict.fromkeys(_MP4 | {"video/quicktime", "audio/x-m4a", "video/x-m4v"}, _MP4),
    **dict.fromkeys(("audio/webm", "video/x-matroska"), frozenset({"video/webm"})),
    "video/x-msvideo": frozenset({"video/avi"}),
    **dict.fromkeys(("video/ogg", "application/ogg", "audio/opus"), frozenset({"audio/ogg"})),
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), frozenset({"audio/wav"})),
    **dict.fromkeys(("audio/mpeg", "audio/mp3"), frozenset({"audio/mpeg", None})),  # other bytes may come first
}
_ANYWHERE = frozenset({kinds.ZIP, "application/gzip"})
"""Compression formats that files of any family use."""


class Attachment(msgspec.Struct, frozen=True):
    """A file that a tool returns or a person sends.

    >>> Attachment(b"%PDF-1.7 ...", "application/pdf", name="q3.pdf").name
    'q3.pdf'
    """

    source: bytes | Path
    """The bytes, or the path of a file."""
    mime_type: str = ""
    """If empty, it is detected from the content, then from the name."""
    name: str = ""
    description: str = ""
    url: str = ""
    """Where the bytes come from, if the attachment was made with `from_url`."""

    def __post_init__(self) -> None:
        source: object = self.source
        if isinstance(source, bytearray | memoryview):
            msgspec.structs.force_setattr(self, "source", bytes(source))
        elif isinstance(source, os.PathLike):
            from pathlib import Path  # slow to import, and most attachments are bytes

            msgspec.structs.force_setattr(self, "source", Path(source))
        elif not isinstance(source, bytes):
            raise TypeError(f"an attachment is made of bytes, not of {type(source).__name__}; from_path() takes a path")

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], mime_type: str = "", *, name: str = "", description: str = ""
    ) -> Attachment:
        """Attach a file on disk. It is opened when it is needed."""
        from pathlib import Path

        path = Path(path)
        return cls(path, mime_type, name or path.name, description)

    @classmethod
    def from_url(cls, url: str, mime_type: str = "", *, name: str = "", description: str = "") -> Attachment:
        """Attach a file on the web, by its https URL. A session fetches it when it is added to a conversation.

        >>> Attachment.from_url("https://example.com/q3.pdf").url
        'https://example.com/q3.pdf'
        """
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            is_good = parts.scheme == "https" and bool(parts.hostname) and url.isprintable() and " " not in url
        except ValueError:
            is_good = False
        if not is_good or parts.username is not None or parts.password is not None:
            raise AttachmentError(f"{url[:200]!r} cannot be attached: a URL begins with https:// and has no password")
        return cls(b"", mime_type, name, description, url)

    def _repr_html_(self) -> str:
        """Return the file as a notebook shows it: a picture inline."""
        from outrider.conversation.html import file_html, plain  # only notebooks need it

        if self.is_remote:
            return f"<p>📎 {plain(self.name)} <code>{plain(self.url)}</code></p>"
        try:
            data = b"".join(self.chunks())
            return file_html(data, self.type_of(data[:4096]), self.name, self.description, len(data))
        except AttachmentError as error:
            return f"<p>📎 {plain(str(error))}</p>"

    @property
    def is_remote(self) -> bool:
        """Whether the bytes are still to be fetched from the URL."""
        return bool(self.url) and self.source == b""

    def within(self, folder: Path) -> Attachment:
        """Return the attachment with a relative path resolved in a folder: the session's, not the process's."""
        if isinstance(self.source, bytes) or os.path.isabs(self.source):
            return self
        return msgspec.structs.replace(self, source=folder / self.source)

    def open(self, max_bytes: int = MAX_BYTES) -> BinaryIO:
        """Return the bytes as a stream, after checking that the source is a regular file within the limit."""
        if self.is_remote:
            raise AttachmentError(f"{self.url} was not fetched yet; a session fetches it")
        if isinstance(self.source, bytes):
            _check_size(len(self.source), max_bytes, self.label)
            return io.BytesIO(self.source)
        try:
            # Non-blocking, so that a FIFO without a writer is rejected instead of blocking.
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

    def held(self, max_bytes: int = MAX_BYTES) -> OpenFile:
        """Open the file, so that permission can be checked on what is then read. Raise AttachmentError on failure."""
        file = self.open(max_bytes)
        try:
            real = _real_path(file, self)
        except BaseException:
            file.close()
            raise
        return OpenFile(self.source, self.mime_type, self.name, self.description, self.url, file=file, real=real)

    def chunks(self, max_bytes: int = MAX_BYTES) -> Iterator[bytes]:
        """Yield the bytes in chunks. Raise AttachmentError if the file grows over the limit meanwhile.

        Text whose type declares another charset than UTF-8 comes as UTF-8: later nothing needs to know the charset.
        """
        chunks = self._bytes(max_bytes)
        label = self.mime_type.partition(";")[0].strip().lower()
        may_be_text = not label or label in _NO_LABELS or is_text_type(label)
        if not may_be_text or "charset" not in self.mime_type.lower():
            yield from chunks
        elif data := b"".join(chunks):
            from outrider.conversation.documents.charsets import in_utf8  # few types declare a charset

            yield data if sniff(data) else in_utf8(data, self.mime_type)

    def _bytes(self, max_bytes: int) -> Iterator[bytes]:
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
        where = self.label if isinstance(self.source, bytes) else self.source
        return AttachmentError(f"{where} cannot be read: {reason}")

    def type_of(self, head: bytes) -> str:
        """Return the MIME type, given the first bytes. Raise AttachmentError if the declared type is wrong."""
        found = sniff(head)
        label = self.mime_type.partition(";")[0].strip().lower()
        label = _OTHER_NAMES.get(label, label)
        if not label or label in _NO_LABELS:
            return self._detect_type(found, head)
        if not re.fullmatch(_LABEL, label):
            raise AttachmentError(
                f"{self.label} is labelled {self.mime_type[:80]!r}, which is not a MIME type; "
                "write it as in image/png, or leave it out to detect it from the content"
            )
        if not _agrees(label, found, head):
            truth = found or "something else"
            raise AttachmentError(f"{self.label} is labelled {label} but is {truth}; correct its type")
        return label

    def _detect_type(self, found: str | None, head: bytes) -> str:
        """Return the type of the content, or of the name if the content is inconclusive and does not contradict it."""
        by_name = _BY_SUFFIX.get(os.path.splitext(self.name)[1].lower(), "")
        if found:
            if found == kinds.ZIP and by_name not in kinds.ZIPPED:
                return _office_type(head) or found
            return by_name if by_name in _BY_NAME.get(found, ()) else found
        if by_name and _agrees(by_name, None, head):
            return by_name
        return "text/plain" if _is_text(head, None) else "application/octet-stream"

    @property
    def label(self) -> str:
        """A name for error messages."""
        return self.name or self.url or ("the attachment" if isinstance(self.source, bytes) else str(self.source))


class OpenFile(Attachment, frozen=True):
    """An open file: the file that was checked is the file that is read, even if its path now leads elsewhere."""

    file: BinaryIO | None = None
    real: str = ""
    """The path of the open file with links resolved."""

    def open(self, max_bytes: int = MAX_BYTES) -> BinaryIO:
        """Return the open file, after checking the limit."""
        assert self.file is not None
        _check_size(os.fstat(self.file.fileno()).st_size, max_bytes, self.label)
        return self.file


def not_a_part(expected: str, value: object) -> TypeError:
    """Return the error for a value that is no part of a prompt or a message, with what to write instead."""
    advice = "write str(…) to send it as text"
    if isinstance(value, os.PathLike):
        advice = "write Attachment.from_path(…) to send a file"
    elif isinstance(value, bytes | bytearray | memoryview):
        advice = "write Attachment(…) to send a file"
    elif isinstance(value, list | tuple):
        advice = "put * before a list of parts"
    elif hasattr(value, "conversation"):
        advice = "write ….conversation to go on with its messages"
    elif value is None:
        advice = "leave it out if there is none"
    return TypeError(f"{expected}, not {type(value).__name__}; {advice}")


def sniff(head: bytes) -> str | None:
    """Return the MIME type of a file from its first bytes, or None if they are unknown.

    >>> sniff(b"%PDF-1.7")
    'application/pdf'
    """
    for mime_type, patterns in _MAGIC:
        if all(head.startswith(magic, offset) for offset, magic in patterns):
            return mime_type
    return "application/pdf" if _begins_late(head) else None


def _begins_late(head: bytes) -> bool:
    """Return whether a PDF begins after a few other bytes, as some servers and scanners send it."""
    start = head.find(b"%PDF-", 0, _PDF_HEAD)
    if start < 0:
        return False
    before = head[:start].removeprefix(codecs.BOM_UTF8)
    # A text may mention PDFs, but it has no objects of one, or is valid UTF-8.
    return not before.strip(b"\0\t\n\f\r ") or (b" obj" in head[start:] and not is_utf8(head))


def _office_type(head: bytes) -> str:
    """Return the type of a zipped Office document from the names of its first parts; empty if they do not tell."""
    if b"[Content_Types].xml" not in head and b"_rels/" not in head:
        return ""
    return next((kind for folder, kind in _OFFICE.items() if folder in head), "")


def sha256(data: bytes) -> str:
    """Return the hash that names these bytes in a store."""
    import hashlib  # loads OpenSSL, which is slow and not needed before the first file

    return hashlib.sha256(data).hexdigest()


def is_text_type(mime_type: str) -> bool:
    """Return whether files of this type are plain text.

    >>> is_text_type("text/csv"), is_text_type("application/ld+json"), is_text_type("image/png")
    (True, True, False)
    """
    return bool(re.fullmatch(_TEXT_TYPES, mime_type))


def _agrees(label: str, found: str | None, head: bytes) -> bool:
    """Return whether content with these first bytes and this detected type may have the declared type."""
    if is_text_type(label):
        return _is_text(head, found)
    if label in _PROMISED:
        return found in _PROMISED[label]
    family = label.partition("/")[0]
    return found is None or found in _ANYWHERE or family in ("application", found.partition("/")[0])


def _is_text(head: bytes, found: str | None) -> bool:
    # Text may begin with the magic bytes of another type, but then the rest is still UTF-8.
    if found == "application/pdf" or (found and not is_utf8(head)):
        return False
    return not head or encoding_of(head) is not None


def _real_path(file: BinaryIO, attachment: Attachment) -> str:
    """Return the path of an open file. Raise AttachmentError if it cannot be determined."""
    status = os.fstat(file.fileno())
    if not status.st_nlink:
        raise AttachmentError(f"{attachment.label} was removed while it was opened")
    real = real_path(file.fileno())
    if real:
        return real
    real = os.path.realpath(str(attachment.source))
    try:
        if os.path.samestat(os.lstat(real), status):
            return real
    except OSError:
        pass
    raise AttachmentError(f"{attachment.label} changed while it was opened")


def _check_size(size: int, max_bytes: int, label: str) -> None:
    if size > max_bytes:
        has, limit = human_size(size), human_size(max_bytes)
        if has == limit:
            has, limit = f"{size:,} bytes", f"{max_bytes:,}"
        raise AttachmentError(f"{label} has {has}; the limit is {limit} (limits.attachment_bytes)")
