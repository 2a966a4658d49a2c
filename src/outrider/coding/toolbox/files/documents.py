"""The text of a PDF, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from outrider.coding.toolbox.files.line_ranges import CHARACTERS, Span
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.conversation.documents.pdfs import opened_pdf
from outrider.text import counted
from outrider.tools.context import ToolContext

if TYPE_CHECKING:
    from pypdf import PdfReader

PAGES = 20
"""Pages that are read when nobody says how many."""

ORIGINAL = "With original: true the PDF itself is attached."


def pdf_text(stream: BinaryIO, name: str, span: Span, context: ToolContext) -> str:
    """The text of the pages of the span, as many whole pages as fit. Raises RefusalError if the PDF cannot be read."""
    with _damaged(name):
        reader = _opened(stream, name)
        total = len(reader.pages)
    if span.first > total:
        raise RefusalError(
            f"{shown(name)} has {counted(total, 'page')}; offset {span.first:,} is past its end. "
            "In a PDF, offset and limit count pages."
        )
    pages: list[str] = []
    used, last = 0, min(total, span.first + (span.count or PAGES) - 1)
    for number in range(span.first, last + 1):
        if context.cancelled:
            raise RefusalError("Reading was cancelled.")
        context.progress(f"page {number} of {total}")
        text = _page_text(reader, number)
        used += len(text)
        if pages and used > CHARACTERS:
            break
        pages.append(text)
    return _put_together(pages, name, span.first, total)


def _put_together(pages: list[str], name: str, first: int, total: int) -> str:
    last = first + len(pages) - 1
    onwards = f" Read on with offset={last + 1}." if last < total else ""
    if not any(pages):
        what = counted(total, "page") if len(pages) == total else f"on pages {first} to {last} of {total}"
        has = f"has {what} and no text in them" if len(pages) == total else f"has no text {what}"
        return f"{shown(name)} {has}: they may be scanned.{onwards} {ORIGINAL}"
    marked = [f"--- page {number} of {total} ---\n{text}" for number, text in enumerate(pages, first)]
    return "\n".join(marked) + f"\n[{ORIGINAL}{onwards}]"


def _opened(stream: BinaryIO, name: str) -> PdfReader:
    reader = opened_pdf(stream)
    if reader.is_encrypted and not _unlocked(reader):
        raise RefusalError(f"{shown(name)} is encrypted, and its text cannot be read without the password. {ORIGINAL}")
    return reader


def _unlocked(reader: PdfReader) -> bool:
    """Many PDFs are locked with an empty password, against changes only."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # noqa: BLE001 - an algorithm that is not there, a damaged dictionary
        return False


def _page_text(reader: PdfReader, number: int) -> str:
    try:
        return reader.pages[number - 1].extract_text().strip()
    except Exception:  # noqa: BLE001 - one damaged page does not take the others with it
        return "[This page cannot be read.]"


@contextmanager
def _damaged(name: str) -> Iterator[None]:
    try:
        yield
    except RefusalError:
        raise
    except Exception:  # noqa: BLE001 - files that are damaged or made to hurt raise anything
        raise RefusalError(f"{shown(name)} begins like a PDF but is damaged and cannot be read. {ORIGINAL}") from None
