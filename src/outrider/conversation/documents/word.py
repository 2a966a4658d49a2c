"""Word documents: headings, paragraphs, lists, tables and notes, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from xml.etree.ElementTree import Element

import msgspec

from outrider.conversation.documents.archive import (
    Archive,
    Relation,
    main_part,
    nearest,
    number,
    part_of_kind,
    relations,
    tree,
    trees,
    value,
)
from outrider.conversation.documents.blocks import COLUMNS, Block, markdown

_NO_TEXT = frozenset(
    {"pPr", "rPr", "sdtPr", "tblPr", "tcPr", "trPr", "instrText", "delText", "delInstrText", "del", "moveFrom"}
    | {"Fallback", "rt", "fldData"}
)
"""Elements whose text is not part of the visible document: settings, deleted text, fallback versions."""
_MARKS = {"footnoteReference": "^", "endnoteReference": "^e", "commentReference": "comment "}
_NOTES = (("footnotes", "footnote", "^"), ("endnotes", "endnote", "^e"), ("comments", "comment", "comment "))
"""The parts with notes, their elements, and the marks that refer to them."""
_PLAIN = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_HEADING = re.compile(r"heading ([1-9])|title", re.IGNORECASE)
DEEPEST = 8
"""The deepest indentation of lists."""


def word_blocks(archive: Archive) -> Iterator[Block]:
    """Yield the blocks of a document, then its footnotes, endnotes and comments."""
    main = main_part(archive, "word/document.xml")
    related = relations(archive, main)
    writer = _Writer(archive, related)
    for element in trees(archive.pieces(main), archive.budget, {"p", "tbl"}):
        yield from writer.blocks(element)
    for kind, tag, mark in _NOTES:
        if (part := part_of_kind(related, kind)) in archive:
            yield from writer.notes(trees(archive.pieces(part), archive.budget, {tag}), mark)


class _Style(msgspec.Struct, frozen=True):
    """The properties of a style or a paragraph that affect its text."""

    heading: int = 0
    numbering: str = ""
    """The id of its list."""
    level: int = 0


class _Writer:
    """Writes paragraphs and tables with the document's styles, lists and links."""

    def __init__(self, archive: Archive, related: Mapping[str, Relation]) -> None:
        self._related = related
        self._styles = _styles(archive, part_of_kind(related, "styles"))
        self._bullets = _bullets(archive, part_of_kind(related, "numbering"))
        self._counts: dict[str, list[int]] = {}
        """The current item number of each list at each level."""

    def blocks(self, element: Element) -> Iterator[Block]:
        """Yield the blocks of a paragraph or a table."""
        if element.tag == "tbl":
            yield Block(markdown([self._cells(row) for row in nearest(element, "tr")]))
            return
        text = self.text(element).strip()
        style = self._style(element)
        if not text:
            return
        if style.heading:
            yield Block(f"{'#' * style.heading} {' '.join(text.split())}")
        elif style.numbering not in ("", "0"):
            yield Block(f"{'  ' * min(style.level, DEEPEST)}{self._marker(style)}{text}", tight=True)
        else:
            yield Block(text)

    def notes(self, notes: Iterable[Element], mark: str) -> Iterator[Block]:
        """Yield the text of footnotes, endnotes or comments."""
        for note in notes:
            words = " ".join(self.text(note).split())
            author = f" ({note.get('author')})" if note.get("author") else ""
            if words and note.get("type") is None:  # notes with a type are separator lines
                yield Block(f"[{mark}{note.get('id', '')}]{author}: {words}", tight=True)

    def text(self, element: Element) -> str:
        """Return the text of an element."""
        words: list[str] = []
        self._write(element, words)
        return "".join(words)

    def _write(self, element: Element, words: list[str]) -> None:
        for child in element:
            tag = child.tag
            if tag == "t":
                words.append(child.text or "")
            elif tag == "hyperlink":
                self._write_link(child, words)
            elif tag in _MARKS:
                words.append(f"[{_MARKS[tag]}{child.get('id', '')}]")
            elif tag == "docPr":
                words.append(f"[picture: {child.get('descr')}]" if child.get("descr") else "")
            elif tag in _PLAIN:
                words.append(_PLAIN[tag])
            elif tag not in _NO_TEXT:
                self._write(child, words)
                words.append("\n" if tag in ("p", "tc") else "")

    def _write_link(self, element: Element, words: list[str]) -> None:
        relation = self._related.get(element.get("r:id", ""))
        leads_out = relation is not None and relation.is_external
        words.append("[" if leads_out else "")
        self._write(element, words)
        words.append(f"]({relation.target})" if relation and leads_out else "")

    def _cells(self, row: Element) -> list[str]:
        cells: list[str] = []
        for cell in nearest(row, "tc"):
            merged = cell.find("tcPr/vMerge")
            is_merged = merged is not None and merged.get("val", "continue") == "continue"
            cells.append("" if is_merged else self.text(cell).strip())
            cells += [""] * min(number(value(cell, "tcPr/gridSpan")) - 1, COLUMNS)
        return cells

    def _style(self, paragraph: Element) -> _Style:
        properties = paragraph.find("pPr")
        if properties is None:
            return _Style()
        style = self._styles.get(value(properties, "pStyle"), _Style())
        return _own_style(properties, style)

    def _marker(self, style: _Style) -> str:
        level = min(style.level, DEEPEST)
        if level in self._bullets.get(style.numbering, ()):
            return "- "
        counts = self._counts.setdefault(style.numbering, [0] * (DEEPEST + 1))
        counts[level] += 1
        counts[level + 1 :] = [0] * (DEEPEST - level)  # deeper levels restart
        return f"{counts[level]}. "


def _own_style(properties: Element, style: _Style) -> _Style:
    """Apply a paragraph's own properties to its style."""
    outline, numbering = value(properties, "outlineLvl"), value(properties, "numPr/numId")
    return _Style(
        min(number(outline) + 1, 6) if outline and number(outline) < 9 else style.heading,
        numbering or style.numbering,
        number(value(properties, "numPr/ilvl") or str(style.level)),
    )


def _styles(archive: Archive, part: str) -> dict[str, _Style]:
    if part not in archive:
        return {}
    found: dict[str, _Style] = {}
    for each in trees(archive.pieces(part), archive.budget, {"style"}):
        style = found.get(value(each, "basedOn"), _Style())
        if named := _HEADING.fullmatch(value(each, "name")):
            style = msgspec.structs.replace(style, heading=min(int(named.group(1) or 1), 6))
        properties = each.find("pPr")
        found[each.get("styleId", "")] = style if properties is None else _own_style(properties, style)
    return found


def _bullets(archive: Archive, part: str) -> dict[str, set[int]]:
    """Return the levels of each list that have bullets instead of numbers."""
    if part not in archive:
        return {}
    numbering = tree(archive.pieces(part), archive.budget)
    kinds = {
        kind.get("abstractNumId", ""): {
            number(level.get("ilvl", "")) for level in kind.iter("lvl") if value(level, "numFmt") == "bullet"
        }
        for kind in numbering.iter("abstractNum")
    }
    return {each.get("numId", ""): kinds.get(value(each, "abstractNumId"), set()) for each in numbering.iter("num")}
