"""The text of a document as Read shows it: by lines, as any other text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from outrider.coding.toolbox.files.line_ranges import Lines, Span, numbered
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import pieces
from outrider.errors import AttachmentError
from outrider.tools.context import ToolContext

ORIGINAL = "With original: true the file itself is attached, which helps only a model that takes such files."


def document_text(stream: BinaryIO, name: str, mime_type: str, span: Span, context: ToolContext) -> str:
    """The lines of the span, without reading the document further than that. Raises RefusalError."""
    stream.seek(0)
    text = _watched(pieces(stream, mime_type), context)
    kind = kinds.READABLE[mime_type]
    try:
        first = next(text, None)
        if first is None:
            return f"{shown(name)} ({kind}) has no text; it may have pictures. {ORIGINAL}"
        lines = numbered(Lines(chain([first], text)), span, name, None)
    except AttachmentError as error:
        raise RefusalError(f"{shown(name)} cannot be read: {error}.") from None
    return f"{lines}\n[This is the text of the {kind}, without layout and pictures. {ORIGINAL}]"


def _watched(text: Iterator[str], context: ToolContext) -> Iterator[str]:
    for piece in text:
        if context.cancelled:
            raise RefusalError("Reading was cancelled.")
        yield piece
