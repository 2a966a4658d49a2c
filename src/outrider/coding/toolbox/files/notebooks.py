"""A Jupyter notebook as Read shows it: cell by cell, with its pictures."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.coding.toolbox.files.line_ranges import CHARACTERS, Span
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.conversation.attachments import Attachment
from outrider.conversation.documents.notebooks import Cell, cell_text, cells_of, pictures
from outrider.text import counted
from outrider.tools.result import ToolResult

MOST_PICTURES = 20
"""Pictures that are attached at once."""


def notebook(data: bytes, name: str, span: Span) -> ToolResult | None:
    """The cells of the span, as many whole cells as fit; None if this is not a notebook after all."""
    cells = cells_of(data)
    if cells is None:
        return None
    total = len(cells)
    if total == 0:
        return ToolResult(f"{shown(name)} is a notebook without cells.")
    if span.first > total:
        raise RefusalError(
            f"{shown(name)} has {counted(total, 'cell')}; offset {span.first:,} is past its end. "
            "In a notebook, offset and limit count cells."
        )
    asked = cells[span.first - 1 : None if span.count is None else span.first - 1 + span.count]
    parts, attached = _parts(asked, span.first)
    last = span.first + len(parts) - 1
    note = f"\n[Cells {span.first} to {last} of {total}. Read on with offset={last + 1}.]" if last < total else ""
    return ToolResult("\n".join(parts) + note, attached)


def _parts(cells: Sequence[Cell], first: int) -> tuple[list[str], list[Attachment]]:
    """The text of each cell as long as they fit, and the pictures of those."""
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
