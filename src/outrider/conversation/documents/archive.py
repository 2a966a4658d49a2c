"""A zip archive whose members are read without trust: by name, in pieces, and never onto the disk."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from outrider.conversation.documents.budget import Budget
from outrider.errors import AttachmentError

DIRECTORY = 2 * 1024 * 1024
"""Bytes of the list of members: some ten thousand of them."""
PIECE = 512 * 1024
"""Bytes that are unpacked at once."""
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """The members of a zip archive. Raises AttachmentError for one that is damaged, locked or made to hurt."""

    def __init__(self, stream: BinaryIO, budget: Budget) -> None:
        self._zip = zipfile.ZipFile(cast("BinaryIO", _Cautious(stream)))
        self.budget = budget

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def pieces(self, name: str) -> Iterator[bytes]:
        """A member, unpacked piece by piece."""
        try:
            member = self._zip.getinfo(name)
        except KeyError:
            raise AttachmentError(f"it has no part {name[:100]!r}") from None
        if member.flag_bits & _ENCRYPTED:
            raise AttachmentError("it is locked with a password")
        if member.compress_type not in _METHODS:  # the others can be made to take any amount of memory
            raise AttachmentError("it is packed in a way that such documents are not")
        with self._zip.open(member) as file:
            while piece := file.read(PIECE):
                self.budget.spend_bytes(len(piece))
                yield piece

    def read(self, name: str) -> bytes:
        """A member as a whole."""
        return b"".join(self.pieces(name))

    def close(self) -> None:
        """Let go of the list of members; the stream stays open."""
        self._zip.close()


def resolved(base: str, target: str) -> str:
    """The name of the member that another one refers to, as it stands in the list of members.

    >>> resolved("ppt/slides/slide1.xml", "../media/a.png"), resolved("word/document.xml", "/word/styles.xml")
    ('ppt/media/a.png', 'word/styles.xml')
    """
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(base), target)).lstrip("/")


class _Cautious:
    """A stream that does not read much at once: the list of members is read as a whole, whatever size it claims."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        if size > DIRECTORY:
            raise AttachmentError("it has too many parts")
        return self._stream.read(size if size >= 0 else DIRECTORY)

    def close(self) -> None:
        """The stream belongs to another."""
