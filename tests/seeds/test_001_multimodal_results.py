"""Multimodal tool results: the examples and criteria of the design document, in our API.

`ToolAttachment(mime_type=…, content=…, file_path=…)` is `Attachment(content, mime_type)` or
`Attachment.from_path(path)`. `ToolResult(text, attachment)` is `ToolResult(text, attachments)`, because a result may
have several files.
"""

from __future__ import annotations

import base64
import os
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import Agent, Attachment, Limits, Log, Session, ToolContext, ToolResult, dumps, loads, tool
from outrider.coding import Workspace, standard_tools
from outrider.conversation.history import repair
from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock
from outrider.conversation.store import FolderStore, MemoryStore
from outrider.providers.base import Request
from outrider.providers.catalogue.capabilities import capabilities_of
from outrider.providers.rendering.render import MOVED
from outrider.runtime.events import Event, Notice, ToolFinished
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import PDF_BYTES, PNG_BYTES, exchange, result
from tests.modelserver import ModelServer
from tests.oracles import check
from tests.providers.rendering.test_documents import picture
from tests.streams import Answer

CLAUDE, RESPONSES, CHAT, GEMINI = ONE_EACH
GEMINI_2 = Case("gemini", "gemini-2.5-pro")
CLAUDE_BY_LITELLM = Case("litellm", "anthropic/claude-sonnet-4-5")
EVERY_API = each(CLAUDE, RESPONSES, CHAT, GEMINI, GEMINI_2, CLAUDE_BY_LITELLM)
PNG_BASE64 = base64.b64encode(PNG_BYTES).decode()
PDF_BASE64 = base64.b64encode(PDF_BYTES).decode()


def rendered(case: Case, store: MemoryStore, messages: list[Message], **options: Any) -> Any:
    """The request for these messages, as JSON, after the vendor's types and our rules have judged it."""
    request = Request(repair(messages), store)
    body = case.adapter(**options).render(request)
    if not options:
        check(case, body, request)
    return msgspec.json.decode(body)


def with_picture(store: MemoryStore) -> list[Message]:
    file = store.put(Attachment(PNG_BYTES, "image/png", "chart.png", "Original chart"))
    return exchange(result("c1", "Document retrieved", file))


async def conversation_with(
    case: Case, tools: list[Any], call: str, **arguments: Any
) -> tuple[Session, list[Event], Any]:
    """A session in which the model calls a tool once; the events; and the second request."""
    events: list[Event] = []
    async with ModelServer([Answer(calls=(("c1", call, arguments),)), Answer("I have looked at it.")]) as server:
        session = Session(Agent(model=case.adapter(server.url, key="k"), tools=tools), observer=events.append)
        assert (await session.run("What does the document say?")).status == "done"
    return session, events, server.requests[1].json


# Current architecture analysis


async def test_a_tool_that_returns_a_string_gives_the_message_that_it_always_gave() -> None:
    """Tool system: {"role": "tool", "tool_call_id": "...", "content": "text result"}."""

    async def tool_name() -> str:
        return "text result"

    _, _, request = await conversation_with(CHAT, [tool_name], "tool_name")
    assert request["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "text result"}


# Provider capabilities matrix


@pytest.mark.parametrize(
    ("case", "native"),
    [
        # The document's matrix says that Gemini takes JSON only and OpenAI text only. Both have learned more since:
        (GEMINI, True),
        (RESPONSES, True),
        # … which does not hold for the older models and the older API, where a message is injected:
        (GEMINI_2, False),
        (CHAT, False),
        # Claude takes everything, by LiteLLM and by its own API.
        (CLAUDE_BY_LITELLM, True),
        (CLAUDE, True),
    ],
    ids=lambda value: value.name.replace("/", ":") if isinstance(value, Case) else "",
)
@pytest.mark.parametrize("kind", ["image/png", "application/pdf"])
def test_a_file_stands_in_the_result_or_in_a_message_after_it(case: Case, native: bool, kind: str) -> None:
    """Provider capabilities matrix: native support, or the workaround."""
    store = MemoryStore()
    data = PNG_BYTES if kind == "image/png" else PDF_BYTES
    file = store.put(Attachment(data, kind, "file"))
    body = rendered(case, store, exchange(result("c1", "Retrieved.", file)))
    *_, last = body.get("messages") or body.get("input") or body["contents"]
    is_result = "functionResponse" in str(last) or last.get("type") == "function_call_output" or last["role"] == "tool"
    is_result = is_result or "tool_result" in str(last)
    assert is_result is native
    assert base64.b64encode(data).decode() in msgspec.json.encode(last).decode()
    assert (MOVED in str(body)) is not native


# 1. Enhanced tool result type


def test_a_result_has_text_and_files_and_its_text_is_what_a_string_would_have_been() -> None:
    """Section 1: `to_string()` returns the text alone.

    The document's own unit test expects "[File content follows" in it, against its code. The code is right: what is
    said about the file depends on the provider, so the provider says it.
    """
    file = Attachment(PDF_BYTES, "application/pdf", description="Original file")
    made = ToolResult("Document retrieved", [file])
    assert made.text == "Document retrieved"
    assert (made.attachments[0].mime_type, made.attachments[0].description) == ("application/pdf", "Original file")


@pytest.mark.parametrize("by_path", [False, True])
def test_a_file_is_made_of_content_or_of_a_path(by_path: bool, tmp_path: Path) -> None:
    """Section 1: `content` or `file_path`, and base64 of either for the message."""
    (tmp_path / "chart.png").write_bytes(PNG_BYTES)
    file = Attachment.from_path(tmp_path / "chart.png") if by_path else Attachment(PNG_BYTES, "image/png")
    store = MemoryStore()
    body = rendered(CLAUDE, store, exchange(result("c1", store.put(file))))
    (image,) = [part for part in body["messages"][-1]["content"][0]["content"] if part["type"] == "image"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PNG_BASE64}


# 2. and 3. Provider implementations


@each(CHAT, GEMINI_2)
def test_an_injected_message_comes_after_all_results_and_the_result_refers_to_it(case: Case) -> None:
    """Section 2, message rewriting. The document injects between parallel results, which APIs refuse."""
    store = MemoryStore()
    first = store.put(Attachment(PNG_BYTES, "image/png", "a.png"))
    second = store.put(Attachment(PDF_BYTES, "application/pdf", "b.pdf"))
    body = rendered(case, store, exchange(result("c1", "One.", first), result("c2", "Two.", second)))
    *results, injected = (body.get("messages") or body["contents"])[2:]
    said = [str(each_one) for each_one in results]
    assert "One.\\n[a.png is shown after the tool results]" in said[0]
    assert "Two.\\n[b.pdf is shown after the tool results]" in said[-1]
    assert injected["role"] == "user"
    assert MOVED in str(injected)
    assert str(injected).index(PNG_BASE64) < str(injected).index(PDF_BASE64)


def test_gemini_gets_inline_data() -> None:
    """Section 3, GoogleGenAIClient: a text part, then inline data in a user content."""
    store = MemoryStore()
    *_, injected = rendered(GEMINI_2, store, with_picture(store))["contents"]
    assert injected == {
        "role": "user",
        "parts": [
            {"text": MOVED},
            {"text": "chart.png (Original chart), from read (call c1):"},
            {"inlineData": {"mimeType": "image/png", "data": PNG_BASE64}},
        ],
    }


def test_openai_gets_a_data_url() -> None:
    """Section 3, OpenAIClient: a text part, then an image URL in a user message."""
    store = MemoryStore()
    *_, injected = rendered(CHAT, store, with_picture(store))["messages"]
    assert injected == {
        "role": "user",
        "content": [
            {"type": "text", "text": MOVED},
            {"type": "text", "text": "chart.png (Original chart), from read (call c1):"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_BASE64}"}},
        ],
    }


def test_claude_gets_text_and_picture_in_the_result() -> None:
    """Section 3, LiteLLMClient for Claude: text, then the picture with its base64 source, in one tool result."""
    store = MemoryStore()
    *_, last = rendered(CLAUDE, store, with_picture(store))["messages"]
    assert last["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [
                {"type": "text", "text": "Document retrieved"},
                {"type": "text", "text": "chart.png (Original chart):"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_BASE64}},
            ],
        }
    ]


@EVERY_API
def test_a_pdf_is_never_only_named(case: Case) -> None:
    """Section 3 leaves PDFs as "[File: … content not accessible to model]": they are sent, or read to the model."""
    store = MemoryStore()
    file = store.put(Attachment(PDF_BYTES, "application/pdf", "report.pdf"))
    body = str(rendered(case, store, exchange(result("c1", file))))
    assert PDF_BASE64 in body
    blind = msgspec.structs.replace(capabilities_of(case.prefix, case.model), pdf="text")
    assert "In July 42 riders went out" in str(rendered(case, store, exchange(result("c1", file)), capabilities=blind))


@EVERY_API
def test_rendering_changes_no_message(case: Case) -> None:
    """Section 2 pops the attachment off the message, so that a second request would lose it. Ours does not."""
    store = MemoryStore()
    messages = with_picture(store)
    before = msgspec.json.encode(messages)
    assert rendered(case, store, messages) == rendered(case, store, messages)
    assert msgspec.json.encode(messages) == before


# 4. Processing pipeline integration


@each(CLAUDE, RESPONSES, CHAT, GEMINI, GEMINI_2)
async def test_the_pipeline_takes_results_with_files_and_keeps_metadata(case: Case) -> None:
    """Section 4: mime type and description are in the history."""

    async def document() -> ToolResult:
        return ToolResult("Retrieved.", [Attachment(PNG_BYTES, "image/png", "scan.png", "Original file")])

    session, events, request = await conversation_with(case, [document], "document")
    (block,) = session.history.messages[2].tool_results
    (file,) = block.attachments
    assert (block.text, file.mime_type, file.description) == ("Retrieved.", "image/png", "Original file")
    assert PNG_BASE64 in msgspec.json.encode(request).decode()
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.result == block


# 5. Tool migration example


@tool
async def get_full_document_content(document_id: int, context: ToolContext, return_original: bool = False) -> Any:
    """Get document content, optionally with original file."""
    if return_original:
        return ToolResult(
            f"Retrieved PDF document: {document_id}",
            [Attachment(PDF_BYTES, "application/pdf", "report.pdf", "Original PDF file")],
        )
    return "In July 42 riders went out."


@each(CLAUDE, RESPONSES, CHAT, GEMINI)
async def test_the_document_s_tool_gives_text_or_the_original(case: Case) -> None:
    """Section 5, `get_full_document_content_tool`, as it stands there but for our types."""
    _, _, plain = await conversation_with(case, [get_full_document_content], "get_full_document_content", document_id=7)
    assert "In July 42 riders went out." in str(plain)
    _, _, original = await conversation_with(
        case, [get_full_document_content], "get_full_document_content", document_id=7, return_original=True
    )
    assert "Retrieved PDF document: 7" in str(original)
    assert PDF_BASE64 in str(original)
    assert "Original PDF file" in str(original), "the description is said"


@each(CLAUDE, RESPONSES, CHAT, GEMINI)
async def test_the_tool_that_reads_files_does_the_same(case: Case, tmp_path: Path) -> None:
    """Section 5: `return_original` is `original` of Read."""
    (tmp_path / "report.pdf").write_bytes(PDF_BYTES)
    tools = standard_tools(Workspace(tmp_path), ["Read"])
    _, _, text = await conversation_with(case, tools, "Read", file_path="report.pdf")
    assert "In July 42 riders went out" in str(text)
    assert PDF_BASE64 not in str(text)
    _, _, original = await conversation_with(case, tools, "Read", file_path="report.pdf", original=True)
    assert PDF_BASE64 in str(original)


# Storage and history


async def test_the_history_has_metadata_and_no_content_and_no_injected_message() -> None:
    """Message history storage: a reference only; what a provider injects is not stored."""

    async def chart() -> ToolResult:
        return ToolResult("Here.", [Attachment(PNG_BYTES, "image/png", "chart.png", "Original chart")])

    session, _, request = await conversation_with(CHAT, [chart], "chart")
    saved = dumps(session.history.messages)
    assert PNG_BASE64 not in saved
    assert MOVED in str(request)
    assert MOVED not in saved
    for kept in ("chart.png", "image/png", "Original chart", '"sha256"'):
        assert kept in saved


@pytest.mark.parametrize("to", [CLAUDE, RESPONSES, CHAT, GEMINI, GEMINI_2], ids=lambda case: case.name)
async def test_after_a_reload_the_file_reaches_another_provider_in_its_own_form(to: Case, tmp_path: Path) -> None:
    """Retrieval and reconstruction: provider reprocessing ensures the correct format for each."""

    async def chart() -> ToolResult:
        return ToolResult("Here.", [Attachment(PNG_BYTES, "image/png", "chart.png")])

    with Log(tmp_path) as log:
        async with ModelServer([Answer(calls=(("c1", "chart", {}),)), Answer("A square.")]) as server:
            agent = Agent(model=CHAT.adapter(server.url, key="k"), tools=[chart])
            with Session.open(log, agent=agent) as session:
                await session.run("Draw it.")
                name = session.id
    with Log(tmp_path) as log:
        request = Request(repair([*log.messages(name), Message.user("And now?")]), log.files(name))
        body = to.adapter().render(request)
        check(to, body, request)
        assert PNG_BASE64.encode() in body


def test_a_conversation_as_json_finds_its_files_again() -> None:
    """Retrieval and reconstruction, for scripts: from metadata and the store."""
    store = MemoryStore()
    messages = loads(dumps(with_picture(store)), store=store)
    assert PNG_BASE64 in str(rendered(CLAUDE, store, messages))


# Testing strategy: end to end


@each(CLAUDE, RESPONSES, CHAT, GEMINI)
async def test_upload_a_pdf_a_tool_retrieves_it_and_the_model_gets_it(case: Case, tmp_path: Path) -> None:
    """End-to-end tests: upload, retrieve with attachment, analyse, with each provider."""
    store = FolderStore(tmp_path)
    uploaded = store.put(Attachment(PDF_BYTES, "application/pdf", "uploaded.pdf"))

    async def retrieve() -> ToolResult:
        return ToolResult("Here it is.", [Attachment(store.read(uploaded), uploaded.mime_type, uploaded.name)])

    _, _, request = await conversation_with(case, [retrieve], "retrieve")
    assert PDF_BASE64 in str(request)
    assert "uploaded.pdf" in str(request)


@each(CLAUDE, RESPONSES, CHAT, GEMINI)
async def test_an_attachment_that_fails_degrades_to_a_note(case: Case, tmp_path: Path) -> None:
    """End-to-end tests: verify degradation when the attachment fails. Also open question 3."""

    async def retrieve() -> ToolResult:
        return ToolResult("Here it is.", [Attachment.from_path(tmp_path / "gone.pdf")])

    _, events, request = await conversation_with(case, [retrieve], "retrieve")
    assert "Here it is." in str(request)
    assert "A file could not be attached" in str(request)
    assert any("gone.pdf" in event.text for event in events if isinstance(event, Notice))


# Future evolution


@each(CHAT, GEMINI_2)
def test_a_provider_that_learns_to_take_files_changes_a_line_of_the_table(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Future evolution: from injection to native, with no change to tools or pipeline."""
    store = MemoryStore()
    assert MOVED in str(rendered(case, store, with_picture(store)))
    (tmp_path / "learned.json").write_bytes(msgspec.json.encode({case.name: {"image": "native"}}))
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(tmp_path / "learned.json"))
    body = msgspec.json.decode(case.adapter().render(Request(repair(with_picture(store)), store)))
    assert MOVED not in str(body)
    assert PNG_BASE64 in str(body)


# Security considerations


async def test_a_file_over_the_limit_is_a_note_and_the_limit_can_be_set() -> None:
    """Security 1: maximum attachment size, 20 MB unless it is set."""

    async def large() -> ToolResult:
        return ToolResult("Large.", [Attachment(bytes(2_000_000), "application/octet-stream", "large.bin")])

    assert Limits().attachment_bytes == 20 * 1024 * 1024
    async with ModelServer([Answer(calls=(("c1", "large", {}),)), Answer("Too large.")]) as server:
        agent = Agent(
            model=CLAUDE.adapter(server.url, key="k"), tools=[large], limits=Limits(attachment_bytes=1_000_000)
        )
        assert (await Session(agent).run("Get it.")).status == "done"
    assert "large.bin has 1.9 MiB; the limit is 976.6 KiB" in server.requests[1].body.decode()


async def test_a_file_that_is_not_what_its_type_says_is_a_note() -> None:
    """Security 2: MIME type validation."""

    async def trick() -> ToolResult:
        return ToolResult("A picture.", [Attachment(b"\x7fELF\x02\x01\x01" + bytes(100), "image/png", "trick.png")])

    _, _, request = await conversation_with(CLAUDE, [trick], "trick")
    assert "trick.png is labelled image/png but is application/x-executable" in str(request)


def test_a_large_file_is_not_loaded_to_be_stored(tmp_path: Path) -> None:
    """Security 3: stream large files, do not load them. Sending: tests/providers/rendering/test_large_file.py."""
    (tmp_path / "large.pdf").write_bytes(b"%PDF-1.7\n" + os.urandom(16_000_000))
    store = FolderStore(tmp_path / "store")
    tracemalloc.start()
    try:
        store.put(Attachment.from_path(tmp_path / "large.pdf"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


async def test_knowing_a_file_s_hash_does_not_give_access_to_it(tmp_path: Path) -> None:
    """Security 4: access control. A session reads its own files alone."""

    async def secret() -> ToolResult:
        return ToolResult("Here.", [Attachment(b"the secret", "text/plain", "secret.txt")])

    with Log(tmp_path) as log:
        async with ModelServer([Answer(calls=(("c1", "secret", {}),)), Answer("Seen."), Answer("Hello.")]) as server:
            agent = Agent(model=CLAUDE.adapter(server.url, key="k"), tools=[secret])
            with Session.open(log, agent=agent) as mine, Session.open(log, agent=agent) as other:
                await mine.run("Get it.")
                await other.run("Hello.")
                (file,) = mine.history.messages[2].tool_results[0].attachments
                request = Request([Message.user(file)], log.files(other.id))
                assert b"the secret" not in CLAUDE.adapter().render(request)
                own = Request([Message.user(file)], log.files(mine.id))
                assert b"the secret" in CLAUDE.adapter().render(own)


# Performance considerations


class CountingStore(MemoryStore):
    reads = 0

    def read(self, reference: AttachmentBlock) -> bytes:
        self.reads += 1
        return super().read(reference)


def test_content_is_loaded_when_it_is_needed(tmp_path: Path) -> None:
    """Performance 1: lazy loading. Neither a missing file nor its size matters before the file is stored."""
    attachment = Attachment.from_path(tmp_path / "not yet there.png")
    (tmp_path / "not yet there.png").write_bytes(PNG_BYTES)
    store = CountingStore()
    block = store.put(attachment)
    dumps([Message.user(ToolResultBlock("c1", (block,)))])
    assert store.reads == 0


@EVERY_API
def test_a_processed_file_is_kept_for_the_next_request(case: Case) -> None:
    """Performance 2: caching."""
    store = CountingStore()
    messages = with_picture(store)
    adapter, memory = case.adapter(), dict[str, Any]()
    for turn in range(3):
        assert PNG_BASE64.encode() in adapter.render(Request(repair(messages), store, memory=memory))
        messages = [*messages, Message.assistant(f"turn {turn}"), Message.user("go on")]
    assert store.reads == 1


@pytest.mark.sampled(2)
@EVERY_API
def test_a_large_picture_is_compressed_into_the_limits_of_the_provider(case: Case) -> None:
    """Performance 3 and 4: compression, and provider limits."""
    store = MemoryStore()
    file = store.put(Attachment(picture(1000, 1000, "PNG", noise=True), "image/png", "noise.png"))
    can = msgspec.structs.replace(capabilities_of(case.prefix, case.model), image_bytes=2_000_000)
    body = str(rendered(case, store, exchange(result("c1", file)), capabilities=can))
    assert "noise.png" in body
    assert "cannot be shown" not in body
    assert 100_000 < len(body) < 2_010_000


# Open questions


@EVERY_API
def test_several_files_of_one_result_all_arrive(case: Case) -> None:
    """Open question 1: yes, several, each told apart by name and description."""
    store = MemoryStore()
    files = [
        store.put(Attachment(PNG_BYTES, "image/png", "before.png", "before the fix")),
        store.put(Attachment(PDF_BYTES, "application/pdf", "report.pdf", "the report")),
        store.put(Attachment(b"town,riders\n", "text/csv", "riders.csv", "the figures")),
    ]
    body = str(rendered(case, store, exchange(result("c1", "Three files.", *files))))
    for expected in (PNG_BASE64, PDF_BASE64, "town,riders", "before the fix", "the report", "the figures"):
        assert expected in body


def test_content_is_stored_apart_from_the_history_and_once(tmp_path: Path) -> None:
    """Open question 2: yes, apart, under its hash."""
    store = FolderStore(tmp_path)
    one, other = (store.put(Attachment(PNG_BYTES, "image/png", name)) for name in ("a.png", "b.png"))
    assert one.sha256 == other.sha256
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


async def test_people_see_the_file_and_not_the_injected_message() -> None:
    """Open question 4: no. Front ends: tests/hazards/test_injected_messages.py."""

    async def chart() -> ToolResult:
        return ToolResult("Here.", [Attachment(PNG_BYTES, "image/png", "chart.png")])

    _, events, request = await conversation_with(CHAT, [chart], "chart")
    shown = msgspec.json.encode(events).decode()
    assert MOVED in str(request)
    assert MOVED not in shown
    assert "chart.png" in shown
