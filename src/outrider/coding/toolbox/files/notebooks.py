"""Jupyter notebooks as Read shows them: cell by cell, with their pictures."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.coding.toolbox.files.line_ranges import CHARACTERS, Span
from outrider.coding.toolbox.seen_files import ALL, Part
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.conversation.attachments import Attachment
from outrider.conversation.documents.notebooks import Cell, cell_text, cells_of, pictures
from outrider.text import counted
from outrider.tools.result import ToolResult

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
