"""Office documents, books and notebooks: the file where an API takes it, else its text. Never only a note."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.documents import kinds
from outrider.conversation.documents.kinds import suffix_of
from outrider.conversation.messages import AttachmentBlock, Message, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.providers.base import Request
from outrider.providers.catalogue.capabilities import Capabilities
from tests.adapters import ALL, ONE_EACH, Case, each_at_length
from tests.conversation.documents.writers import SAMPLES, made
from tests.conversations import result
from tests.providers.rendering.test_render import render, stored, words

TOWN = "Zürich"
SENT_AS_FILES = (kinds.DOCX, kinds.XLSX, kinds.PPTX)


def conversation(file: AttachmentBlock) -> list[Message]:
    """A person sends a file, and a tool gives it back."""
    call = ToolUseBlock("c1", "read", {})
    return [Message.user("Look:", file), Message.assistant(call), Message.user(result("c1", "Read it:", file))]


def body_for(case: Case, data: bytes, kind: str) -> Any:
    store = MemoryStore()
    file = store.put(Attachment(data, kind, f"report{suffix_of(kind)}"))
    return msgspec.json.decode(case.adapter().render(Request(tuple(conversation(file)), store)))


@each_at_length(*ALL)
@pytest.mark.parametrize("kind", SAMPLES)
def test_every_model_gets_the_file_or_its_text_twice(case: Case, kind: str) -> None:
    data = made(kind)
    text = msgspec.json.encode(body_for(case, data, kind)).decode()
    encoded = base64.b64encode(data).decode()
    takes = case.name == "openai/gpt-5.6" and kind in SENT_AS_FILES
    assert text.count(encoded) == (2 if takes else 0)
    if not takes:
        assert text.count(TOWN) + text.count("K\u00f6ln") >= 2
        assert "cannot be shown" not in text


@pytest.mark.parametrize("kind", SENT_AS_FILES)
def test_responses_gets_an_input_file_in_the_result_and_in_what_is_said(kind: str) -> None:
    body = body_for(ONE_EACH[1], made(kind), kind)
    said, _, output = body["input"]
    for part in (said["content"][-1], output["output"][-1]):
        assert part["type"] == "input_file"
        assert part["filename"] == f"report{suffix_of(kind)}"
        assert part["file_data"].startswith(f"data:{kind};base64,")


def test_a_file_without_a_telling_name_gets_one_that_says_what_it_is() -> None:
    block, store = stored(made(kinds.DOCX), kinds.DOCX, "report")
    (part,) = render(Capabilities(document="native"), result("c1", block), store=store).results[0].files
    assert part.filename == "report.docx"


@pytest.mark.parametrize("placement", ["native", "text"])
def test_a_document_that_cannot_be_opened_is_a_note_and_never_sent(placement: Any) -> None:
    block, store = stored(b"PK\x03\x04 broken", kinds.DOCX, "a.docx")
    (only,) = render(Capabilities(document=placement), result("c1", block), store=store).results
    assert not only.files
    assert "a.docx" in only.text
    assert "cannot be shown: it is not a readable Word document" in only.text


OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


def test_an_old_office_document_goes_as_a_file_or_becomes_a_note_that_says_what_to_do() -> None:
    block, store = stored(OLD, kinds.DOC, "a.doc")
    assert render(Capabilities(document="native"), result("c1", block), store=store).results[0].files
    (only,) = render(Capabilities(), result("c1", block), store=store).results
    assert "convert it to a PDF" in only.text


def test_a_document_without_words_says_so() -> None:
    block, store = stored(b"{\\rtf1 }", kinds.RTF, "a.rtf")
    assert render(Capabilities(), block, store=store).content == ("a.rtf: (no text)",)


def test_the_text_of_a_document_is_limited() -> None:
    block, store = stored(b"{\\rtf1 " + b"word " * 1000 + b"}", kinds.RTF, "a.rtf")
    (said,) = render(Capabilities(text_characters=100), block, store=store).content
    assert isinstance(said, str)
    assert len(said) < 250
    assert "this is its beginning" in said


def test_a_web_page_is_its_source_unless_that_is_too_long() -> None:
    page = "<html><body>" + "<div><span></span></div>" * 50 + "<h1>Riders</h1><p>in Zürich</p></body></html>"
    block, store = stored(page.encode("utf-16"), "text/html", "a.html")
    assert "<h1>Riders</h1>" in words(render(Capabilities(), block, store=store).content)
    shortened = words(render(Capabilities(text_characters=200), block, store=store).content)
    assert "# Riders\n\nin Zürich" in shortened
    assert "<span>" not in shortened


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "cp1252"])
def test_text_arrives_as_text_whatever_its_encoding(codec: str) -> None:
    block, store = stored("Riders of Zürich, déjà vu\n".encode(codec), "text/plain", "a.txt")
    assert words(render(Capabilities(), block, store=store).content) == "a.txt:\nRiders of Zürich, déjà vu\n"


def test_no_nul_character_is_ever_sent() -> None:
    block, store = stored(b"x" * 5000 + b"\0\0", "text/plain", "a.txt")
    assert "\0" not in words(render(Capabilities(), block, store=store).content)


def test_a_damaged_pdf_is_read_without_a_word_on_the_terminal() -> None:
    program = (
        "from tests.conversations import PDF_BYTES\nfrom outrider.providers.rendering.documents import pdf_text\n"
        "broken = PDF_BYTES.replace(b'xref', b'xrfe').replace(b'startxref', b'startxerf')\n"
        "for data in (broken, PDF_BYTES[:-30], PDF_BYTES.replace(b'/Type', b'/Tpye')):\n"
        "    try:\n        pdf_text(data)\n    except Exception:\n        pass\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
