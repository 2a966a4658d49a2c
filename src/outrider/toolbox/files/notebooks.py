"""A Jupyter notebook as its cells: what was written, what came out, and the pictures that did."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from outrider.attachments import Attachment
from outrider.results import ToolResult
from outrider.text import counted, shorten
from outrider.toolbox.files.line_ranges import CHARACTERS, Span
from outrider.toolbox.refusals import RefusalError, shown

OUTPUT_CHARACTERS = 5_000
"""What is shown of one output."""
MOST_PICTURES = 20
"""Pictures that are attached at once."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class _Output(msgspec.Struct, frozen=True):
    output_type: str = ""
    text: str | list[str] = ""
    data: Mapping[str, Any] = {}
    ename: str = ""
    evalue: str = ""
    traceback: Sequence[str] = ()


class _Cell(msgspec.Struct, frozen=True):
    cell_type: str
    source: str | list[str] = ""
    outputs: Sequence[_Output] = ()


class _Notebook(msgspec.Struct, frozen=True):
    cells: Sequence[_Cell]


def notebook(data: bytes, name: str, span: Span) -> ToolResult | None:
    """The cells of the span, as many whole cells as fit; None if this is not a notebook after all."""
    try:
        cells = msgspec.json.decode(data, type=_Notebook).cells
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
    parts, pictures = _parts(asked, span.first)
    last = span.first + len(parts) - 1
    note = f"\n[Cells {span.first} to {last} of {total}. Read on with offset={last + 1}.]" if last < total else ""
    return ToolResult("\n".join(parts) + note, pictures)


def _parts(cells: Sequence[_Cell], first: int) -> tuple[list[str], list[Attachment]]:
    """The text of each cell as long as they fit, and the pictures of those."""
    parts: list[str] = []
    pictures: list[Attachment] = []
    used = 0
    for number, cell in enumerate(cells, first):
        text = "\n".join(_lines(cell, number))
        found = list(_pictures(cell, number))
        used += len(text)
        if parts and (used > CHARACTERS or len(pictures) + len(found) > MOST_PICTURES):
            break
        parts.append(text)
        pictures += found
    return parts, pictures


def _lines(cell: _Cell, number: int) -> Iterator[str]:
    yield f"--- cell {number}: {cell.cell_type} ---"
    yield _joined(cell.source)
    for output in cell.outputs:
        yield f"--- output of cell {number} ---"
        yield shorten(_said(output), OUTPUT_CHARACTERS, "[{left_out} of {total} characters of this output left out]")


def _said(output: _Output) -> str:
    if output.output_type == "error":
        words = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
    elif output.data:
        words = _of_data(output.data)
    else:
        words = _joined(output.text)
    return _COLOURS.sub("", words).rstrip("\n")


def _of_data(data: Mapping[str, Any]) -> str:
    """The plainest form of an output that comes in several."""
    lines = [f"[{kind}, attached]" for kind in _PICTURES if kind in data]
    plain = next((_joined(data[kind]) for kind in ("text/plain", "text/markdown", "text/html") if kind in data), "")
    return "\n".join([*lines, plain] if plain else lines) or f"[{', '.join(data)}]"


def _pictures(cell: _Cell, number: int) -> Iterator[Attachment]:
    for output in cell.outputs:
        for kind in _PICTURES:
            try:
                data = binascii.a2b_base64(_joined(output.data.get(kind, "")))
            except ValueError:
                continue
            if data:
                yield Attachment(data, name=f"cell-{number}.{kind.removeprefix('image/')}")


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
