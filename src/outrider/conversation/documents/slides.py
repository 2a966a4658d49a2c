"""PowerPoint presentations: titles, text, tables and speaker notes of each slide."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from outrider.conversation.documents.archive import (
    Archive,
    main_part,
    nearest,
    number,
    part_of_kind,
    relations,
    tree,
    trees,
    value,
)
from outrider.conversation.documents.blocks import Block, markdown

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")
"""Placeholders that repeat on every slide."""
DEEPEST = 8
"""The deepest indentation of text."""


def slide_blocks(archive: Archive) -> Iterator[Block]:
    """Yield the slides in presentation order."""
    main = main_part(archive, "ppt/presentation.xml")
    related = relations(archive, main)
    presentation = tree(archive.pieces(main), archive.budget)
    for slide, each in enumerate(presentation.iterfind("sldIdLst/sldId"), 1):
        relation = related.get(each.get("r:id", ""))
        if relation and relation.target in archive:
            yield from _slide(archive, relation.target, slide)


def _slide(archive: Archive, part: str, slide: int) -> Iterator[Block]:
    hidden = ""
    titles: list[str] = []
    shown: list[Block] = []
    for shape in trees(archive.pieces(part), archive.budget, {"sp", "graphicFrame", "pic"}, {"sld"}):
        place = _placeholder(shape)
        if shape.tag == "sld":
            hidden = " (hidden)" if shape.get("show") == "0" else ""
        elif place in _TITLES:
            titles.append(" ".join(_text(shape).split()))
        elif place not in _FURNITURE:
            shown.append(Block(_shown(shape)))
    yield Block(f"## {': '.join([f'Slide {slide}{hidden}', *filter(None, titles)])}")
    yield from shown
    notes = part_of_kind(relations(archive, part), "notesSlide")
    if notes in archive:
        for shape in trees(archive.pieces(notes), archive.budget, {"sp"}):
            if _placeholder(shape) == "body" and (words := _text(shape).strip()):
                yield Block(f"Notes: {words}")


def _shown(shape: Element) -> str:
    if shape.tag == "pic":
        about = shape.find("nvPicPr/cNvPr")
        return f"[picture: {about.get('descr')}]" if about is not None and about.get("descr") else ""
    if shape.tag == "graphicFrame":
        return "\n\n".join(
            markdown([[_text(cell) for cell in nearest(row, "tc")] for row in nearest(table, "tr")])
            for table in nearest(shape, "tbl")
        )
    paragraphs = [each for each in nearest(shape, "p") if _words(each).strip()]
    if len(paragraphs) == 1:
        return _words(paragraphs[0]).strip()
    return "\n".join(f"{'  ' * _level(each)}- {' '.join(_words(each).split())}" for each in paragraphs)


def _placeholder(shape: Element) -> str:
    """Return the type of a shape's placeholder; empty if it has none."""
    found = shape.find("nvSpPr/nvPr/ph")
    return "" if found is None else found.get("type", "body")


def _text(element: Element) -> str:
    return "\n".join(map(_words, nearest(element, "p")))


def _words(paragraph: Element) -> str:
    """Return the text of a paragraph: runs, fields and line breaks."""
    return "".join("\n" if each.tag == "br" else each.findtext("t") or "" for each in paragraph)


def _level(paragraph: Element) -> int:
    return min(number(value(paragraph, "pPr", "lvl")), DEEPEST)
