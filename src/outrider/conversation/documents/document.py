"""Extract the text of documents in chunks, including damaged ones."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

from outrider.conversation.documents import kinds
from outrider.conversation.documents.blocks import Block, Budget, ExhaustedError
from outrider.errors import AttachmentError
from outrider.text import clean

GOES_ON = "[The document goes on; this is its beginning.]"


def pieces(stream: BinaryIO, mime_type: str) -> Iterator[str]:
    """Yield the text of a readable document as Markdown.

    If the document is damaged or exceeds a limit, the text ends with a note. Raise AttachmentError if nothing can be
    read; its message begins with "it".
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
            raise AttachmentError(f"it is not a readable {kind}: it is too large") from None
        yield f"\n\n{GOES_ON}"
    except Exception as error:  # noqa: BLE001 - damaged or malicious files can raise anything
        reason = str(error) if isinstance(error, AttachmentError) else "it is damaged"
        if last is None:
            raise AttachmentError(f"it is not a readable {kind}: {reason}") from None
        yield f"\n\n[The rest cannot be read: {reason}.]"


def text_of(data: bytes, mime_type: str, limit: int) -> str:
    """Return the text of a document up to a limit, with a note if there is more. Raise AttachmentError."""
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
    """Return the MIME type of a zipped document from its parts; empty if it is unknown or cannot be read."""
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
    """Return the reader for a document type. Readers are imported on first use."""
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
