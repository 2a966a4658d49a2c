"""Text files that are larger than a model's window: the model gets a share of each, and the session goes on."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from outrider import Agent, Attachment, Session, ToolResult
from outrider.coding import Workspace, standard_tools
from outrider.conversation.history import repair
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.providers.base import Request
from outrider.providers.catalogue.capabilities import capabilities_of
from outrider.providers.catalogue.windows import TOKEN_BYTES, UNKNOWN_WINDOW
from outrider.runtime.events import Event, Notice
from tests.adapters import ALL, ONE_EACH, Case, each, each_at_length
from tests.modelserver import ModelServer
from tests.oracles import type_errors
from tests.providers.test_wire import items_of
from tests.streams import Answer

MEGABYTE = 1_000_000


@cache
def table(rows: int) -> bytes:
    return b"".join(b"%d,town %d,%d\n" % (row, row, row * 7919 % 10_007) for row in range(1, rows + 1))


def half_of_the_window(case: Case) -> int:
    """Bytes that the text of files may take together."""
    window = capabilities_of(case.prefix, case.model).context_tokens or UNKNOWN_WINDOW
    return window * TOKEN_BYTES // 2


@pytest.mark.sampled(1)
@each(*ONE_EACH)
async def test_reading_one_as_it_is_leaves_room_for_the_conversation_and_the_rest_can_be_read(
    case: Case, tmp_path: Path
) -> None:
    data = table(400_000)
    assert len(data) > 8 * MEGABYTE
    (tmp_path / "big.csv").write_bytes(data)
    events: list[Event] = []
    attached = Answer(calls=(("c1", "Read", {"file_path": "big.csv", "original": True}),))
    async with ModelServer([attached, Answer("I have seen its ends."), Answer("Good night.")]) as server:
        tools = standard_tools(Workspace(tmp_path))
        session = Session(Agent(model=case.adapter(server.url, key="k"), tools=tools), observer=events.append)
        assert (await session.run("What is in big.csv?")).status == "done"
        assert (await session.run("Thank you.")).status == "done"
        _, first, second = server.requests
        assert len(second.body) < half_of_the_window(case) + 50_000
        said = first.body.decode()
        assert "1,town 1,7919" in said
        assert "400000,town 400000," in said
        assert " MiB of 8." in said, "it says how much there is"
        assert "of 400,000" in said
        (sha256,) = {block.sha256 for block in session.history.messages[2].tool_results[0].attachments}
        assert f"stored as attachment:{sha256}" in said
        assert any("big.csv" in event.text and "in part" in event.text for event in events if isinstance(event, Notice))
    # What the note names can be read, from the line that it names on.
    middle = Answer(calls=(("c2", "Read", {"file_path": f"attachment:{sha256}", "offset": 200_000, "limit": 1}),))
    async with ModelServer([middle, Answer("There it is.")]) as server:
        session.provider.base_url = server.url  # type: ignore[attr-defined]
        await session.run("What is in the middle?")
        assert "200000,town 200000," in server.requests[1].body.decode()


def conversation(store: MemoryStore, files: Sequence[Attachment]) -> list[Message]:
    messages = [Message.user("Read them all.")]
    for number, file in enumerate(files):
        messages.append(Message.assistant(ToolUseBlock(f"c{number}", "read", {})))
        messages.append(Message.user(ToolResultBlock(f"c{number}", (store.put(file),))))
    return repair([*messages, Message.assistant("I have."), Message.user("Well?")])


@pytest.mark.sampled(1)
@each_at_length(*ALL)
def test_many_of_them_do_not_fill_the_window_together_and_none_is_lost(case: Case) -> None:
    store = MemoryStore()
    files = [Attachment(table(80_000), "text/csv", f"t{number}.csv") for number in range(12)]
    messages = conversation(store, [*files, Attachment(b"the last,1\n", "text/csv", "small.csv")])
    request = Request(messages, store)
    body = case.adapter().render(request)
    assert not type_errors(case.api, msgspec.json.decode(body))
    assert half_of_the_window(case) * 0.9 < len(body) < half_of_the_window(case) + 100_000
    said = body.decode()
    assert all(f"t{number}.csv" in said for number in range(12))
    assert "the last,1" in said, "a small file is always shown"


@each_at_length(*ALL)
def test_what_is_shown_of_a_file_does_not_depend_on_what_comes_after_it(case: Case) -> None:
    store = MemoryStore()
    messages = conversation(store, [Attachment(table(60_000), "text/csv", f"t{number}.csv") for number in range(6)])
    adapter, memory = case.adapter(), dict[str, object]()
    sent: list[bytes] = []
    for length in range(1, len(messages) + 1, 2):
        body = adapter.render(Request(messages[:length], store, memory=memory))
        items = items_of(body)
        assert items[: len(sent)] == sent
        assert body == case.adapter().render(Request(messages[:length], store)), "the same when it is rendered anew"
        sent = items


def long_pdf(pages: int) -> bytes:
    """Pages of text, of which no model that takes PDFs as text could read all."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for number in range(1, pages + 1):
        page = writer.add_blank_page(600, 800)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        lines = b" T* ".join(
            b"(Line %d of page %d, and some more words to fill it up.) Tj" % (line, number) for line in range(60)
        )
        stream.set_data(b"BT /F1 9 Tf 12 TL 20 780 Td " + lines + b" ET")
        page[NameObject("/Contents")] = writer._add_object(stream)
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()


def test_the_text_of_a_pdf_has_the_same_limit() -> None:
    case = Case("ollama", "llama3.2")
    store = MemoryStore()
    messages = conversation(store, [Attachment(long_pdf(60), "application/pdf", "long.pdf")])
    said = case.adapter().render(Request(messages, store)).decode()
    assert "Text of long.pdf:" in said
    assert "of page 1," in said
    assert "of page 60," in said
    assert "of page 40," not in said
    assert "left out here. The whole is stored as attachment:" in said
    assert len(said) < half_of_the_window(case)


@pytest.mark.parametrize("tokens", [8_000, 1_000_000])
def test_the_share_follows_the_window_of_the_model(tokens: int) -> None:
    case = Case("openai-chat", "gpt-5.6")
    can = msgspec.structs.replace(capabilities_of(case.prefix, case.model), context_tokens=tokens)
    store = MemoryStore()
    messages = conversation(store, [Attachment(table(30_000), "text/csv", "t.csv")])
    body = case.adapter(capabilities=can).render(Request(messages, store))
    assert (b"left out here" in body) is (tokens == 8_000)
    assert len(body) < tokens * TOKEN_BYTES // 4 + 5_000


async def test_a_text_that_a_tool_attaches_and_one_that_a_person_sends_share_the_room() -> None:
    async def dump() -> ToolResult:
        return ToolResult("Here.", [Attachment(table(100_000), "text/csv", "tool.csv")])

    case = ONE_EACH[0]
    async with ModelServer([Answer(calls=(("c1", "dump", {}),)), Answer("Large.")]) as server:
        session = Session(Agent(model=case.adapter(server.url, key="k"), tools=[dump]))
        await session.run(["Compare.", Attachment(table(100_000), "text/csv", "mine.csv")])
    first, second = (len(request.body) for request in server.requests)
    quarter = half_of_the_window(case) // 2
    assert quarter * 0.9 < first < quarter + 20_000
    assert quarter * 0.4 < second - first < quarter // 2 + 5_000
