"""Multimodal tool results: "Security Considerations", "Performance Considerations", the "Tool Migration Example", and
"Verify degradation when attachment fails"."""

from __future__ import annotations

import base64
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import Agent, Attachment, Limits, Session, ToolResult, tool
from outrider.conversation.documents import kinds
from outrider.conversation.history import repair
from outrider.conversation.messages import AttachmentBlock, ToolResultBlock
from outrider.conversation.store import FolderStore, MemoryStore
from outrider.errors import AttachmentError
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.providers.rendering.documents import pdf_text
from outrider.runtime.events import Event, Notice
from outrider.testing import ScriptedModel, call
from tests.adapters import ONE_EACH, Case, each
from tests.conversation.documents.writers import docx
from tests.conversations import PDF_BYTES, PNG_BYTES
from tests.modelserver import ModelServer
from tests.streams import Answer
from tests.subagents.teams import bench_in, results_of
from tests.watching import Watched

MEGABYTES_20 = 20 * 1024 * 1024
ELF = b"\x7fELF\x02\x01\x01\0" + bytes(100)
SAMPLE = Path(outrider.__file__).parent / "cli/sample/report.pdf"


async def watched(give: Callable[[], Any], **options: Any) -> tuple[Watched, ToolResultBlock]:
    """A session whose tool gives this back; the run goes on to its end."""

    @tool(effect="read")
    def fetch() -> Any:
        """Fetch a document."""
        return give()

    seen = Watched([[call("fetch")], "Done."], [fetch], **options)
    assert (await seen.session.run("Go.")).text == "Done."
    seen.check()
    return seen, results_of(seen.session)[0]


# Security 1: "File Size Limits: Enforce maximum attachment size (e.g., 20MB)"


async def test_twenty_megabytes_are_taken_and_a_byte_more_is_not(tmp_path: Path) -> None:
    """Security Considerations, 1."""
    path = tmp_path / "large.bin"
    for size, taken in ((MEGABYTES_20, True), (MEGABYTES_20 + 1, False)):
        path.unlink(missing_ok=True)
        path.touch()
        os.truncate(path, size)
        seen, result = await watched(
            lambda: ToolResult("Here it is.", [Attachment.from_path(path)]), store=FolderStore(tmp_path / "store")
        )
        assert [file.size for file in result.attachments] == ([size] if taken else [])
        assert not result.is_error
        assert ("the limit is" in result.text) is not taken
        assert bool(seen.of(Notice)) is not taken


async def test_the_limit_is_a_setting() -> None:
    """Security Considerations, 1."""
    _, result = await watched(lambda: Attachment(b"12345"), limits=Limits(attachment_bytes=4))
    assert result.is_error
    assert "has 5 bytes; the limit is 4 bytes" in result.text


# Security 2: "MIME Type Validation: Verify file types before processing"


@pytest.mark.parametrize(
    ("data", "label", "said"),
    [
        (ELF, "image/png", "is labelled image/png but is application/x-executable"),
        (ELF, "text/plain", "is labelled text/plain but is application/x-executable"),
        (ELF, "application/pdf", "is labelled application/pdf but is application/x-executable"),
        (ELF, kinds.DOCX, "but is application/x-executable"),
        (PNG_BYTES, "application/json", "is labelled application/json but is image/png"),
        (PNG_BYTES, "audio/wav", "is labelled audio/wav but is image/png"),
        (b"\0\x01\x02", "text/csv", "is labelled text/csv but is something else"),
        (b"words", "image/png", "is labelled image/png but is something else"),
        (b"words", "not a mime", "is not a MIME type; write it as in image/png, or leave it out"),
    ],
)
async def test_a_file_is_what_its_label_says_or_is_not_taken(data: bytes, label: str, said: str) -> None:
    """Security Considerations, 2. A call of which nothing else is left is an error."""
    seen, result = await watched(lambda: Attachment(data, label, "file"))
    assert result.is_error
    assert not result.attachments
    assert said in result.text
    assert said in seen.of(Notice)[0].text


async def test_without_a_label_the_type_is_told_from_the_content() -> None:
    """Security Considerations, 2."""
    contents = {
        "image/png": PNG_BYTES,
        "application/pdf": PDF_BYTES,
        "application/x-executable": ELF,
        "text/plain": "Zürich".encode("utf-16"),
        "application/octet-stream": b"\0\x01\x02",
    }
    _, result = await watched(lambda: [Attachment(data) for data in contents.values()])
    assert [file.mime_type for file in result.attachments] == list(contents)


# Security 3, Performance 1: "Stream large files rather than loading entirely", "Don't load file content until needed"


async def test_a_large_file_is_streamed_into_the_store(tmp_path: Path) -> None:
    """Security Considerations, 3: never held whole on its way."""
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom(16) * (MEGABYTES_20 // 16))
    tracemalloc.start()
    try:
        _, result = await watched(lambda: Attachment.from_path(path), store=FolderStore(tmp_path / "store"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.attachments[0].size == MEGABYTES_20
    assert peak < MEGABYTES_20 // 2


async def test_a_file_is_not_opened_before_it_is_stored(tmp_path: Path) -> None:
    """Performance Considerations, 1."""
    later = Attachment.from_path(tmp_path / "later.png")
    (tmp_path / "later.png").write_bytes(PNG_BYTES)
    _, result = await watched(lambda: later)
    assert result.attachments[0].mime_type == "image/png"


# Security 4: "Access Control: Ensure tools only access authorized files"


@tool(effect="read")
def give(path: str) -> Attachment:
    """Give back a file."""
    return Attachment.from_path(path)


@pytest.mark.parametrize("mode", ["ask", "edits", "all", "plan"])
async def test_tools_attach_authorized_files_only(tmp_path: Path, mode: str) -> None:
    """Security Considerations, 4: in the terminal program and editors, as Read is held to."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".env").write_text("PASSWORD=x")
    (folder / "link.txt").symlink_to(".env")
    (folder / "chart.png").write_bytes(PNG_BYTES)
    (tmp_path / "outside.txt").write_text("not yours")
    names = [".env", "link.txt", "../outside.txt", "chart.png"]
    bench = bench_in(folder, own=[give], permissions__mode=mode)
    model = ScriptedModel([[call("give", path=str(folder / name)) for name in names], "Done."])
    session = Session(bench.agent(model=model), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    await session.run("Go.")
    bench.close()
    refused = [not result.attachments for result in results_of(session)]
    assert refused == [True, True, mode != "all", False]
    assert [result.is_error for result in results_of(session)] == refused


async def test_another_sessions_file_is_not_read_by_knowing_its_hash(tmp_path: Path) -> None:
    """Security Considerations, 4."""
    log = Log(tmp_path)
    agent = Agent(model=ScriptedModel(["Done."]))
    with Session.open(log, agent=agent) as mine, Session.open(log, agent=agent) as theirs:
        reference = theirs.store.put(Attachment(PNG_BYTES))
        assert theirs.store.read(reference) == PNG_BYTES
        with pytest.raises(AttachmentError, match="was never added to this session"):
            mine.store.read(reference)


# The Tool Migration Example


class Document:
    """A document as the example has it."""

    def __init__(self, name: str, mime_type: str, path: Path) -> None:
        self.name, self.mime_type, self.file_path = name, mime_type, path


def migrated(documents: dict[int, Document]) -> Any:
    """The example's tool, in our words: `attachment` is a list, and the file is not read by the tool at all."""

    @tool(effect="read")
    async def get_full_document_content(document_id: int, return_original: bool = False) -> str | ToolResult:
        """Get document content, optionally with original file.

        Args:
            document_id: Which document.
            return_original: Give the file itself.
        """
        document = documents[document_id]
        if return_original and document.mime_type in ["application/pdf", "image/png", kinds.DOCX]:
            original = Attachment.from_path(
                document.file_path, document.mime_type, description=f"Original {document.name} file"
            )
            return ToolResult(f"Retrieved document: {document.name}", attachments=[original])
        return pdf_text(document.file_path.read_bytes())

    return get_full_document_content


@pytest.fixture
def documents(tmp_path: Path) -> dict[int, Document]:
    (tmp_path / "minutes.docx").write_bytes(docx())
    return {
        1: Document("report", "application/pdf", SAMPLE),
        2: Document("minutes", kinds.DOCX, tmp_path / "minutes.docx"),
    }


async def bodies(documents: dict[int, Document], case: Case, **arguments: Any) -> str:
    """What the API would be sent after the call."""
    model = ScriptedModel([[call("get_full_document_content", **arguments)], "Done."])
    session = Session(Agent(model=model, tools=[migrated(documents)]))
    await session.run("Go.")
    history = tuple(repair(session.messages[:-1]))
    return case.adapter().render(Request(history, session.store)).decode()


@each(*ONE_EACH)
async def test_a_tool_that_is_not_asked_for_the_original_gives_text_as_before(
    case: Case, documents: dict[int, Document]
) -> None:
    """5. Tool Migration Example: "Return extracted text as before"."""
    body = await bodies(documents, case, document_id=1)
    assert pdf_text(SAMPLE.read_bytes()).splitlines()[1] in body
    assert base64.b64encode(SAMPLE.read_bytes()).decode() not in body


@each(*ONE_EACH)
async def test_the_original_reaches_every_provider(case: Case, documents: dict[int, Document]) -> None:
    """5. Tool Migration Example: `return_original`; End-to-End Tests: "Tool retrieves with attachment"."""
    body = await bodies(documents, case, document_id=1, return_original=True)
    assert "Retrieved document: report" in body
    assert body.count(base64.b64encode(SAMPLE.read_bytes()).decode()) == 1


@each(*ONE_EACH)
async def test_an_original_that_a_provider_does_not_take_reaches_it_as_text(
    case: Case, documents: dict[int, Document]
) -> None:
    """5. Tool Migration Example, for an office document."""
    body = await bodies(documents, case, document_id=2, return_original=True)
    encoded = base64.b64encode(documents[2].file_path.read_bytes()).decode()
    if case.prefix == "openai":
        assert encoded in body
    else:
        assert encoded not in body
        assert "Riders grew by 12 % in Zürich." in body


# End-to-End Tests: "Verify degradation when attachment fails"


class BrokenStore(MemoryStore):
    """A disk that is full."""

    def put(self, attachment: Attachment, max_bytes: int = 0) -> AttachmentBlock:
        raise OSError("no space left on device")


FAILURES: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "missing": lambda folder: (Attachment.from_path(folder / "gone.png"), {}),
    "a folder": lambda folder: (Attachment.from_path(folder), {}),
    "too large": lambda folder: (Attachment(b"12345"), {"limits": Limits(attachment_bytes=4)}),
    "mislabelled": lambda folder: (Attachment(ELF, "image/png"), {}),
    "no type": lambda folder: (Attachment(b"x", "not a mime"), {}),
    "a full disk": lambda folder: (Attachment(PNG_BYTES), {"store": BrokenStore()}),
}


@each(*ONE_EACH)
@pytest.mark.parametrize("failure", FAILURES)
async def test_the_text_of_a_result_survives_a_file_that_fails(failure: str, case: Case, tmp_path: Path) -> None:
    """The model reads the text and why there is no file, people get a notice, and the turn goes on."""
    file, options = FAILURES[failure](tmp_path)
    seen, result = await watched(lambda: ToolResult("The text stands.", [file]), **options)
    assert not result.is_error
    assert not result.attachments
    assert seen.of(Notice)
    request = Request(tuple(repair(seen.session.messages[:-1])), seen.session.store)
    body = case.adapter().render(request).decode()
    assert "The text stands." in body
    assert "A file could not be attached" in body


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_result_that_was_only_the_file_that_fails_is_an_error(failure: str, tmp_path: Path) -> None:
    """The model must not take an empty result for a success."""
    file, options = FAILURES[failure](tmp_path)
    for give_back in (lambda: file, lambda: ToolResult(" ", [file, file]), lambda: [file]):
        _, result = await watched(give_back, **options)
        assert result.is_error
        assert "A file could not be attached" in result.text


@each(*ONE_EACH)
@pytest.mark.parametrize("error", [AttachmentError("gone"), OSError("disk"), KeyError("abc"), TimeoutError()])
async def test_a_store_that_cannot_be_read_costs_the_file_and_not_the_turn(error: Exception, case: Case) -> None:
    """A store of the user's own may raise anything. The text stays, the model reads why, people get a notice."""

    class Failing(MemoryStore):
        def read(self, reference: AttachmentBlock) -> bytes:
            raise error

    def chart() -> ToolResult:
        return ToolResult("The text stands.", [Attachment(PNG_BYTES, name="q3.png")])

    seen: list[Event] = []
    async with ModelServer([Answer(calls=(("c1", "chart", {}),)), Answer("Without it, then.")]) as server:
        agent = Agent(case.adapter(server.url, key="k"), tools=[chart])
        ended = await Session(agent, store=Failing(), observer=seen.append).run("go")
    assert (ended.status, ended.text) == ("done", "Without it, then.")
    (notice,) = [event.text for event in seen if isinstance(event, Notice)]
    assert notice.startswith("q3.png (image/png, 77 bytes) cannot be shown: ")
    assert (str(error) or "TimeoutError") in notice
    body = str(server.requests[1].json)
    assert "The text stands." in body
    assert "q3.png (image/png, 77 bytes) cannot be shown: " in body


@each(*ONE_EACH)
async def test_a_file_that_is_lost_later_becomes_a_note(case: Case) -> None:
    """History is kept; what cannot be read any more is said."""
    seen, _ = await watched(lambda: ToolResult("The text stands.", [Attachment(PNG_BYTES, name="chart.png")]))
    request = Request(tuple(repair(seen.session.messages[:-1])), MemoryStore())
    body = case.adapter().render(request).decode()
    assert "The text stands." in body
    assert "chart.png" in body
    assert "cannot be shown" in body
