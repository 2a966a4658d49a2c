"""Office documents, books and RTF, as Read shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.documents import kinds
from outrider.conversation.documents.kinds import suffix_of
from tests.coding.toolbox.file_tools import FileTools, shown_lines
from tests.conversation.documents.writers import SAMPLES, docx, made, zipped

READ_AS_TEXT = [kind for kind in SAMPLES if kind != kinds.NOTEBOOK]


@pytest.fixture
def tools(tmp_path: Path) -> FileTools:
    return FileTools(tmp_path)


@pytest.mark.parametrize("kind", READ_AS_TEXT)
def test_a_document_is_read_as_lines_and_says_how_to_get_the_file(tools: FileTools, kind: str) -> None:
    name = f"report{suffix_of(kind)}"
    (tools.folder / name).write_bytes(made(kind))
    result = tools.read(name)
    assert not result.is_error
    assert not result.attachments
    assert result.text.startswith("     1\t")
    assert "Zürich" in result.text or "Köln" in result.text
    assert (
        f"[This is the text of the {kinds.READABLE[kind]}, without layout and pictures. With original: true"
        in result.text
    )
    (attachment,) = tools.read(name, original=True).attachments
    assert tools.store.put(attachment).mime_type == kind


def test_offset_and_limit_count_lines_of_the_text(tools: FileTools) -> None:
    (tools.folder / "a.docx").write_bytes(docx())
    result = tools.read("a.docx", offset=7, limit=2)
    assert shown_lines(result.text) == ["- first", "- second"]
    assert "Read on with offset=9." in result.text
    past = tools.read("a.docx", offset=900)
    assert past.is_error
    assert "is past its end" in past.text


def test_a_long_document_is_read_in_parts(tools: FileTools) -> None:
    paragraphs = b"".join(b"line %d\\par " % number for number in range(3000))
    (tools.folder / "a.rtf").write_bytes(b"{\\rtf1 " + paragraphs + b"}")
    text = tools.read("a.rtf").text
    assert "more follows. Read on with offset=2001." in text
    assert "line 2999" in tools.read("a.rtf", offset=5999).text


def test_a_document_without_a_telling_name_is_known_by_its_parts(tools: FileTools) -> None:
    for kind in (kinds.DOCX, kinds.XLSX, kinds.PPTX, kinds.ODT, kinds.EPUB):
        (tools.folder / "download").write_bytes(made(kind))
        assert kinds.READABLE[kind] in tools.read("download").text
        stored = tools.store.put(Attachment(made(kind), kind))
        assert kinds.READABLE[kind] in tools.read(f"attachment:{stored.sha256}").text


def test_a_document_without_words_says_so(tools: FileTools) -> None:
    (tools.folder / "a.rtf").write_bytes(b"{\\rtf1 }")
    assert "has no text" in tools.read("a.rtf").text


def test_a_damaged_document_is_refused_in_words(tools: FileTools) -> None:
    (tools.folder / "a.docx").write_bytes(docx()[:-200])
    result = tools.read("a.docx")
    assert result.is_error
    assert result.text.startswith("a.docx cannot be read: it is not a readable Word document")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.zip", zipped({"a": "b"}), "No model takes such a file: unpack or convert it first."),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "convert it to a PDF first"),
        ("a.mp3", b"ID3\x04" + bytes(500), "With original: true the file itself is attached."),
    ],
)
def test_what_cannot_be_read_says_what_helps(tools: FileTools, name: str, data: bytes, said: str) -> None:
    (tools.folder / name).write_bytes(data)
    result = tools.read(name)
    assert result.is_error
    assert said in result.text


@pytest.mark.parametrize("kind", sorted(kinds.ZIPPED & SAMPLES.keys()))
def test_text_is_not_written_over_a_document_of_which_only_the_text_was_seen(tools: FileTools, kind: str) -> None:
    path = tools.folder / f"report{suffix_of(kind)}"
    path.write_bytes(made(kind))
    before = path.read_bytes()
    tools.read(path)
    assert not tools.seen(path)
    result = tools.write(path, "new text")
    assert result.is_error
    assert "would destroy" in result.text
    assert path.read_bytes() == before


def test_the_source_of_a_web_page_is_shown_so_that_it_can_be_edited(tools: FileTools) -> None:
    (tools.folder / "a.html").write_text("<h1>Riders</h1>\n")
    assert shown_lines(tools.read("a.html").text) == ["<h1>Riders</h1>"]
    assert not tools.edit("a.html", "Riders", "Trains").is_error


def test_text_in_utf_16_without_a_mark_is_read_and_kept_in_its_encoding(tools: FileTools) -> None:
    path = tools.folder / "a.txt"
    path.write_bytes("one line\r\ntwo lines\r\n".encode("utf-16-le"))
    assert shown_lines(tools.read("a.txt").text) == ["one line", "two lines"]
    assert not tools.edit("a.txt", "two", "2").is_error
    assert path.read_bytes() == "one line\r\n2 lines\r\n".encode("utf-16-le")
