"""Attachments: read late, limited in size, verified against their label."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.attachments import CHUNK, MAX_BYTES, Attachment, sha256
from outrider.conversation.documents import charsets
from outrider.conversation.encodings import decoded
from outrider.conversation.mime_types import sniff
from outrider.conversation.store import MemoryStore
from outrider.errors import AttachmentError

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n....",
    "image/jpeg": b"\xff\xd8\xff\xe0....",
    "image/gif": b"GIF89a....",
    "image/webp": b"RIFF\x00\x01\x02\x03WEBPVP8 ",
    "image/bmp": b"BM\x36\x00\x00\x00\x00\x00\x00\x00....",
    "image/tiff": b"II*\x00....",
    "image/vnd.microsoft.icon": b"\x00\x00\x01\x00\x01\x00\x10\x10\x00\x00....",
    "audio/wav": b"RIFF\x00\x01\x02\x03WAVEfmt ",
    "video/mp4": b"\x00\x00\x00\x18ftypmp42",
    "application/pdf": b"%PDF-1.7\n",
    "application/zip": b"PK\x03\x04....",
    "application/gzip": b"\x1f\x8b\x08....",
    "audio/mpeg": b"ID3\x04\x00....",
    "audio/ogg": b"OggS\x00....",
    "audio/flac": b"fLaC\x00....",
    "application/x-executable": b"\x7fELF\x02\x01\x01",
}
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"


def told(content: bytes, name: str = "", label: str = "") -> str:
    return Attachment(content, label, name).type_of(content[:4096])


# Nothing is read too early


def test_making_an_attachment_reads_nothing(tmp_path: Path) -> None:
    attachment = Attachment.from_path(tmp_path / "later.txt")
    (tmp_path / "later.txt").write_bytes(b"now it is there")
    assert b"".join(attachment.chunks()) == b"now it is there"


def test_a_file_is_called_by_its_own_name_unless_it_is_given_another() -> None:
    assert Attachment.from_path("some/folder/q3.pdf").name == "q3.pdf"
    given_name = Attachment.from_path("some/folder/q3.pdf", "application/pdf", name="Q3", description="the report")
    assert given_name == Attachment(Path("some/folder/q3.pdf"), "application/pdf", "Q3", "the report")


def test_a_path_may_be_a_string_or_a_path() -> None:
    assert Attachment.from_path("a/b.txt") == Attachment.from_path(Path("a") / "b.txt")


def test_an_attachment_is_called_by_its_name_then_by_its_path() -> None:
    assert Attachment(b"", name="a.png").label == "a.png"
    assert Attachment(Path("b.png")).label == "b.png"
    assert Attachment(b"").label == "the attachment"


# Bytes


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_the_pieces_together_are_the_bytes(tmp_path: Path, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    (tmp_path / "file").write_bytes(data)
    for source in (data, tmp_path / "file"):
        pieces = list(Attachment(source).chunks())
        assert b"".join(pieces) == data
        assert all(0 < len(piece) <= CHUNK for piece in pieces)


@pytest.mark.parametrize("on_disk", [True, False], ids=["file", "bytes"])
def test_exactly_at_the_limit_is_taken_and_one_over_is_refused(tmp_path: Path, on_disk: bool) -> None:
    (tmp_path / "ten").write_bytes(b"0123456789")
    attachment = Attachment.from_path(tmp_path / "ten") if on_disk else Attachment(b"0123456789", name="ten")
    assert b"".join(attachment.chunks(max_bytes=10)) == b"0123456789"
    with attachment.open(max_bytes=10) as file:
        assert file.read() == b"0123456789"
    for read in (attachment.open, lambda max_bytes: list(attachment.chunks(max_bytes))):
        with pytest.raises(AttachmentError, match="ten has 10 bytes; the limit is 9 bytes"):
            read(max_bytes=9)


def test_the_default_limit_is_20_mib_and_counts_exactly(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES)
    Attachment.from_path(path).open().close()
    with path.open("r+b") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(AttachmentError, match="large"):
        Attachment.from_path(path).open()
    assert MAX_BYTES == 20 * 1024 * 1024


def test_a_file_just_over_the_limit_is_told_by_how_much(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(AttachmentError) as error:
        Attachment.from_path(path).open()
    has, _, limit = str(error.value).partition("; the limit is ")
    assert not has.endswith(limit.removesuffix(" (limits.attachment_bytes)"))


def test_a_limit_of_nothing_still_takes_an_empty_file() -> None:
    assert list(Attachment(b"").chunks(max_bytes=0)) == []


# Types


@pytest.mark.parametrize("mime_type", HEADS)
def test_the_first_bytes_tell_the_type(mime_type: str) -> None:
    assert sniff(HEADS[mime_type]) == mime_type


@pytest.mark.parametrize("head", [b"", b"hello", b"\x89PNG", b"RIFF", b"%PD", b"\x00\x01\x02\x03", b"{}"])
def test_bytes_that_show_nothing_are_not_guessed(head: bytes) -> None:
    assert sniff(head) is None


@given(st.binary(max_size=20))
def test_any_bytes_have_a_type_when_nothing_is_promised(data: bytes) -> None:
    assert "/" in told(data)


def test_content_counts_for_more_than_the_name() -> None:
    assert told(HEADS["image/jpeg"], "chart.png") == "image/jpeg"


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("a.md", "text/markdown"),
        ("A.CSV", "text/csv"),
        ("a.json", "application/json"),
        ("page.html", "text/html"),
        ("archive.tar.txt", "text/plain"),
        ("no suffix", "text/plain"),
        ("a.unheard-of", "text/plain"),
    ],
)
def test_the_name_tells_the_type_of_content_that_shows_nothing(name: str, mime_type: str) -> None:
    assert told(b"a,b\n1,2\n", name) == mime_type


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (b"", "text/plain"),
        ("hé".encode(), "text/plain"),
        (b"a\0b", "application/octet-stream"),
        ("hé".encode("utf-16"), "text/plain"),
        ("hello".encode("utf-16-le"), "text/plain"),
        (b"\x01\x00\x02\x00\x03\x00\x04\x00", "application/octet-stream"),
        (b"latin-1: \xe9 and more", "text/plain"),
        (b"\x8b\x01\x02\x03\x04", "application/octet-stream"),
        (b"x" * 4095 + "é".encode(), "text/plain"),
        (b"x" * 4094 + "😀".encode(), "text/plain"),
    ],
    ids=[
        "empty",
        "utf-8",
        "nul",
        "utf-16",
        "unmarked",
        "numbers",
        "latin-1",
        "other",
        "2-byte cut",
        "4-byte cut",
    ],
)
def test_unknown_content_without_a_name_is_text_if_it_can_be(data: bytes, mime_type: str) -> None:
    assert told(data) == mime_type


def test_a_label_is_kept_without_its_parameters_and_in_lower_case() -> None:
    assert told(b"x", label=" Text/Plain; charset=latin-1") == "text/plain"
    assert told(HEADS["image/png"], label="IMAGE/PNG") == "image/png"


def test_a_label_counts_for_more_than_the_name() -> None:
    assert told(b"{}", "a.txt", "application/json") == "application/json"


@pytest.mark.parametrize(("name", "mime_type"), [("a.docx", DOCX), ("a.xlsx", XLSX), ("a.pptx", PPTX)])
def test_an_office_document_is_told_from_any_other_zip_by_its_name(name: str, mime_type: str) -> None:
    assert told(HEADS["application/zip"], name) == mime_type


@pytest.mark.parametrize("name", ["a.zip", "", "a.png"])
def test_a_zip_without_an_office_name_is_a_zip(name: str) -> None:
    assert told(HEADS["application/zip"], name) == "application/zip"


@pytest.mark.parametrize(
    "words", [b"The ftyp box of a film", b"Notes onWEBP pictures", b"MZ is a region", b"ID3 tags hold the artist"]
)
def test_a_text_that_happens_to_have_the_letters_of_a_signature_is_a_text(words: bytes) -> None:
    assert told(words, "notes.txt") == "text/plain"


TEXT = "Привет, мир"
BINARY = b"\x8b\x01\x02\x03\x04" * 9


@pytest.mark.parametrize(
    ("text", "codec", "charset"),
    [
        (TEXT, "cp1251", "windows-1251"),
        (TEXT, "koi8-r", '"KOI8-R"'),
        (TEXT, "utf-16-le", "utf-16"),
        (TEXT, "utf-16-be", "utf-16be"),
        ("hello there", "utf-16-be", "utf-16"),
        (TEXT, "utf-16", "utf-16"),
        ("コーヒーと紅茶", "shift_jis", "Shift_JIS"),
        ("咖啡和茶", "gbk", "gb2312"),
        ("커피와 차", "euc_kr", "euc-kr"),
        ("Zürich “café”", "cp1252", "iso-8859-1"),
        (TEXT, "utf-8", "windows-1251"),
        (TEXT, "utf-8", "unheard-of"),
        ("Zürich", "latin-1", "unheard-of"),
        ("Zürich", "latin-1", "utf-8"),
        ("Zurich\n", "ascii", "utf-16"),
    ],
)
def test_a_declared_charset_counts_unless_it_is_wrong(text: str, codec: str, charset: str) -> None:
    store = MemoryStore()
    for kind in ("text/plain", "text/html", ""):
        block = store.put(Attachment(text.encode(codec), f"{kind}; Charset={charset}", "a.txt"))
        assert block.mime_type == (kind or "text/plain")
        assert decoded(store.read(block)) == text


def test_a_page_in_a_declared_charset_may_name_it() -> None:
    store = MemoryStore()
    page = f'<meta charset="windows-1251"><p>{TEXT}</p>'
    block = store.put(Attachment(page.encode("cp1251"), "text/html; charset=windows-1251"))
    assert charsets.decoded(store.read(block), is_html=True) == page


@pytest.mark.parametrize("data", [HEADS["image/png"], HEADS["application/pdf"], BINARY, b"\0\1\2" * 9])
def test_a_charset_does_not_make_other_bytes_text(data: bytes) -> None:
    with pytest.raises(AttachmentError, match="is labelled text/plain but is"):
        MemoryStore().put(Attachment(data, "text/plain; charset=latin-1"))


# Labels that say nothing


@pytest.mark.parametrize("label", ["", "application/octet-stream", "binary/octet-stream", "application/force-download"])
@pytest.mark.parametrize("mime_type", HEADS)
def test_the_content_tells_the_type_if_the_label_says_nothing(label: str, mime_type: str) -> None:
    assert told(HEADS[mime_type], label=label) == mime_type
    assert told(b"plain words", label=label) == "text/plain"
    assert told(b"a\0b", label=label) == "application/octet-stream"


@pytest.mark.parametrize(
    ("label", "mime_type"),
    [
        ("application/x-pdf", "application/pdf"),
        ("image/jpg", "image/jpeg"),
        ("image/x-png", "image/png"),
        ("image/x-ms-bmp", "image/bmp"),
        ("image/x-icon", "image/vnd.microsoft.icon"),
    ],
)
def test_other_names_of_a_type_are_known(label: str, mime_type: str) -> None:
    assert told(HEADS[mime_type], label=label) == mime_type


@pytest.mark.parametrize("before", [b"\n", b"\xef\xbb\xbf", b"\0\0 \r\n", b"HTTP/1.1 200 OK\r\n\r\n\xe2"])
def test_a_pdf_may_begin_after_a_few_bytes(before: bytes) -> None:
    data = before + b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n"
    assert told(data) == told(data, label="application/pdf") == told(data, "a.bin") == "application/pdf"


@pytest.mark.parametrize("text", ["MAGIC = '%PDF-1.7'", "A PDF begins with %PDF-1.7 and has 1 0 obj. Größe"])
def test_a_text_that_mentions_pdfs_is_a_text(text: str) -> None:
    assert told(text.encode()) == "text/plain"
    assert told(text.replace(" obj", "").encode("latin-1")) == "text/plain"


@pytest.mark.parametrize(("folder", "mime_type"), [("word", DOCX), ("xl", XLSX), ("ppt", PPTX)])
def test_an_office_document_needs_no_name(folder: str, mime_type: str) -> None:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for part in ("[Content_Types].xml", "_rels/.rels", f"{folder}/main.xml"):
            archive.writestr(part, "<x/>")
    for name in ("", "letter", "letter.bin"):
        assert told(output.getvalue()[:4096], name) == mime_type


# Labels


@pytest.mark.parametrize(
    "label", ["not a mime", "png", "image/", "/png", "image/png/x", "image\n/png", "ïmage/png", "*/*"]
)
def test_a_label_that_is_no_mime_type_is_refused_with_what_to_do(label: str) -> None:
    with pytest.raises(AttachmentError, match="not a MIME type; write it as in image/png, or leave it out"):
        told(b"x", label=label)


@pytest.mark.parametrize("mime_type", HEADS)
@pytest.mark.parametrize("head", [b"\x7fELF\x02\x01\x01\0", b"plain words", b"PK\x03\x04...."])
def test_every_type_that_can_be_told_is_verified(mime_type: str, head: bytes) -> None:
    assert told(HEADS[mime_type], label=mime_type) == mime_type
    if sniff(head) != mime_type and (mime_type, sniff(head)) != ("audio/mpeg", None):
        with pytest.raises(AttachmentError, match=f"is labelled {mime_type} but is"):
            told(head, label=mime_type)


TEXTS = ["text/plain", "text/csv", "text/html", "application/json", "image/svg+xml", "application/ld+json"]


@pytest.mark.parametrize("label", TEXTS)
@pytest.mark.parametrize(
    "head", [b"\x7fELF\x02\x01\x01\0", b"%PDF-1.7\n%\xe2\xe3", b"a\0b", b"\x8b\x01\x02\x03\x04", b"\xff\xd8\xff\xe0.."]
)
def test_a_text_label_must_hold_text(label: str, head: bytes) -> None:
    with pytest.raises(AttachmentError, match=re.escape(f"is labelled {label} but is")):
        told(head, label=label)


@pytest.mark.parametrize("label", TEXTS)
@pytest.mark.parametrize("text", ["", "hé", "GIF89a is a format", "MZ", "x" * 5000])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "utf-8-sig", "latin-1"])
def test_text_in_any_usual_encoding_may_be_labelled_so(label: str, text: str, codec: str) -> None:
    assert told(text.encode(codec), label=label) == label


@pytest.mark.parametrize(
    ("label", "head"),
    [
        (DOCX, HEADS["application/zip"]),
        ("model/3mf", HEADS["application/zip"]),
        ("video/quicktime", b"\0\0\0\x14ftypqt  "),
        ("image/heic", b"\0\0\0\x18ftypmif1"),
        ("audio/mpeg", b"\xff\xfb\x90\x00"),
        ("application/vnd.unheard-of", HEADS["application/x-executable"]),
        ("image/x-unheard-of", b"\x01\x02\x03\x04\x00"),
    ],
)
def test_a_label_that_the_content_does_not_belie_is_kept(label: str, head: bytes) -> None:
    assert told(head, label=label) == label


@pytest.mark.parametrize("label", ["image/x-unheard-of", "audio/x-unheard-of", DOCX, "video/mp4"])
def test_a_program_is_taken_for_nothing_else(label: str) -> None:
    with pytest.raises(AttachmentError, match="but is application/x-executable"):
        told(HEADS["application/x-executable"], label=label)


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("application/vnd.oasis.opendocument.text", ".odt"),
        ("application/vnd.oasis.opendocument.spreadsheet", ".ods"),
        ("application/epub+zip", ".epub"),
    ],
)
def test_an_archive_that_says_what_it_is_needs_no_name(kind: str, suffix: str) -> None:
    head = b"PK\x03\x04" + bytes(26) + b"mimetype" + kind.encode()
    assert told(head) == told(head, label=kind) == told(HEADS["application/zip"], f"a{suffix}") == kind
    with pytest.raises(AttachmentError, match="is labelled"):
        told(head, label=DOCX)


def test_a_name_that_promises_text_does_not_make_other_bytes_text() -> None:
    assert told(b"\0\x01\x02", "notes.txt") == "application/octet-stream"
    assert told(b"plain words", "letter.docx") == "text/plain"


def test_the_hash_is_the_one_that_everybody_uses() -> None:
    assert sha256(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
