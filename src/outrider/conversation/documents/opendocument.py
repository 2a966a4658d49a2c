"""OpenDocument texts, spreadsheets and presentations, as LibreOffice writes them."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from outrider.conversation.documents.archive import Archive, nearest, number, trees
from outrider.conversation.documents.blocks import COLUMNS, Block, comma_separated, markdown
from outrider.errors import AttachmentError

_NO_TEXT = frozenset({"tracked-changes", "ruby-text", "forms", "annotation-end", "title"})
_CONTENT = "content.xml"
DEEPEST = 8
"""The deepest indentation of lists."""
REPEATED = 100
"""The limit on copies of a repeated row or cell: sheets are padded with a million copies of an empty one."""


def text_blocks(archive: Archive) -> Iterator[Block]:
    """Yield the headings, paragraphs, lists and tables of a text or a presentation."""
    slide, frame = 0, ""
    for element in trees(_content(archive), archive.budget, _BLOCKS, {"page", "frame"}):
        match element.tag:
            case "page":
                slide += 1
                yield Block(f"## Slide {slide}")
            case "frame":
                frame = element.get("class", "")
            case "notes":
                if words := " ".join(_text(element).split()):
                    yield Block(f"Notes: {words}")
            case _:
                yield from _blocks(element, is_title=frame == "title")


def sheet_blocks(archive: Archive) -> Iterator[Block]:
    """Yield the sheets of a spreadsheet as CSV."""
    empty = 0
    for element in trees(_content(archive), archive.budget, {"table-row"}, {"table"}):
        if element.tag == "table":
            empty = 0
            yield Block(f"## {element.get('name', '')}")
            continue
        line = comma_separated(_cells(element))
        times = number(element.get("number-rows-repeated", ""), 1)
        if not line:
            empty += times
            continue
        if empty:
            yield Block(f"[{empty:,} empty row{'' if empty == 1 else 's'}]", tight=True)
            empty = 0
        for _ in range(min(times, REPEATED)):
            yield Block(line, tight=True)
        if times > REPEATED:
            yield Block(f"[the same row {times - REPEATED:,} more times]", tight=True)


def _content(archive: Archive) -> Iterator[bytes]:
    if "META-INF/manifest.xml" in archive:
        encrypted = trees(archive.pieces("META-INF/manifest.xml"), archive.budget, (), {"encryption-data"})
        if next(encrypted, None) is not None:
            raise AttachmentError("it is locked with a password")
    return archive.pieces(_CONTENT)


_BLOCKS = ("p", "h", "list", "table", "notes", "tracked-changes")


def _blocks(element: Element, *, is_title: bool = False) -> Iterator[Block]:
    match element.tag:
        case "table":
            yield Block(markdown([_cells(row) for row in nearest(element, "table-row")]))
        case "list":
            yield from _items(element, 0)
        case "h":
            level = min(max(number(element.get("outline-level", ""), 1), 1), 6)
            yield Block(f"{'#' * level} {' '.join(_text(element).split())}")
        case "p":
            text = _text(element).strip()
            yield Block(f"### {' '.join(text.split())}" if is_title and text else text)


def _items(element: Element, level: int) -> Iterator[Block]:
    for item in element:
        for child in item:
            if child.tag == "list":
                yield from _items(child, level + 1)
            elif text := " ".join(_text(child).split()):
                yield Block(f"{'  ' * min(level, DEEPEST)}- {text}", tight=True)


def _cells(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if cell.tag not in ("table-cell", "covered-table-cell"):
            continue
        text = "\n".join(map(_text, nearest(cell, "p"))).strip() or cell.get("value", "")
        times = number(cell.get("number-columns-repeated", ""), 1)
        cells += [text] * min(times, COLUMNS - len(cells) if not text else REPEATED)
    return cells


def _text(element: Element) -> str:
    words: list[str] = []
    _write(element, words)
    return "".join(words)


def _write(element: Element, words: list[str]) -> None:
    words.append(element.text or "")
    for child in element:
        match child.tag:
            case "s":
                words.append(" " * min(number(child.get("c", ""), 1), 1000))
            case "tab":
                words.append("\t")
            case "line-break":
                words.append("\n")
            case "note" | "annotation" | "desc":
                words.append(" [picture: " if child.tag == "desc" else " [")
                _write(child, words)
                words.append("] ")
            case tag if tag not in _NO_TEXT:
                _write(child, words)
                words.append("\n" if tag == "p" else "")
        words.append(child.tail or "")
