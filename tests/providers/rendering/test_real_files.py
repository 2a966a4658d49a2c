"""Files as they really come, with wrong labels and old encodings, reach every model in a form that it takes."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.providers.base import Request
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import PDF_BYTES, PNG_BYTES


def sent(case: Case, attachment: Attachment) -> str:
    """The request with the attachment in a result."""
    store = MemoryStore()
    asked = Message.assistant(ToolUseBlock("c", "look", {}))
    result = Message.user(ToolResultBlock("c", (store.put(attachment),)))
    return case.adapter().render(Request([Message.user("Look."), asked, result], store)).decode()


@each(*ONE_EACH)
@pytest.mark.parametrize("label", ["application/octet-stream", "binary/octet-stream", ""])
def test_a_label_that_says_nothing_hides_nothing(case: Case, label: str) -> None:
    assert base64.b64encode(PNG_BYTES).decode() in sent(case, Attachment(PNG_BYTES, label))
    assert base64.b64encode(PDF_BYTES).decode() in sent(case, Attachment(PDF_BYTES, label))


def test_a_charset_of_what_is_no_text_changes_nothing() -> None:
    data = bytes(range(128, 256)) * 9
    for kind in ("application/x-unheard-of", "audio/mpeg"):
        assert b"".join(Attachment(data, f"{kind}; charset=koi8-r").chunks()) == data


@each(*ONE_EACH)
@pytest.mark.parametrize("before", [b"\r\n", b"\0" * 9])
def test_a_pdf_is_sent_from_its_first_byte(case: Case, before: bytes) -> None:
    for label in ("", "application/pdf", "application/x-pdf"):
        assert base64.b64encode(PDF_BYTES).decode() in sent(case, Attachment(before + PDF_BYTES, label))


@each(*ONE_EACH)
@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO"])
def test_pictures_in_old_formats_are_sent_as_png(case: Case, kind: str) -> None:
    output = io.BytesIO()
    Image.new("RGB", (16, 16)).save(output, kind)
    body = sent(case, Attachment(output.getvalue()))
    assert "iVBORw0KGgo" in body
    assert "cannot be shown" not in body


@each(*ONE_EACH)
@pytest.mark.parametrize(
    ("text", "codec"),
    [("Привет, мир", "windows-1251"), ("コーヒー", "shift_jis"), ("咖啡", "gbk"), ("Ελλάδα", "utf-16-le")],
)
def test_text_in_a_declared_charset_is_readable(case: Case, text: str, codec: str) -> None:
    assert text in sent(case, Attachment(text.encode(codec), f"text/plain; charset={codec}", "a.txt"))
    page = f"<p>{text}</p>"
    assert page in sent(case, Attachment(page.encode(codec), f"text/html; charset={codec}", "a.html"))
