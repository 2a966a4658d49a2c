"""The one table of histories that every adapter has to get right on the wire, with real files of every kind."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import repair
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Citation,
    Message,
    ProviderState,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import MemoryStore
from outrider.providers.base import Reply, Request, ToolSpec
from tests.adapters import ONE_EACH, Case, heard
from tests.searches import STREAMS
from tests.streams import Answer, stream_of

SAMPLE = Path(__file__).parents[1] / "src/outrider/cli/sample"


def _wav() -> bytes:
    output = io.BytesIO()
    with wave.open(output, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
        file.writeframes(bytes(range(100)))
    return output.getvalue()


PNG_BYTES = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAFElEQVR4nGM8ISfHAANMDEgANwcANHYBDK9qubUAAAAASUVORK5CYII="
)
JPEG_BYTES = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71////m8H////6"
    "/+b9//j/wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAv/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AL//Z"
)
PDF_BYTES = (SAMPLE / "report.pdf").read_bytes()

STORE = MemoryStore()
PNG = STORE.put(Attachment(PNG_BYTES, "image/png", "chart.png", "a red square"))
JPEG = STORE.put(Attachment(JPEG_BYTES, "image/jpeg", "photo.jpg"))
PDF = STORE.put(Attachment(PDF_BYTES, "application/pdf", "report.pdf"))
CSV = STORE.put(Attachment("town,riders\nZürich,42\nKöln,40\n".encode(), "text/csv", "riders.csv"))
WAV = STORE.put(Attachment(_wav(), "audio/wav", "memo.wav"))
VIDEO = STORE.put(Attachment(b"\0\0\0\x18ftypmp42" + bytes(40), "video/mp4", "ride.mp4"))
BINARY = STORE.put(Attachment(bytes(range(256)), "application/octet-stream", "blob.bin"))
UNNAMED = STORE.put(Attachment(PNG_BYTES, "image/png"))
GONE = AttachmentBlock("0" * 64, "image/png", 12, "gone.png")

PAGE = "https://example.com/files"
REMOTE_PNG = msgspec.structs.replace(PNG, url=f"{PAGE}/chart.png")
REMOTE_PDF = msgspec.structs.replace(PDF, url=f"{PAGE}/report.pdf")

SYSTEM = "You are a careful clerk."
TOOLS = (
    ToolSpec(
        "read",
        "Reads a file.",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    ),
    ToolSpec("look", "Looks around.", {"type": "object", "properties": {}}),
)
EVERY_PLANE = "".join(chr((plane << 16) + 0x41) for plane in range(17)) + "é\u0301 שלום \u2028\x7f 👩‍👩‍👧 \ufeff\uffff"


def call(call_id: str, name: str = "read", **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(call_id, name, arguments or ({"path": "a.txt"} if name == "read" else {}))


def result(call_id: str, *parts: str | AttachmentBlock, failed: bool = False) -> ToolResultBlock:
    content = tuple(TextBlock(part) if isinstance(part, str) else part for part in parts)
    return ToolResultBlock(call_id, content, is_error=failed)


def exchange(*answers: ToolResultBlock) -> list[Message]:
    """A question, a reply that calls `read` for each of the results, and the results."""
    calls: list[Block] = [call(answer.tool_use_id, path=f"{answer.tool_use_id}.txt") for answer in answers]
    return [Message.user("Look at the files."), Message.assistant("I'll look.", *calls), Message.user(*answers)]


def spoken(case: Case, answer: Answer) -> Message:
    """What the adapter makes of an answer that its API streams, its own opaque state included."""
    reply = heard(case.adapter(), *stream_of(case.api, answer))[-1]
    assert isinstance(reply, Reply)
    return reply.message


THOUGHTFUL = Answer(
    "I'll look at both.",
    (("toolu_1", "read", {"path": "a.txt"}), ("toolu_2", "look", {})),
    thinking="Both files matter.",
)


def thinking_in_between(case: Case) -> list[Message]:
    """Thoughts before calls with files in their results, and thoughts before an answer, with the state of the maker."""
    calls = spoken(case, THOUGHTFUL)
    first, second = (made.id for made in calls.tool_calls)
    return [
        Message.user("What do the files say?"),
        calls,
        Message.user(result(first, "The chart:", PNG), result(second, PDF, CSV)),
        spoken(case, Answer("All is well.", thinking="Nothing is amiss.")),
        Message.user("Thank you. And now?"),
    ]


def _foreign_thinking() -> list[Message]:
    state = ProviderState(
        "another", "some-model", {"signature": "foreign-secret", "encrypted_content": "foreign-secret"}
    )
    return [
        Message.user("Think."),
        Message.assistant(ThinkingBlock("Hm.", state), ThinkingBlock("no state at all"), TextBlock("So.", state)),
        Message.user("Think more."),
        Message.assistant(ThinkingBlock("Only a thought.", state)),
        Message.user("And do something."),
        Message.assistant(
            ThinkingBlock("", state),
            ToolUseBlock("c1", "look", {}, state=state),
            ThinkingBlock("between", state),
            ToolUseBlock("c2", "look", {}),
        ),
        Message.user(result("c1", "seen"), result("c2", "seen too")),
    ]


def _plain() -> list[Message]:
    return [Message.user("Hello"), Message.assistant("Hello! What is it?"), Message.user("What is 2+2?")]


def _parallel_files() -> list[Message]:
    answers = (result("c1", "First:", PNG), result("c2", JPEG, "and a report", PDF), result("c3", "the same", PNG))
    return [*exchange(*answers)[:2], Message.user(*answers, "Compare them, please.")]


def _orphan_call() -> list[Message]:
    return [
        Message.user("Look."),
        Message.assistant(call("c1"), call("c2", "look")),
        Message.user(result("c2", "seen"), result("unknown", "of no call")),
        Message.assistant("Again.", call("c3")),
        Message.user("Never mind, what is the time?"),
    ]


def _cancelled_turn() -> list[Message]:
    return [
        Message.user("Tell me a long story."),
        Message.assistant("Once upon a ti"),
        Message.user("Stop. Read a.txt instead."),
        Message.assistant(call("c1")),
        Message.user(result("c1", "The call was cancelled before it finished.", failed=True), "Go on."),
    ]


def _bad_ids() -> list[Message]:
    names = ["call:1/ä", "x" * 200, "toolu.with.dots", ""]
    asking = Message.assistant(*(call(name, "look") for name in names))
    answering = Message.user(*(result(name, f"result {number}") for number, name in enumerate(names)))
    return [Message.user("Look."), asking, answering, asking, answering]


def _invalid_input() -> list[Message]:
    wrong = ToolUseBlock("c1", "read", {}, invalid_input='{"path": "a.tx')
    return [
        Message.user("Read a.txt"),
        Message.assistant(wrong),
        Message.user(result("c1", "The arguments are not JSON.", failed=True)),
    ]


REPORT = '{"status": "success", "$ref": "#/parts/0", "report": {"riders": [42, 40], "note": "\\"quoted\\""}}'

HISTORIES: dict[str, Callable[[Case], list[Message]]] = {
    "plain": lambda _: _plain(),
    "parallel-calls": lambda _: exchange(result("c1", "one"), result("c2", "two"), result("c3", "three")),
    "failed-call": lambda _: exchange(result("c1", "no such file", failed=True), result("c2", "fine")),
    "failed-without-words": lambda _: exchange(result("c1", failed=True), result("c2", PNG, failed=True)),
    "three-attachments": lambda _: exchange(result("c1", "Three files:", PNG, PDF, CSV)),
    "every-kind-of-file": lambda _: exchange(result("c1", PNG, JPEG, PDF, CSV, WAV, BINARY, UNNAMED, GONE)),
    "parallel-results-with-files": lambda _: _parallel_files(),
    "thinking-in-between": thinking_in_between,
    "foreign-thinking": lambda _: _foreign_thinking(),
    "orphan-call": lambda _: _orphan_call(),
    "huge-text": lambda _: exchange(result("c1", "0123456789abcdef" * 20_000)),
    "empty-result": lambda _: exchange(result("c1"), result("c2", " \n")),
    "every-plane-of-unicode": lambda _: exchange(result(EVERY_PLANE, EVERY_PLANE)),
    "cancelled-turn": lambda _: _cancelled_turn(),
    "report-of-a-subagent": lambda _: exchange(result("c1", REPORT)),
    "arguments-that-are-not-json": lambda _: _invalid_input(),
    "ids-that-apis-refuse": lambda _: _bad_ids(),
    "files-in-the-prompt": lambda _: [
        Message.user("See:", PNG, PDF, CSV, WAV, BINARY, UNNAMED, GONE, "What are they?")
    ],
    "video": lambda _: [*exchange(result("c1", VIDEO)), Message.assistant("A ride."), Message.user(VIDEO, "And this?")],
    "files-by-url": lambda _: [
        *exchange(result("c1", REMOTE_PNG, REMOTE_PDF)),
        Message.assistant("Two files."),
        Message.user("See:", REMOTE_PNG, REMOTE_PDF),
    ],
    "answer-with-a-schema": lambda _: exchange(result("c1", "one"), result("c2", "two")),
    "server-tools": lambda case: _searched(case),
    "foreign-server-tools": lambda _: [
        Message.user("Search."),
        Message.assistant(
            ServerToolUseBlock("s1", "web_search", {"query": "köln"}, _FOREIGN),
            ServerToolResultBlock("s1", "- [A](https://a.test)", state=_FOREIGN),
            ServerToolUseBlock("s2", "code_execution", {"code": "1/0"}, _FOREIGN),
            ServerToolResultBlock("s2", "exit code 1", is_error=True, state=_FOREIGN),
            TextBlock(
                "A cathedral.", _FOREIGN, (Citation("https://a.test", "A", "words", 0, 12), Citation("", "b.pdf"))
            ),
        ),
        Message.user("More?"),
    ],
    "reminder": lambda _: exchange(result("c1", "one"), result("c2", JPEG)),
}
"""Each history by its name; some are made of what the adapter's own API says."""

SCHEMAS = {
    "answer-with-a-schema": {
        "type": "object",
        "properties": {"town": {"type": "string", "minLength": 1}, "riders": {"type": ["integer", "null"]}},
        "required": ["town"],
    }
}
REMINDERS = {"reminder": "This is your FINAL turn."}


_FOREIGN: ProviderState = ProviderState("elsewhere", "unheard-of", {"type": "opaque"})


def _searched(case: Case) -> list[Message]:
    """A reply with searches and citations, as the API of the case streams it, or as one streams it that can search."""
    maker = case if case.api in STREAMS else ONE_EACH[0]
    *_, reply = heard(maker.adapter(), STREAMS[maker.api])
    assert isinstance(reply, Reply)
    said = [block for block in reply.message.content if not isinstance(block, AttachmentBlock)]
    return [Message.user("Search."), Message.assistant(*said), Message.user("More?")]


def request_of(name: str, case: Case) -> Request:
    """The request that a session would make of a history."""
    return Request(
        repair(HISTORIES[name](case)),
        STORE,
        SYSTEM,
        TOOLS,
        REMINDERS.get(name, ""),
        output_schema=SCHEMAS.get(name),
    )
