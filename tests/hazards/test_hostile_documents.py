"""Hazard: a document that is damaged, or made to hurt. It may unpack to any size, nest, or name its own entities."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.conversation.documents import archive, blocks, kinds
from outrider.conversation.documents.document import GOES_ON
from outrider.errors import AttachmentError
from tests.conversation.documents.writers import SAMPLES, changed, made, shown, zipped
from tests.lengths import examples

XML = {
    kinds.DOCX: "word/document.xml",
    kinds.XLSX: "xl/worksheets/sheet1.xml",
    kinds.PPTX: "ppt/slides/slide1.xml",
    kinds.ODT: "content.xml",
    kinds.ODS: "content.xml",
    kinds.EPUB: "OEBPS/book.opf",
}
SECONDS = 60
"""Far more than it takes, on any machine: what these files are made for takes hours."""


def read(data: bytes, kind: str) -> str:
    """The text, or what is wrong: never anything else, and within bounds."""
    begun = time.process_time()
    try:
        text = shown(data, kind)
    except AttachmentError as error:
        text = str(error)
    assert time.process_time() - begun < SECONDS
    text.encode()
    assert "\0" not in text
    return text


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_bytes_that_were_changed_never_break_a_reader(kind: str, data: st.DataObject) -> None:
    damaged = bytearray(made(kind))
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(damaged[: data.draw(st.integers(1, len(damaged)))] if data.draw(st.booleans()) else damaged), kind)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(XML)), st.data())
def test_xml_that_was_changed_never_breaks_a_reader(kind: str, data: st.DataObject) -> None:
    with zipfile.ZipFile(io.BytesIO(made(kind))) as archive:
        part = archive.read(XML[kind])
    at = data.draw(st.integers(0, len(part)))
    put = data.draw(st.sampled_from([b"", b"<", b">", b'"', b"&x;", b"<a>", b"</a>", b"\0", b"\xff", b"9" * 12, b"-1"]))
    cut = data.draw(st.integers(0, 20))
    read(changed(made(kind), XML[kind], part[:at] + put + part[at + cut :]), kind)


RTF = [
    *("{", "}", "\\par ", "\\u-10179?", "\\u55357", "\\'ff", "\\'8", "\\bin3 ", "\\bin999999999 ", "\\uc99 ", "\\f7 "),
    *("\\*", "\\cell", "\\row", "\\intbl ", "\\ansicpg99999 ", "\\ansicpg0 ", "\\pict ", "text", "\\", "\n", "\0"),
    *("ü", "\\fcharset128 ", "\\footnote "),
]


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(RTF), max_size=40))
def test_any_rtf_is_read(tokens: list[str]) -> None:
    read(b"{\\rtf1 " + "".join(tokens).encode("latin-1"), kinds.RTF)


@given(st.binary(max_size=300))
def test_any_bytes_are_no_notebook_or_one(data: bytes) -> None:
    read(data, kinds.NOTEBOOK)


# Entities


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", XML)
def test_entities_that_grow_without_end_are_not_expanded(kind: str) -> None:
    lines = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 30))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{lines}]><x>&e29;</x>'
    assert "document type declaration" in read(changed(made(kind), XML[kind], bomb), kind)


def test_an_entity_that_names_a_file_is_not_followed() -> None:
    trick = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x><p>&e;</p></x>'
    text = read(changed(made(kinds.ODT), "content.xml", trick), kinds.ODT)
    assert "root:" not in text
    assert "document type declaration" in text


# Size


def bomb(name: str, begin: bytes, filling: bytes, size: int) -> bytes:
    """An archive with a member that is small packed and large unpacked."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as member:
        member.write(begin)
        for _ in range(size // (len(filling) * 4096)):
            member.write(filling * 4096)
    return output.getvalue()


_W = b'<w:document xmlns:w="w"><w:body>'
_PARAGRAPH = b"<w:p><w:r><w:t>word </w:t></w:r></w:p>"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("begin", "filling", "said"),
    [
        (_W, _PARAGRAPH, GOES_ON),
        (_W, b"<w:x/>", "too large"),
        (_W + b"<w:p>", b"<w:r><w:t>word </w:t></w:r>", "too large"),
        (_W + b"<w:p><w:r><w:t>", b"word and word and word\n", "too large"),
        (_W + b'<w:p a="', b"word ", "too large"),
        (_W, b" ", "too large"),
    ],
    ids=["paragraphs", "empty elements", "one paragraph", "one text", "one attribute", "spaces"],
)
def test_a_small_file_that_unpacks_to_a_large_one_is_given_up_early(
    begin: bytes, filling: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BYTES", 4 * 1024 * 1024)  # in proportion: watching memory takes time
    monkeypatch.setattr(blocks, "ELEMENTS", 100_000)
    monkeypatch.setattr(archive, "LARGEST", 20_000)
    monkeypatch.setattr(archive, "CHARACTERS", 500_000)
    data = bomb("word/document.xml", begin, filling, 8 * blocks.BYTES)
    tracemalloc.start()
    try:
        text = read(data, kinds.DOCX)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert said in text
    assert peak < 8 * blocks.BYTES


def test_elements_nested_without_end_are_refused() -> None:
    deep = _W.decode() + "<w:p>" * 100_000
    assert "nested too deeply" in read(zipped({"word/document.xml": deep}), kinds.DOCX)
    assert "nested too deeply" in read(b"{\\rtf1 " + b"{" * 100_000, kinds.RTF)


def test_a_list_of_members_that_is_huge_is_not_read() -> None:
    data = zipped({"word/document.xml": "<x/>"})
    end = data.rindex(b"PK\x05\x06")
    claim = struct.pack("<II", 8 * 1024 * 1024, 0)
    lying = data[:end] + bytes(8 * 1024 * 1024) + data[end : end + 12] + claim + data[end + 20 :]
    assert "too many parts" in read(lying, kinds.DOCX)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_packing_that_no_office_program_uses_is_refused(method: int) -> None:
    assert "compression method" in read(zipped({"word/document.xml": "<x/>"}, method), kinds.DOCX)


def test_a_sheet_that_repeats_its_cells_without_end_stays_small() -> None:
    row = '<table:table-row table:number-rows-repeated="9999999">'
    row += '<table:table-cell table:number-columns-repeated="9999999">'
    row += "<text:p>x</text:p></table:table-cell></table:table-row>"
    sheet = f'<x xmlns:table="t" xmlns:text="x"><table:table table:name="A">{row * 50}</table:table></x>'
    text = read(changed(made(kinds.ODS), "content.xml", sheet), kinds.ODS)
    assert "[the same row 9,999,899 more times]" in text
    assert len(text) <= blocks.CHARACTERS


def test_a_cell_at_the_end_of_the_sheet_makes_one_line() -> None:
    cells = '<c r="XFD1"><v>1</v></c><c r="ZZZ1"><v>2</v></c>'
    part = f"<worksheet><sheetData><row>{cells}</row></sheetData></worksheet>"
    assert len(read(changed(made(kinds.XLSX), XML[kinds.XLSX], part), kinds.XLSX)) < 20_000


def test_a_part_that_is_not_in_the_archive_leads_nowhere() -> None:
    relation = '<Relationship Id="r" Type="x/officeDocument" Target="../../../../etc/passwd"/>'
    relations = f"<Relationships>{relation}</Relationships>"
    assert "it has no part" in read(changed(made(kinds.DOCX), "_rels/.rels", relations), kinds.DOCX)


@pytest.mark.long
def test_lists_without_end_are_read_in_their_length() -> None:
    # Each paragraph is a list of its own: what is kept of them must not be gone through for each.
    items = "".join(
        f'<w:p><w:pPr><w:numPr><w:ilvl w:val="3"/><w:numId w:val="{n}"/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>'
        for n in range(1, 40_000)
    )
    assert "1. x" in read(zipped({"word/document.xml": _W.decode() + items + "</w:body></w:document>"}), kinds.DOCX)
