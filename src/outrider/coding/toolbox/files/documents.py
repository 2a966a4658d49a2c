"""The text of an office document, a book or RTF, read by lines like any other text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from outrider.coding.toolbox.files.line_ranges import Lines, Span, characters_for, numbered_lines
from outrider.coding.toolbox.seen_files import ALL, Part
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import pieces
from outrider.errors import AttachmentError
from outrider.tools.context import ToolContext

ORIGINAL = "With original: true the file itself is attached, which helps only a model that takes such files."


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
