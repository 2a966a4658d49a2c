"""Small documents, each written by a library of its own kind, so that what reads them has an oracle."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from datetime import date, datetime, time
from functools import cache
from typing import Any

from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import text_of

LIMIT = 1_000_000


def shown(data: bytes, mime_type: str) -> str:
    return text_of(data, mime_type, LIMIT)


def docx() -> bytes:
    import docx as library

    document = library.Document()
    document.add_heading("Quarterly report", level=1)
    document.add_paragraph("Riders grew by 12 % in Zürich.")
    document.add_heading("Towns", level=2)
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("second", style="List Bullet")
    document.add_paragraph("one", style="List Number")
    document.add_paragraph("two", style="List Number")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ["town", "riders", "Köln", "40|41"], strict=True):
        cell.text = text
    document.add_paragraph("The end.")
    return _saved(document)


def xlsx() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.title = "Riders"
    sheet.append(["town", "riders", "since", "share", "open", "at", "seen"])
    sheet.append(["Zürich", 42, date(2024, 2, 29), 0.1 + 0.2, True, time(7, 30), datetime(2024, 1, 2, 3, 4, 5)])
    sheet["A6"] = 'say "hi", all'
    sheet["C6"] = "=SUM(B2:B3)"
    other = book.create_sheet("Köln & more")
    other["B2"] = -1.5
    book.create_sheet("Secret").sheet_state = "hidden"
    return _saved(book)


def pptx() -> bytes:
    from pptx import Presentation
    from pptx.util import Inches

    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Plans"
    frame = slide.placeholders[1].text_frame
    frame.text = "grow"
    below = frame.add_paragraph()
    below.text, below.level = "in Zürich", 1
    slide.notes_slide.notes_text_frame.text = "Say hello first."
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Figures"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for index, text in enumerate(["town", "riders", "Köln", "40"]):
        table.cell(index // 2, index % 2).text = text
    second.shapes.add_textbox(Inches(1), Inches(4), Inches(4), Inches(1)).text_frame.text = "Source: us"
    return _saved(presentation)


def odt() -> bytes:
    from odf.opendocument import OpenDocumentText
    from odf.table import Table, TableCell, TableRow
    from odf.text import H, List, ListItem, P, S, Span

    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=2, text="Quarterly report"))
    paragraph = P(text="Riders")
    paragraph.addElement(S(c=2))
    paragraph.addElement(Span(text="grew in Zürich."))
    document.text.addElement(paragraph)
    items = List()
    for text in ("first", "second"):
        item = ListItem()
        item.addElement(P(text=text))
        items.addElement(item)
    document.text.addElement(items)
    table = Table(name="T")
    for row in (["town", "riders"], ["Köln", "40"]):
        line = TableRow()
        for text in row:
            cell = TableCell()
            cell.addElement(P(text=text))
            line.addElement(cell)
        table.addElement(line)
    document.text.addElement(table)
    return _saved(document)


def ods() -> bytes:
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    document = OpenDocumentSpreadsheet()
    table = Table(name="Riders")
    for row in (["town", "riders"], ["Köln", "40, or so"]):
        line = TableRow()
        for text in row:
            cell = TableCell(valuetype="string")
            cell.addElement(P(text=text))
            line.addElement(cell)
        table.addElement(line)
    filler = TableRow(numberrowsrepeated=1_048_000)
    filler.addElement(TableCell(numbercolumnsrepeated=16_384))
    table.addElement(filler)
    last = TableRow()
    last.addElement(TableCell(valuetype="float", value=1.5))
    table.addElement(last)
    document.spreadsheet.addElement(table)
    return _saved(document)


def odp() -> bytes:
    from odf.draw import Frame, Page, TextBox
    from odf.opendocument import OpenDocumentPresentation
    from odf.style import MasterPage, PageLayout
    from odf.text import P

    document = OpenDocumentPresentation()
    document.automaticstyles.addElement(PageLayout(name="L"))
    document.masterstyles.addElement(MasterPage(name="M", pagelayoutname="L"))
    for title, text in (("Plans", "grow in Zürich"), ("Figures", "40")):
        page = Page(masterpagename="M")
        for kind, words in (("title", title), ("outline", text)):
            frame = Frame(width="10cm", height="2cm")
            frame.setAttrNS("urn:oasis:names:tc:opendocument:xmlns:presentation:1.0", "class", kind)
            box = TextBox()
            box.addElement(P(text=words))
            frame.addElement(box)
            page.addElement(frame)
        document.presentation.addElement(page)
    return _saved(document)


def epub() -> bytes:
    def chapter(title: str, text: str) -> str:
        return (
            '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head>'
            f"<title>{title}</title></head><body><h1>{title}</h1><p>{text}</p></body></html>"
        )

    return zipped(
        {
            "mimetype": kinds.EPUB,
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            "<metadata><dc:title>The ride</dc:title><dc:creator>A. Rider</dc:creator></metadata><manifest>"
            '<item id="b" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="a" href="text/one.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="c" href="cover.png" media-type="image/png"/></manifest>'
            '<spine><itemref idref="a"/><itemref idref="b"/><itemref idref="c"/></spine></package>',
            "OEBPS/text/two b.xhtml": chapter("Two", "It ended in Köln."),
            "OEBPS/text/one.xhtml": chapter("One", "It began in Zürich &amp; went on."),
            "OEBPS/cover.png": "picture",
        }
    )


def rtf() -> bytes:
    return (
        rb"{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}}"
        rb"{\colortbl;\red255\green0\blue0;}{\*\generator Riched20;}{\info{\title No words of it}}"
        rb"\pard\f0 Riders in Z\'fcrich \u8364?5 \{sic\}\par Second\line line {\b bold}\tab end{\footnote a note}.\par"
        rb"{\pict\pngblip\bin4 }}{\x}{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}\par\trowd\intbl town\cell riders\cell\row"
        rb"\trowd\intbl K\'f6ln\cell 40\cell\row\pard \u-10179?\u-8704? The end.\par}"
    )


def ipynb() -> bytes:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Riders\n", "in Zürich"]},
        {
            "cell_type": "code",
            "source": "print(40 + 2)",
            "outputs": [
                {"output_type": "stream", "text": ["42\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=" * 100, "text/plain": "<Figure>"}},
            ],
        },
    ]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


SAMPLES = {
    kinds.DOCX: docx,
    kinds.XLSX: xlsx,
    kinds.PPTX: pptx,
    kinds.ODT: odt,
    kinds.ODS: ods,
    kinds.ODP: odp,
    kinds.EPUB: epub,
    kinds.RTF: rtf,
    kinds.NOTEBOOK: ipynb,
}
"""A document of each kind."""


@cache
def made(kind: str) -> bytes:
    """Return the document of this kind, written when it is first asked for: the libraries load slowly."""
    return SAMPLES[kind]()


def zipped(files: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else method)
    return output.getvalue()


def changed(data: bytes, name: str, content: str | bytes) -> bytes:
    """The same archive with another content of one of its members."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    return zipped({**files, name: content})


def _saved(document: Any) -> bytes:
    output = io.BytesIO()
    document.save(output) if hasattr(document, "save") else document.write(output)
    return output.getvalue()
