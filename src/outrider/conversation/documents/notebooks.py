"""Jupyter notebooks: cells with their source, their outputs and their images."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from outrider.conversation.documents.blocks import BYTES, Block, Budget
from outrider.errors import AttachmentError
from outrider.struct_types import described
from outrider.text import shorten
from outrider.text.terminal import rendered

OUTPUT_CHARACTERS = 5_000
"""The limit on the text of one output."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Output(msgspec.Struct, frozen=True):
    """An output of a cell."""

    output_type: str = ""
    text: str | list[str] = ""
    data: Mapping[str, Any] = {}
    ename: str = ""
    evalue: str = ""
    traceback: Sequence[str] = ()


class Cell(msgspec.Struct, frozen=True):
    """A cell of a notebook."""

    cell_type: str
    source: str | list[str] = ""
    outputs: Sequence[Output] = ()


class _Notebook(msgspec.Struct, frozen=True):
    cells: Sequence[Cell]


def cells_of(data: bytes) -> Sequence[Cell] | None:
    """Return the cells; None if the data is not a notebook."""
    try:
        return msgspec.json.decode(data, type=described(_Notebook)).cells
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def notebook_blocks(stream: BinaryIO, budget: Budget) -> Iterator[Block]:
    """Yield the text of each cell."""
    cells = cells_of(stream.read(BYTES).removeprefix(b"\xef\xbb\xbf"))
    if cells is None:
        raise AttachmentError("it is not JSON with cells")
    for number, cell in enumerate(cells, 1):
        budget.spend_element()
        yield Block(cell_text(cell, number), tight=True)


def cell_text(cell: Cell, number: int, about_pictures: str = "") -> str:
    """Return the source and the outputs of a cell. Images appear as their types, with the note about pictures."""
    return "\n".join(_lines(cell, number, about_pictures))


def pictures(cell: Cell, number: int) -> Iterator[tuple[str, bytes]]:
    """Yield a name and the bytes of each image in a cell's outputs."""
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
        text = _output_text(output, about_pictures)
        yield shorten(text, OUTPUT_CHARACTERS, "[{left_out} of {total} characters of this output left out]")


def _output_text(output: Output, about_pictures: str) -> str:
    if output.output_type == "error":
        text = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
    elif output.data:
        text = _plainest(output.data, about_pictures)
    else:
        text = _joined(output.text)
    return rendered(text).rstrip("\n")


def _plainest(data: Mapping[str, Any], about_pictures: str) -> str:
    """Return the plainest of an output's alternative forms."""
    lines = [f"[{kind}{about_pictures}]" for kind in _PICTURES if kind in data]
    plain = next((_joined(data[kind]) for kind in ("text/plain", "text/markdown", "text/html") if kind in data), "")
    return "\n".join([*lines, plain] if plain else lines) or f"[{', '.join(data)}]"


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
