"""Office documents, books, notebooks, PDFs and pictures as Read shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from outrider.coding.toolbox.files.line_ranges import CHARACTERS, Lines, Span, characters_for, numbered_lines
from outrider.coding.toolbox.seen_files import ALL, Part
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.conversation.attachments import Attachment
from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import pieces
from outrider.conversation.documents.notebooks import Cell, cell_text, cells_of, pictures
from outrider.conversation.documents.pdfs import LOCKED, opened_pdf
from outrider.errors import AttachmentError
from outrider.text import counted, human_size
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult

if TYPE_CHECKING:
    from pypdf import PdfReader

ORIGINAL = "With original: true the file itself is attached, which helps only a model that takes such files."


MOST_DECODED = 4 * 1024 * 1024
"""Bytes of a picture that Read decodes to see whether it is whole. A larger one is checked before it is sent."""


def document_text(stream: BinaryIO, name: str, mime_type: str, span: Span, context: ToolContext) -> tuple[str, Part]:
    """Return the lines of the span, and which these are. Reads no further than that. Raises ToolCallError."""
    stream.seek(0)
    text = _until_cancelled(pieces(stream, mime_type), context)
    kind = kinds.READABLE[mime_type]
    try:
        first = next(text, None)
        if first is None:
            return f"{printable(name)} ({kind}) has no text; it may have pictures. {ORIGINAL}", ALL
        lines, part = numbered_lines(
            Lines(chain([first], text)), span, name, None, characters_for(context.result_characters)
        )
    except AttachmentError as error:
        raise ToolCallError(f"{printable(name)} cannot be read: {error}.") from None
    return f"{lines}\n[This is the text of the {kind}, without layout and pictures. {ORIGINAL}]", part


def _until_cancelled(text: Iterator[str], context: ToolContext) -> Iterator[str]:
    for piece in text:
        if context.cancelled:
            raise ToolCallError("Reading was cancelled.")
        yield piece


def picture_result(name: str, mime_type: str, size: int, data: bytes | None, attachment: Attachment) -> ToolResult:
    """Return the picture with a caption. A file too large to inspect is attached unchecked."""
    is_copied = mime_type == "image/webp"  # twice, to be opened
    if data is None or (is_copied and len(data) > MOST_DECODED):
        return ToolResult(f"{printable(name)}: {mime_type}, {human_size(size)}", [attachment])
    from outrider.providers.rendering.documents import image_size  # the same check as before sending

    try:
        width, height = image_size(data, MOST_DECODED)
    except AttachmentError:
        width = height = 0
    except ImportError:  # hands elsewhere may lack Pillow
        return ToolResult(f"{printable(name)}: {mime_type}, {human_size(size)}", [attachment])
    if not width or not height:
        raise ToolCallError(
            f"{printable(name)} begins like a picture ({mime_type}, {human_size(size)}) but is damaged or incomplete. "
            "With original: true it is attached as it is."
        )
    return ToolResult(f"{printable(name)}: {mime_type}, {width} × {height} pixels, {human_size(size)}", [attachment])


def _check_offset(span: Span, total: int, name: str, kind: str, part: str) -> None:
    if span.first > total:
        raise ToolCallError(
            f"{printable(name)} has {counted(total, part)}; offset {span.first:,} is past its end. "
            f"In a {kind}, offset and limit count {part}s."
        )


MOST_PICTURES = 20
"""Maximum number of pictures in one result."""


def notebook_result(data: bytes, name: str, span: Span) -> tuple[ToolResult, Part] | None:
    """Return as many whole cells of the span as fit, and which these are, or None if the file is not a notebook."""
    cells = cells_of(data)
    if cells is None:
        return None
    total = len(cells)
    if total == 0:
        return ToolResult(f"{printable(name)} is a notebook without cells."), ALL
    _check_offset(span, total, name, "notebook", "cell")
    asked = cells[span.first - 1 : None if span.count is None else span.first - 1 + span.count]
    parts, attached = _parts(asked, span.first)
    last = span.first + len(parts) - 1
    note = f"\n[Cells {span.first} to {last} of {total}. Read on with offset={last + 1}.]" if last < total else ""
    return ToolResult("\n".join(parts) + note, attached), Part(span.first, last, last == total)


def _parts(cells: Sequence[Cell], first: int) -> tuple[list[str], list[Attachment]]:
    """Return the text of as many cells as fit, and their pictures."""
    parts: list[str] = []
    attached: list[Attachment] = []
    used = 0
    for number, cell in enumerate(cells, first):
        text = cell_text(cell, number, ", attached")
        found = [Attachment(data, name=name) for name, data in pictures(cell, number)]
        used += len(text)
        if parts and (used > CHARACTERS or len(attached) + len(found) > MOST_PICTURES):
            break
        parts.append(text)
        attached += found
    return parts, attached


PAGES = 20
"""Pages that are read without a limit from the model."""

PDF_ORIGINAL = "With original: true the PDF itself is attached."


def pdf_text(stream: BinaryIO, name: str, span: Span, context: ToolContext) -> tuple[str, Part]:
    """Return the text of as many whole pages of the span as fit, and which these are. Raises ToolCallError."""
    with _damage_as_error(name):
        reader = _open_pdf(stream, name)
        total = len(reader.pages)
    _check_offset(span, total, name, "PDF", "page")
    pages: list[str] = []
    used, last = 0, min(total, span.first + (span.count or PAGES) - 1)
    for number in range(span.first, last + 1):
        if context.cancelled:
            raise ToolCallError("Reading was cancelled.")
        context.progress(f"page {number} of {total}")
        text = _page_text(reader, number)
        used += len(text)
        if pages and used > characters_for(context.result_characters):
            break
        pages.append(text)
    shown = span.first + len(pages) - 1
    return _join_pages(pages, name, span.first, total), Part(span.first, shown, shown == total)


def _join_pages(pages: list[str], name: str, first: int, total: int) -> str:
    last = first + len(pages) - 1
    onwards = f" Read on with offset={last + 1}." if last < total else ""
    if not any(pages):
        what = counted(total, "page") if len(pages) == total else f"on pages {first} to {last} of {total}"
        has = f"has {what} and no text in them" if len(pages) == total else f"has no text {what}"
        return f"{printable(name)} {has}: they may be scanned.{onwards} {PDF_ORIGINAL}"
    marked = [f"--- page {number} of {total} ---\n{text}" for number, text in enumerate(pages, first)]
    return "\n".join(marked) + f"\n[{PDF_ORIGINAL}{onwards}]"


def _open_pdf(stream: BinaryIO, name: str) -> PdfReader:
    reader = opened_pdf(stream)
    if reader.is_encrypted and not _unlock(reader):
        raise ToolCallError(f"{printable(name)} cannot be read: {LOCKED}.")
    return reader


def _unlock(reader: PdfReader) -> bool:
    """Try the empty password: many PDFs are encrypted with it, only to prevent changes."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # noqa: BLE001 - a missing algorithm, a damaged dictionary
        return False


def _page_text(reader: PdfReader, number: int) -> str:
    try:
        return reader.pages[number - 1].extract_text().strip()
    except Exception:  # noqa: BLE001 - a damaged page must not hide the others
        return "[This page cannot be read.]"


@contextmanager
def _damage_as_error(name: str) -> Iterator[None]:
    try:
        yield
    except ToolCallError:
        raise
    except Exception:  # noqa: BLE001 - damaged or malicious files may raise anything
        raise ToolCallError(
            f"{printable(name)} begins like a PDF but is damaged and cannot be read. {PDF_ORIGINAL}"
        ) from None
