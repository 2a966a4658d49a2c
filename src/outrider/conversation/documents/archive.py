"""Read untrusted zip archives: by name, in chunks, and never onto the disk."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from outrider.conversation.documents.budget import Budget
from outrider.errors import AttachmentError

DIRECTORY = 2 * 1024 * 1024
"""The limit on the archive's directory in bytes: about ten thousand members."""
PIECE = 512 * 1024
"""The number of bytes to unpack at once."""
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """The members of a zip archive. Raises AttachmentError if it is damaged, encrypted or malicious."""

    def __init__(self, stream: BinaryIO, budget: Budget) -> None:
        self._zip = zipfile.ZipFile(cast("BinaryIO", _LimitedReads(stream)))
        self.budget = budget

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def pieces(self, name: str) -> Iterator[bytes]:
        """Unpack a member in chunks."""
        try:
            member = self._zip.getinfo(name)
        except KeyError:
            raise AttachmentError(f"it has no part {name[:100]!r}") from None
        if member.flag_bits & _ENCRYPTED:
            raise AttachmentError("it is locked with a password")
        if member.compress_type not in _METHODS:  # other methods can be made to use any amount of memory
            raise AttachmentError("it uses a compression method that such documents do not use")
        with self._zip.open(member) as file:
            while piece := file.read(PIECE):
                self.budget.spend_bytes(len(piece))
                yield piece

    def read(self, name: str) -> bytes:
        """Return a complete member."""
        return b"".join(self.pieces(name))

    def close(self) -> None:
        """Release the directory; the stream stays open."""
        self._zip.close()


def resolve_name(base: str, target: str) -> str:
    """Return the name of the member that another member refers to.

    >>> resolve_name("ppt/slides/slide1.xml", "../media/a.png"), resolve_name("word/document.xml", "/word/styles.xml")
    ('ppt/media/a.png', 'word/styles.xml')
    """
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(base), target)).lstrip("/")


class _LimitedReads:
    """A stream that limits each read: zipfile reads the whole directory, whatever size the file declares."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        if size > DIRECTORY:
            raise AttachmentError("it has too many parts")
        return self._stream.read(size if size >= 0 else DIRECTORY)

    def close(self) -> None:
        """Keep the stream open: the caller owns it."""
