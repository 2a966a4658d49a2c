"""Files for a model: bytes or a path, with a type, a name and a description.

Creating an attachment reads nothing. A store reads its bytes later, and checks the size and that the content matches
the declared type.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from outrider.conversation.mime_types import agrees, declared_type, detected_type, is_mime_type, is_text_type, sniff
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
        label = declared_type(self.mime_type)
        may_be_text = not label or is_text_type(label)
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
        if not (label := declared_type(self.mime_type)):
            return detected_type(self.name, head)
        if not is_mime_type(label):
            raise AttachmentError(
                f"{self.label} is labelled {self.mime_type[:80]!r}, which is not a MIME type; "
                "write it as in image/png, or leave it out to detect it from the content"
            )
        found = sniff(head)
        if not agrees(label, found, head):
            truth = found or "something else"
            raise AttachmentError(f"{self.label} is labelled {label} but is {truth}; correct its type")
        return label

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


def sha256(data: bytes) -> str:
    """Return the hash that names these bytes in a store."""
    import hashlib  # loads OpenSSL, which is slow and not needed before the first file

    return hashlib.sha256(data).hexdigest()


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
