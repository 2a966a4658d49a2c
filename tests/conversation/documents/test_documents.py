"""The text of documents that other libraries wrote."""

from __future__ import annotations

import io
import zipfile

import pytest

from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import GOES_ON, pieces, text_of
from outrider.errors import AttachmentError
from tests.conversation.documents import writers
from tests.conversation.documents.writers import SAMPLES, changed, shown, zipped


def test_a_word_document_is_headings_paragraphs_lists_and_tables() -> None:
    assert shown(writers.docx(), kinds.DOCX) == (
        "# Quarterly report\n\nRiders grew by 12 % in Zürich.\n\n## Towns\n\n- first\n- second\n1. one\n2. two\n\n"
        "| town | riders |\n| --- | --- |\n| Köln | 40\\|41 |\n\nThe end."
    )


def test_a_workbook_is_its_sheets_with_what_their_cells_show() -> None:
    assert shown(writers.xlsx(), kinds.XLSX) == (
        "## Riders\n\ntown,riders,since,share,open,at,seen\n"
        "Zürich,42,2024-02-29,0.3,TRUE,07:30:00,2024-01-02 03:04:05\n[3 empty rows]\n"
        '"say ""hi"", all",,=SUM(B2:B3)\n\n## Köln & more\n\n[1 empty row]\n,-1.5\n\n## Secret (hidden)'
    )


def test_a_presentation_is_slides_with_titles_text_tables_and_notes() -> None:
    assert shown(writers.pptx(), kinds.PPTX) == (
        "## Slide 1: Plans\n\n- grow\n  - in Zürich\n\nNotes: Say hello first.\n\n"
        "## Slide 2: Figures\n\n| town | riders |\n| --- | --- |\n| Köln | 40 |\n\nSource: us"
    )


def test_an_open_document_text_reads_like_a_word_document() -> None:
    assert shown(writers.odt(), kinds.ODT) == (
        "## Quarterly report\n\nRiders  grew in Zürich.\n\n- first\n- second\n\n"
        "| town | riders |\n| --- | --- |\n| Köln | 40 |"
    )


def test_a_million_empty_rows_of_a_sheet_are_one_line() -> None:
    assert shown(writers.ods(), kinds.ODS) == (
        '## Riders\n\ntown,riders\nKöln,"40, or so"\n[1,048,000 empty rows]\n1.5'
    )


def test_an_open_document_presentation_is_its_slides() -> None:
    assert shown(writers.odp(), kinds.ODP) == (
        "## Slide 1\n\n### Plans\n\ngrow in Zürich\n\n## Slide 2\n\n### Figures\n\n40"
    )


def test_a_book_is_its_chapters_in_reading_order() -> None:
    assert shown(writers.epub(), kinds.EPUB) == (
        "# The ride\n\nby A. Rider\n\n# One\n\nIt began in Zürich & went on.\n\n# Two\n\nIt ended in Köln."
    )


def test_rtf_is_its_words_without_control_words_in_every_charset() -> None:
    assert shown(writers.rtf(), kinds.RTF) == (
        "Riders in Zürich €5 {sic}\n\nSecond\nline bold\tend [note: a note].\n\nПривет\n\n"
        "| town | riders |\n| --- | --- |\n| Köln | 40 |\n\n😀 The end."
    )


def test_a_notebook_is_its_cells_with_their_output_and_without_the_bytes_of_pictures() -> None:
    assert shown(writers.ipynb(), kinds.NOTEBOOK) == (
        "--- cell 1: markdown ---\n# Riders\nin Zürich\n--- cell 2: code ---\nprint(40 + 2)\n"
        "--- output of cell 2 ---\n42\n--- output of cell 2 ---\n[image/png]\n<Figure>"
    )


# Word, more closely

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def word(body: str, **parts: str) -> str:
    files = {"word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>"}
    relations = ""
    for number, (kind, content) in enumerate(parts.items()):
        files[f"word/{kind}.xml"] = content
        relations += f'<Relationship Id="r{number}" Type="http://x/{kind}" Target="{kind}.xml"/>'
    files["word/_rels/document.xml.rels"] = f"<Relationships>{relations}</Relationships>"
    return shown(zipped(files), kinds.DOCX)


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def test_what_was_deleted_and_codes_of_fields_are_not_text() -> None:
    assert (
        word(
            f"<w:p>{run('kept ')}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins>{run('added')}</w:ins>"
            "<w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
        )
        == "kept added"
    )


def test_footnotes_and_comments_stand_after_the_text() -> None:
    text = word(
        f'<w:p>{run("Riders")}<w:r><w:footnoteReference w:id="2"/></w:r>'
        '<w:r><w:commentReference w:id="0"/></w:r></w:p>',
        footnotes=f'<w:footnotes {_W}><w:footnote w:type="separator" w:id="0"><w:p>{run("---")}</w:p></w:footnote>'
        f'<w:footnote w:id="2"><w:p>{run("those who ride")}</w:p></w:footnote></w:footnotes>',
        comments=f'<w:comments {_W}><w:comment w:id="0" w:author="Ann"><w:p>{run("really?")}</w:p></w:comment>'
        "</w:comments>",
    )
    assert text == "Riders[^2][comment 0]\n\n[^2]: those who ride\n[comment 0] (Ann): really?"


def test_merged_cells_keep_the_columns_in_line() -> None:
    text = word(
        f'<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:p>{run("both")}</w:p></w:tc>'
        f"<w:tc><w:p>{run('c')}</w:p></w:tc></w:tr><w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p>{run('x')}</w:p></w:tc>"
        f"<w:tc><w:p>{run('1')}</w:p><w:p>{run('2')}</w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>"
    )
    assert text == "| both |  | c |\n| --- | --- | --- |\n|  | 1 2 |  |"


def test_links_pictures_and_breaks_of_a_word_document_are_text() -> None:
    space = f'{_W} xmlns:r="http://x/relationships" xmlns:wp="http://x/drawing"'
    body = (
        f'<w:p><w:hyperlink r:id="out">{run("our page")}</w:hyperlink><w:hyperlink r:id="none">{run(" here")}'
        "</w:hyperlink><w:r><w:tab/><w:noBreakHyphen/></w:r><w:r><w:drawing><wp:inline>"
        '<wp:docPr descr="a chart"/></wp:inline></w:drawing></w:r><w:r><w:drawing><wp:docPr/></w:drawing></w:r></w:p>'
        "<w:p/>"
    )
    data = zipped(
        {
            "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": '<Relationships><Relationship Id="out" Type="http://x/hyperlink" '
            'Target="https://example.org" TargetMode="External"/></Relationships>',
        }
    )
    assert shown(data, kinds.DOCX) == "[our page](https://example.org) here\t-[picture: a chart]"


# Open documents, more closely


def open_document(body: str, kind: str = kinds.ODT) -> str:
    return shown(zipped({"mimetype": kind, "content.xml": f"<document><body>{body}</body></document>"}), kind)


def test_spaces_tabs_breaks_notes_and_pictures_of_an_open_document_are_text() -> None:
    text = open_document(
        '<p>a<s c="3"/>b<tab/>c<line-break/>d<note><p>aside</p></note>e<frame><desc>a chart</desc></frame>'
        "<tracked-changes><p>gone</p></tracked-changes></p>"
    )
    assert text == "a   b\tc\nd [aside\n] e [picture: a chart]"


def test_lists_in_lists_are_indented_and_empty_items_left_out() -> None:
    text = open_document(
        "<list><list-item><p>one</p><list><list-item><p>two</p></list-item></list></list-item>"
        "<list-item><p/></list-item></list>"
    )
    assert text == "- one\n  - two"


def test_notes_of_an_open_presentation_stand_after_the_slide() -> None:
    text = open_document("<page><p>Plans</p><notes><p>Say hello.</p></notes><notes><p/></notes></page>", kinds.ODP)
    assert text == "## Slide 1\n\nPlans\n\nNotes: Say hello."


# Workbooks, more closely


def test_numbers_are_shown_as_a_person_reads_them_and_shared_texts_are_found() -> None:
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    data = zipped(
        {
            "xl/workbook.xml": f'<workbook {space} xmlns:r="http://x/relationships">'
            '<workbookPr date1904="1"/><sheets><sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": "<Relationships>"
            '<Relationship Id="r1" Type="http://x/worksheet" Target="a.xml"/>'
            '<Relationship Id="r2" Type="http://x/sharedStrings" Target="/xl/s.xml"/>'
            '<Relationship Id="r3" Type="http://x/styles" Target="st.xml"/></Relationships>',
            "xl/s.xml": f"<sst {space}><si><t>plain</t></si><si><r><t>ri</t></r><r><t>ch</t></r>"
            "<rPh><t>spoken</t></rPh></si></sst>",
            "xl/st.xml": f'<styleSheet {space}><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
            '<numFmt numFmtId="165" formatCode="0.0 &quot;days&quot;"/></numFmts>'
            '<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>',
            "xl/a.xml": f'<worksheet {space}><sheetData><row r="1"><c r="A1" t="s"><v>1</v></c><c t="s"><v>0</v></c>'
            '<c t="s"><v>99</v></c><c r="F1"><v>1e3</v></c><c s="1"><v>0</v></c><c s="2"><v>1.50</v></c>'
            '<c t="e"><v>#DIV/0!</v></c><c t="str"><f>A1</f><v>cached</v></c><c><v>nan</v></c></row></sheetData>'
            "</worksheet>",
        }
    )
    line = shown(data, kinds.XLSX).splitlines()[-1]
    assert line == "rich,plain,,,,1000,00:00:00,1.5,#DIV/0!,cached,nan"


# What is wrong with a file


@pytest.mark.parametrize("kind", SAMPLES)
def test_something_else_under_the_label_of_a_document_is_refused_in_words(kind: str) -> None:
    for data in (b"", b"plain words", b"PK\x03\x04" + bytes(100), zipped({"a": "b"})):
        with pytest.raises(AttachmentError, match=f"it is not a readable {kinds.READABLE[kind]}"):
            shown(data, kind)


def test_a_document_that_breaks_off_is_shown_as_far_as_it_goes() -> None:
    data = writers.docx()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        whole = archive.read("word/document.xml")
    text = shown(changed(data, "word/document.xml", whole[: len(whole) * 2 // 3]), kinds.DOCX)
    assert text.startswith("# Quarterly report\n\nRiders grew")
    assert text.endswith("[The rest cannot be read: its XML is damaged.]")


def test_only_so_many_characters_are_given_and_the_rest_is_noted() -> None:
    text = text_of(writers.docx(), kinds.DOCX, 20)
    assert text == f"# Quarterly report\n\n\n\n{GOES_ON}"


def test_text_comes_piece_by_piece() -> None:
    found = pieces(io.BytesIO(writers.docx()), kinds.DOCX)
    assert next(found) == "# Quarterly report"
    assert next(found) == "\n\nRiders grew by 12 % in Zürich."


def test_a_book_that_is_locked_says_so() -> None:
    locked = changed(
        writers.epub(),
        "META-INF/encryption.xml",
        '<encryption><EncryptedData><CipherData><CipherReference URI="OEBPS/text/one.xhtml"/></CipherData>'
        "</EncryptedData></encryption>",
    )
    assert shown(locked, kinds.EPUB).endswith("[The rest cannot be read: it is encrypted with DRM.]")


def test_an_open_document_with_a_password_says_so() -> None:
    locked = changed(
        writers.odt(), "META-INF/manifest.xml", "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    )
    with pytest.raises(AttachmentError, match="locked with a password"):
        shown(locked, kinds.ODT)


def test_an_archive_with_a_password_says_so() -> None:
    data = bytearray(writers.docx())
    at = -1
    while (at := data.find(b"PK\x01\x02", at + 1)) >= 0:
        data[at + 8] |= 1  # the flag of encrypted members
    with pytest.raises(AttachmentError, match="locked with a password"):
        shown(bytes(data), kinds.DOCX)


def test_a_book_without_an_author_begins_with_its_title() -> None:
    with zipfile.ZipFile(io.BytesIO(writers.epub())) as archive:
        package = archive.read("OEBPS/book.opf").decode()
    text = shown(
        changed(writers.epub(), "OEBPS/book.opf", package.replace("<dc:creator>A. Rider</dc:creator>", "")), kinds.EPUB
    )
    assert text.startswith("# The ride\n\n# One")


def test_rtf_that_is_cut_off_odd_or_too_deep() -> None:
    assert shown(rb"{\rtf1\trowd\intbl town\cell riders\cell", kinds.RTF) == "| town | riders |\n| --- | --- |"
    assert shown(rb"{\rtf1 a}}}\! b {\*\x \'41 \{}c\u8364\'3f\'3fd}", kinds.RTF).startswith("a")
    assert shown(rb"{\rtf1 a{\*\x \'41\{b\~}c\u8364\{d}", kinds.RTF) == "ac€d"
    assert "nested too deeply" in _said_of(b"{\\rtf1 " + b"{" * 100_000)


def _said_of(data: bytes) -> str:
    try:
        return shown(data, kinds.RTF)
    except AttachmentError as error:
        return str(error)


def test_a_workbook_with_nothing_but_a_sheet_is_read() -> None:
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    data = zipped(
        {
            "xl/workbook.xml": f'<workbook {space} xmlns:r="http://x/relationships"><sheets>'
            '<sheet name="A" r:id="r1"/><sheet name="lost" r:id="r9"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": "<Relationships>"
            '<Relationship Id="r1" Type="http://x/worksheet" Target="a.xml"/></Relationships>',
            "xl/a.xml": f'<worksheet {space}><sheetData><row r="1"/><row r="2"><c><v>ten</v></c>'
            '<c t="inlineStr"/></row></sheetData></worksheet>',
        }
    )
    assert shown(data, kinds.XLSX) == "## A\n\n[1 empty row]\nten"


def test_pictures_of_slides_are_named_and_lost_slides_passed_over() -> None:
    data = zipped(
        {
            "ppt/presentation.xml": '<presentation xmlns:r="http://x/relationships"><sldIdLst><sldId r:id="r1"/>'
            '<sldId r:id="r9"/></sldIdLst></presentation>',
            "ppt/_rels/presentation.xml.rels": "<Relationships>"
            '<Relationship Id="r1" Type="http://x/slide" Target="s.xml"/></Relationships>',
            "ppt/s.xml": '<sld><pic><nvPicPr><cNvPr descr="a chart"/></nvPicPr></pic><pic/>'
            '<sp><nvSpPr><nvPr><ph type="sldNum"/></nvPr></nvSpPr></sp></sld>',
        }
    )
    assert shown(data, kinds.PPTX) == "## Slide 1\n\n[picture: a chart]"
