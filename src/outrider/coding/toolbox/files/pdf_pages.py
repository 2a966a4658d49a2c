"""The text of a PDF, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from outrider.coding.toolbox.files.line_ranges import Span, characters_for
from outrider.coding.toolbox.seen_files import Part
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.conversation.documents.pdfs import LOCKED, opened_pdf
from outrider.text import counted
from outrider.tools.context import ToolContext

if TYPE_CHECKING:
    from pypdf import PdfReader

PAGES = 20
"""Pages that are read without a limit from the model."""

ORIGINAL = "With original: true the PDF itself is attached."


def pdf_text(stream: BinaryIO, name: str, span: Span, context: ToolContext) -> tuple[str, Part]:
    """Return the text of as many whole pages of the span as fit, and which these are. Raises ToolCallError."""
    with _damage_as_error(name):
        reader = _open(stream, name)
        total = len(reader.pages)
    if span.first > total:
        raise ToolCallError(
            f"{printable(name)} has {counted(total, 'page')}; offset {span.first:,} is past its end. "
            "In a PDF, offset and limit count pages."
        )
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
        return f"{printable(name)} {has}: they may be scanned.{onwards} {ORIGINAL}"
    marked = [f"--- page {number} of {total} ---\n{text}" for number, text in enumerate(pages, first)]
    return "\n".join(marked) + f"\n[{ORIGINAL}{onwards}]"


def _open(stream: BinaryIO, name: str) -> PdfReader:
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
            f"{printable(name)} begins like a PDF but is damaged and cannot be read. {ORIGINAL}"
        ) from None
