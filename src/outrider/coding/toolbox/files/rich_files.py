"""Office documents, books, notebooks and pictures as Read shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

from outrider.coding.toolbox.files.line_ranges import CHARACTERS, Lines, Span, characters_for, numbered_lines
from outrider.coding.toolbox.seen_files import ALL, Part
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.conversation.attachments import Attachment
from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import pieces
from outrider.conversation.documents.notebooks import Cell, cell_text, cells_of, pictures
from outrider.errors import AttachmentError
from outrider.text import counted, human_size
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult

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
    if span.first > total:
        raise ToolCallError(
            f"{printable(name)} has {counted(total, 'cell')}; offset {span.first:,} is past its end. "
            "In a notebook, offset and limit count cells."
        )
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
