"""A Jupyter notebook as its cells: what was written, what came out, and the pictures that did."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from outrider.conversation.documents.block import Block
from outrider.conversation.documents.budget import BYTES, Budget
from outrider.errors import AttachmentError
from outrider.text import shorten

OUTPUT_CHARACTERS = 5_000
"""What is shown of one output."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Output(msgspec.Struct, frozen=True):
    """What came out of a cell."""

    output_type: str = ""
    text: str | list[str] = ""
    data: Mapping[str, Any] = {}
    ename: str = ""
    evalue: str = ""
    traceback: Sequence[str] = ()


class Cell(msgspec.Struct, frozen=True):
    """A cell."""

    cell_type: str
    source: str | list[str] = ""
    outputs: Sequence[Output] = ()


class _Notebook(msgspec.Struct, frozen=True):
    cells: Sequence[Cell]


def cells_of(data: bytes) -> Sequence[Cell] | None:
    """The cells; None if this is not a notebook after all."""
    try:
        return msgspec.json.decode(data, type=_Notebook).cells
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def notebook_blocks(stream: BinaryIO, budget: Budget) -> Iterator[Block]:
    """The text of each cell."""
    cells = cells_of(stream.read(BYTES).removeprefix(b"\xef\xbb\xbf"))
    if cells is None:
        raise AttachmentError("it is not JSON with cells")
    for number, cell in enumerate(cells, 1):
        budget.spend_element()
        yield Block(cell_text(cell, number), tight=True)


def cell_text(cell: Cell, number: int, about_pictures: str = "") -> str:
    """What was written in a cell, and what came out; of pictures only their types, and where they are."""
    return "\n".join(_lines(cell, number, about_pictures))


def pictures(cell: Cell, number: int) -> Iterator[tuple[str, bytes]]:
    """The pictures that came out of a cell: a name for each, and its bytes."""
    for output in cell.outputs:
        for kind in _PICTURES:
            try:
                data = binascii.a2b_base64(_joined(output.data.get(kind, "")))
            except ValueError:
                continue
            if data:
                yield f"cell-{number}.{kind.removeprefix('image/')}", data


def _lines(cell: Cell, number: int, about_pictures: str) -> Iterator[str]:
    yield f"--- cell {number}: {cell.cell_type} ---"
    yield _joined(cell.source)
    for output in cell.outputs:
        yield f"--- output of cell {number} ---"
        said = _said(output, about_pictures)
        yield shorten(said, OUTPUT_CHARACTERS, "[{left_out} of {total} characters of this output left out]")


def _said(output: Output, about_pictures: str) -> str:
    if output.output_type == "error":
        words = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
    elif output.data:
        words = _of_data(output.data, about_pictures)
    else:
        words = _joined(output.text)
    return _COLOURS.sub("", words).rstrip("\n")


def _of_data(data: Mapping[str, Any], about_pictures: str) -> str:
    """The plainest form of an output that comes in several."""
    lines = [f"[{kind}{about_pictures}]" for kind in _PICTURES if kind in data]
    plain = next((_joined(data[kind]) for kind in ("text/plain", "text/markdown", "text/html") if kind in data), "")
    return "\n".join([*lines, plain] if plain else lines) or f"[{', '.join(data)}]"


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
