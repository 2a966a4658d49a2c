"""The Recall tool: what is no longer sent to the model can be found and read again, whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import (
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import AttachmentStore, MemoryStore
from outrider.log.entries import CallResult, MessageEntry
from outrider.log.log import Log
from outrider.runtime.recall import LoggedPast, Past, RememberedPast, recall_tool
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)
LONG = "".join(f"line {number} of the listing\n" for number in range(2000)) + "the last line names the owner: Ada\n"


class Around:
    """A session's past in one of its two forms, with its files."""

    def __init__(self, past: Past, store: AttachmentStore) -> None:
        self.past, self.store = past, store
        self.progress: list[Any] = []

    def recall(self, characters: int | None = 4000, **arguments: Any) -> ToolResult:
        tool = recall_tool(self.past, self.store)
        context: ToolContext[None] = ToolContext(
            CallRef("r1"), Path(), Threads(), self.progress.append, store=self.store, result_characters=characters
        )
        return asyncio.run(tool.invoke(arguments, context))


def conversation(store: AttachmentStore) -> list[Message]:
    """A conversation with a shortened result, a picture in a prompt, and another in a result."""
    whole = store.put(Attachment(LONG.encode(), name="Bash-call_listing.txt"))
    picture = store.put(Attachment(PNG, name="plan.png", description="the ground floor"))
    chart = store.put(Attachment(PNG + b"\0", "image/png", name="chart.png"))
    shortened = ToolResultBlock("call_listing", (TextBlock("line 0 […] Ada"),), whole=whole)
    return [
        Message.user("The port of the database is 5433.", picture),
        Message.assistant("I list the files.", ToolUseBlock("call_listing", "Bash", {"command": "ls -R"})),
        Message.user(shortened),
        Message.assistant(ToolUseBlock("call_chart", "Chart", {"of": "sales"})),
        Message.user(ToolResultBlock("call_chart", (TextBlock("Q3 chart"), chart), is_error=True)),
        Message.assistant("Done.", ToolUseBlock("r1", "Recall", {"query": "port database Ada"})),
    ]


@pytest.fixture(params=["memory", "log"])
def around(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Around]:
    if request.param == "memory":
        store = MemoryStore()
        messages = conversation(store)
        yield Around(RememberedPast("s", lambda: messages, store), store)
        return
    with Log(tmp_path) as log:
        journal = log.create()
        for message in conversation(journal.files):
            results = message.tool_results
            journal.write_now(*map(CallResult, results) if results else [MessageEntry(message)])
        yield Around(LoggedPast(log, journal.id), journal.files)
        journal.close()


def test_a_search_finds_what_was_said_and_how_to_read_it(around: Around) -> None:
    found = around.recall(query="PORT database")
    assert not found.is_error
    assert "- #1 (user): The port of the database is 5433. [plan.png] the ground floor" in found.text
    assert "Recall" not in found.text, "its own calls are not found"
    assert "call_chart (call of Chart, #4)" in around.recall(query="sales").text


def test_the_part_of_a_result_that_the_model_never_saw_is_found_and_read(around: Around) -> None:
    assert "- call_listing (result of Bash, #3): …" in around.recall(query='"owner: Ada"').text
    read = around.recall(None, reference="call_listing")
    assert read.text.startswith('[call call_listing]\nBash {"command":"ls -R"}\n\n[result of call_listing]\nline 0 of')
    pages, page = "", 1
    while not (part := around.recall(1000, reference="call_listing", page=page)).is_error:
        text, _, note = part.text.rpartition("\n[Page ")
        assert len(part.text) <= 1000
        assert note.startswith(f"{page} of ")
        pages, page = pages + text, page + 1
    assert pages == read.text[: len(pages)]
    assert pages.endswith("the last line names the owner: Ada\n")
    assert part.text == f"call_listing has {page - 1} pages; there is no page {page}."


def test_pictures_come_back_as_files(around: Around) -> None:
    [picture] = around.recall(reference="#1").attachments
    assert (picture.name, picture.description, picture.mime_type) == ("plan.png", "the ground floor", "image/png")
    assert b"".join(picture.chunks(10_000)) == PNG
    read = around.recall(reference="call_chart")
    assert "[result of call_chart, an error]\nQ3 chart" in read.text
    assert [file.name for file in read.attachments] == ["chart.png"]
    [same] = around.recall(reference=f"attachment:{read.text.split('attachment:')[1][:64]}").attachments
    assert b"".join(same.chunks(10_000)) == PNG + b"\0"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("#77", "There is no '#77' in this session. This session has the messages #1 to #6."),
        ("77", "There is no '77' in this session. This session has the messages #1 to #6."),
        ("call_listin", "There is no 'call_listin' in this session. Did you mean call_listing?"),
        ("zzz", "There is no 'zzz' in this session. A reference is the id of a call, or #1 to #6 for a message"),
        ("../../etc/passwd", "There is no '../../etc/passwd' in this session."),
        ("x" * 9000, f"There is no '{'x' * 80}…' in this session."),
        ("' OR 1=1 --", 'There is no "\' OR 1=1 --" in this session.'),
        (f"attachment:{'0' * 64}", "The past cannot be read: "),
    ],
)
def test_a_wrong_reference_names_the_nearest(around: Around, reference: str, said: str) -> None:
    read = around.recall(reference=reference)
    assert read.is_error
    assert read.text.startswith(said)


def test_messages_are_also_found_by_their_bare_number(around: Around) -> None:
    assert around.recall(reference="2").text == around.recall(reference="#2").text
    assert around.recall(reference=" #2 ").text.startswith("[assistant]\nI list the files.")


def test_without_a_match_and_without_arguments_it_says_what_to_do(around: Around) -> None:
    assert around.recall(query="xylophone").text.startswith("Nothing matches. Try fewer or other words")
    assert around.recall().is_error
    assert around.recall(query="", reference=None).text == "Give a query to search for, or a reference to read."


def test_many_hits_have_pages_within_the_limit() -> None:
    store = MemoryStore()
    messages = [Message.user(f"{number} {'needle ' * 100}") for number in range(40)]
    around = Around(RememberedPast("s", lambda: messages, store), store)
    first, last = around.recall(1000, query="needle"), around.recall(1000, query="needle", page=20)
    assert len(first.text) <= 1000
    assert first.text.endswith("\nMore match: page=2 shows them.")
    assert "- #40 (user)" in first.text
    assert "- #1 (user)" in last.text
    assert around.recall(1000, query="needle", page=21).text.startswith("Nothing else matches.")
    assert around.recall(50_000, query="needle").text.count("\n- ") == 10


def test_files_of_other_sessions_cannot_be_read(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        other, own = log.create(), log.create()
        secret = other.files.put(Attachment(b"the secret of another session"))
        other.write_now(MessageEntry(Message.user("here", secret)))
        own.write_now(MessageEntry(Message.user("hello")))
        around = Around(LoggedPast(log, own.id), own.files)
        read = around.recall(reference=f"attachment:{secret.sha256}")
        assert read.is_error
        assert "was never added to this session" in read.text
        assert "Nothing matches" in around.recall(query="here").text


def test_a_long_session_shows_progress_and_stops_when_the_call_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.log.search.STEP_ROWS", 10)
    with Log(tmp_path) as log:
        journal = log.create()
        journal.write_now(*(MessageEntry(Message.user(f"message {number}")) for number in range(50)))
        around = Around(LoggedPast(log, journal.id), journal.files)
        assert "#50" in around.recall(query="message").text
        assert around.progress[0] == "Indexing: 10 of 51 entries"
        seen: list[tuple[int, int]] = []
        journal.write_now(*(MessageEntry(Message.user(f"later {number}")) for number in range(50)))
        stopped = cancelling(seen.append)
        tool = recall_tool(around.past, around.store)
        context: ToolContext[None] = ToolContext(CallRef("r2"), Path(), Threads(), stopped)
        stopped.context = context
        with pytest.raises(Exception, match=r"^$"):
            asyncio.run(tool.invoke({"query": "later"}, context))
        assert len(seen) == 1
        journal.close()


class cancelling:
    """Cancels a call with its first progress."""

    def __init__(self, seen: Callable[[Any], None]) -> None:
        self.seen = seen
        self.context: ToolContext[None] | None = None

    def __call__(self, content: Any) -> None:
        self.seen(content)
        assert self.context
        self.context.cancel()


def test_both_forms_of_a_past_read_the_same(tmp_path: Path) -> None:
    store = MemoryStore()
    messages: Sequence[Message] = conversation(store)
    remembered = RememberedPast("s", lambda: messages, store)
    with Log(tmp_path) as log:
        journal = log.create()
        stored = conversation(journal.files)
        for message in stored:
            results = message.tool_results
            journal.write_now(*map(CallResult, results) if results else [MessageEntry(message)])
        logged = LoggedPast(log, journal.id)
        for reference in remembered.references():
            assert list(logged.read(reference, lambda *_: None)) == list(remembered.read(reference, lambda *_: None))
        for query in ("port", "list", "ada owner", "#", "chart sales nothing", "e"):
            ours = [(hit.reference, hit.kind, hit.snippet) for hit in remembered.search(query, 20, "", lambda *_: None)]
            assert ours == [
                (hit.reference, hit.kind, hit.snippet) for hit in logged.search(query, 20, "", lambda *_: None)
            ]
        journal.close()


def test_reasoning_and_what_the_api_ran_are_read_and_a_stored_text_by_its_hash() -> None:
    store = MemoryStore()
    listing = store.put(Attachment(b"a listing", "text/plain"))
    messages = [
        Message.user("Look it up.", listing),
        Message.assistant(
            ThinkingBlock("It may be in the manual."),
            ThinkingBlock(""),
            ServerToolUseBlock("s1", "web_search", {"query": "port"}),
            ServerToolResultBlock("s1", "The port is 5433."),
            "It is 5433.",
        ),
    ]
    around = Around(RememberedPast("s", lambda: messages, store), store)
    assert around.recall(reference="#2").text.splitlines() == [
        *("[reasoning]", "It may be in the manual.", "", "[call]", 'web_search {"query":"port"}', ""),
        *("[result]", "The port is 5433.", "", "[assistant]", "It is 5433."),
    ]
    assert around.recall(reference=f"attachment:{listing.sha256}").text == "a listing"
