"""The text of a document, piece by piece, whatever is wrong with the file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

from outrider.conversation.documents import kinds
from outrider.conversation.documents.block import Block
from outrider.conversation.documents.budget import Budget, ExhaustedError
from outrider.errors import AttachmentError
from outrider.text import clean

GOES_ON = "[The document goes on; this is its beginning.]"


def pieces(stream: BinaryIO, mime_type: str) -> Iterator[str]:
    """The text of a document of one of the kinds that can be read, as Markdown, from the beginning on.

    What is damaged, or larger than what is looked at, ends with a note that says so. Raises AttachmentError if nothing
    of it can be read; its message goes on after "it".
    """
    kind = kinds.READABLE[mime_type]
    budget = Budget()
    last: Block | None = None
    try:
        for block in _reader(mime_type)(stream, budget):
            if block.text.strip():
                between = "" if last is None else "\n" if last.tight and block.tight else "\n\n"
                budget.spend_characters(len(block.text))
                yield clean(between + block.text)
                last = block
    except ExhaustedError:
        if last is None:
            raise AttachmentError(f"it is not a {kind} that can be read: it is too large") from None
        yield f"\n\n{GOES_ON}"
    except Exception as error:  # noqa: BLE001 - files that are damaged or made to hurt raise anything
        reason = str(error) if isinstance(error, AttachmentError) else "it is damaged"
        if last is None:
            raise AttachmentError(f"it is not a {kind} that can be read: {reason}") from None
        yield f"\n\n[The rest cannot be read: {reason}.]"


def text_of(data: bytes, mime_type: str, limit: int) -> str:
    """The text of a document up to so many characters, with a note if that is not all. Raises AttachmentError."""
    found: list[str] = []
    length = 0
    for piece in pieces(io.BytesIO(data), mime_type):
        found.append(piece[: limit - length])
        length += len(piece)
        if length > limit:
            found.append(f"\n\n{GOES_ON}")
            break
    return "".join(found)


def kind_of_archive(stream: BinaryIO) -> str:
    """The MIME type of a document that is a zip archive, by its parts; empty if it is none, or cannot be read."""
    from outrider.conversation.documents.archive import Archive

    try:
        archive = Archive(stream, Budget())
    except Exception:  # noqa: BLE001 - as above
        return ""
    return next((kind for part, kind in _PARTS.items() if part in archive), "")


_PARTS = {
    "word/document.xml": kinds.DOCX,
    "xl/workbook.xml": kinds.XLSX,
    "ppt/presentation.xml": kinds.PPTX,
    "META-INF/container.xml": kinds.EPUB,
}

_Reader = Callable[[BinaryIO, Budget], Iterator[Block]]


def _reader(mime_type: str) -> _Reader:
    """What reads documents of a kind. Each is imported when it is needed."""
    if mime_type in kinds.ZIPPED:
        return lambda stream, budget: _unpacked(stream, budget, mime_type)
    if mime_type == kinds.NOTEBOOK:
        from outrider.conversation.documents.notebooks import notebook_blocks

        return notebook_blocks
    from outrider.conversation.documents.rtf import rtf_blocks

    return rtf_blocks


def _unpacked(stream: BinaryIO, budget: Budget, mime_type: str) -> Iterator[Block]:
    from outrider.conversation.documents.archive import Archive

    archive = Archive(stream, budget)
    try:
        match mime_type:
            case kinds.DOCX | kinds.DOCM:
                from outrider.conversation.documents.word import word_blocks as blocks
            case kinds.XLSX | kinds.XLSM:
                from outrider.conversation.documents.workbooks import workbook_blocks as blocks
            case kinds.PPTX | kinds.PPTM:
                from outrider.conversation.documents.slides import slide_blocks as blocks
            case kinds.ODS:
                from outrider.conversation.documents.opendocument import sheet_blocks as blocks
            case kinds.EPUB:
                from outrider.conversation.documents.books import book_blocks as blocks
            case _:
                from outrider.conversation.documents.opendocument import text_blocks as blocks
        yield from blocks(archive)
    finally:
        archive.close()
