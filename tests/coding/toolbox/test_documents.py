"""PDFs: text by page, or the file itself."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

import outrider
from outrider.conversation.messages import AttachmentBlock
from outrider.testing import call
from tests.coding.toolbox.file_tools import FileTools
from tests.watching import Watched

SAMPLE = Path(outrider.__file__).parent / "cli/sample/report.pdf"


@pytest.fixture
def tools(tmp_path: Path) -> FileTools:
    return FileTools(tmp_path)


def made(path: Path, *, copies: int = 0, blanks: int = 0, password: str | None = None) -> Path:
    """A PDF of so many copies of the first page of the sample, and so many blank pages."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter()
    for _ in range(copies):
        writer.add_page(PdfReader(SAMPLE).pages[0])
    for _ in range(blanks):
        writer.add_blank_page(200, 200)
    if password is not None:
        writer.encrypt(password, "owner", algorithm="RC4-128")
    with path.open("wb") as file:
        writer.write(file)
    return path


def sample_text() -> str:
    from pypdf import PdfReader

    return PdfReader(SAMPLE).pages[0].extract_text().strip()


def test_a_pdf_is_read_as_the_text_of_its_pages_and_says_how_to_get_the_file(tools: FileTools) -> None:
    made(tools.folder / "a.pdf", copies=2)
    result = tools.read("a.pdf")
    assert not result.is_error
    assert not result.attachments
    first, second = (f"--- page {number} of 2 ---\n{sample_text()}" for number in (1, 2))
    assert result.text == f"{first}\n{second}\n[With original: true the PDF itself is attached.]"
    assert sample_text()
    assert tools.progress == ["page 1 of 2", "page 2 of 2"]
    assert tools.seen("a.pdf")


def test_original_attaches_the_pdf_itself(tools: FileTools) -> None:
    path = made(tools.folder / "a.pdf", copies=1)
    result = tools.read("a.pdf", original=True)
    (attachment,) = result.attachments
    assert attachment.source == path
    assert result.text.startswith("a.pdf: application/pdf, ")
    assert "page" not in result.text


def test_offset_and_limit_count_pages(tools: FileTools) -> None:
    made(tools.folder / "a.pdf", copies=3)
    text = tools.read("a.pdf", offset=2, limit=1).text
    assert "--- page 2 of 3 ---" in text
    assert "--- page 1 of 3 ---" not in text
    assert "Read on with offset=3." in text
    past = tools.read("a.pdf", offset=4)
    assert past.is_error
    assert "has 3 pages" in past.text


def test_a_long_pdf_is_read_in_parts(tools: FileTools) -> None:
    made(tools.folder / "a.pdf", copies=25)
    assert tools.read("a.pdf").text.endswith("Read on with offset=21.]")
    assert "--- page 25 of 25 ---" in tools.read("a.pdf", offset=21).text


def test_a_pdf_without_text_says_so_and_advises_the_original(tools: FileTools) -> None:
    made(tools.folder / "scan.pdf", blanks=3)
    result = tools.read("scan.pdf")
    assert not result.is_error
    assert "has 3 pages and no text" in result.text
    assert "original: true" in result.text
    assert "no text on pages 2 to 2 of 3" in tools.read("scan.pdf", offset=2, limit=1).text


def test_a_pdf_is_known_by_its_content(tools: FileTools) -> None:
    made(tools.folder / "report.dat", copies=1)
    assert "--- page 1 of 1 ---" in tools.read("report.dat").text


def test_a_pdf_may_begin_after_other_bytes(tools: FileTools) -> None:
    made(tools.folder / "report.pdf", copies=1)
    (tools.folder / "late").write_bytes(b"\r\n\0" + (tools.folder / "report.pdf").read_bytes())
    assert sample_text() in tools.read("late").text


def test_an_encrypted_pdf_is_an_error_unless_its_password_is_empty(tools: FileTools) -> None:
    made(tools.folder / "locked.pdf", copies=1, password="secret")
    made(tools.folder / "open.pdf", copies=1, password="")
    locked = tools.read("locked.pdf")
    assert locked.is_error
    assert "it is protected with a password; save it without one first" in locked.text
    assert "original: true" not in locked.text, "no model can open it"
    assert sample_text() in tools.read("open.pdf").text


def test_a_damaged_pdf_is_an_error_and_quiet_on_the_terminal(
    tools: FileTools, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = SAMPLE.read_bytes()
    damaged = [b"%PDF-1.7\nnothing", b"%PDF-", whole[:200], whole[: len(whole) // 2], whole.replace(b"obj", b"obk")]
    for number, data in enumerate(damaged):
        (tools.folder / f"{number}.pdf").write_bytes(data)
        result = tools.read(f"{number}.pdf")
        if result.is_error:
            assert "damaged" in result.text
        else:  # some of it could be saved
            assert "page" in result.text
    assert tools.read("0.pdf").is_error
    assert capfd.readouterr().err == ""
    assert logging.getLogger("pypdf").propagate, "whoever wants to hear of it still can"


def test_a_cancelled_read_stops_between_pages(tools: FileTools) -> None:
    made(tools.folder / "a.pdf", copies=3)
    tools.context.cancel()
    assert tools.read("a.pdf").is_error
    assert tools.progress == []


async def test_a_document_is_text_or_with_original_the_file_itself_in_a_session(tmp_path: Path) -> None:
    path = made(tmp_path / "a.pdf", copies=1)
    calls = [call("Read", file_path="a.pdf"), call("Read", file_path="a.pdf", original=True)]
    watched = Watched([calls, "ok"], FileTools(tmp_path).tools())
    await watched.session.run("Read it")
    watched.check()
    text, original = watched.session.messages[2].tool_results
    assert sample_text() in text.text
    assert len(text.content) == 1
    file = original.content[-1]
    assert isinstance(file, AttachmentBlock)
    assert (file.mime_type, file.name) == ("application/pdf", "a.pdf")
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
