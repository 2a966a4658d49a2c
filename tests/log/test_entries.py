"""Stored entries: they round-trip, and unknown kinds are kept unchanged."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.history import repair, violations
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.errors import LogError, NewerLogError
from outrider.log.entries import (
    Asked,
    AttachmentStored,
    AttemptFailed,
    BackgroundTask,
    CallResult,
    CompactionEntry,
    Decided,
    Entry,
    GoalChecked,
    Intent,
    MessageEntry,
    Requested,
    ResultsClearedEntry,
    RewindEntry,
    RunCancelled,
    RunStarted,
    RunStopped,
    SessionRecovered,
    SessionSettings,
    SessionStarted,
    SnapshotEntry,
    SteeringDelivered,
    SteeringQueued,
    SteeringWithdrawn,
    SubagentLinked,
    TitleEntry,
    UnknownEntry,
)
from outrider.log.log import Log
from outrider.log.rows import KINDS, MAX_DEPTH, decode, decode_if_known, encode
from outrider.log.state import SessionState
from outrider.providers.base import StopReason, ToolSpec
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call
from outrider.tools.result import ToolResult
from tests.log import Process, entries_of, open_session

FILE = AttachmentBlock("ab" * 32, "image/png", 4711, "chart.png", "the third quarter")
RESULT = ToolResultBlock("call_1", (TextBlock("content of a"), FILE), True, FILE)

EXAMPLES: list[Entry] = [
    SessionStarted("0123", "1.2.3"),
    SessionStarted("0123", "1.2.3", "4567", 8, "89ab"),
    SessionSettings(),
    SessionSettings("A title", "demo", "Be brief.", ("read", "write"), {"max_turns": 50, "max_cost": None}, "/home/me"),
    MessageEntry(Message.user("Hello")),
    MessageEntry(
        Message.assistant(ToolUseBlock("c", "read", {"path": "a"})), Usage(3, 4, cost=0.5), StopReason.TOOL_USE, "demo"
    ),
    Intent("c", "read", "read", "0123/c", {"path": "a", "lines": [1, 2]}),
    CallResult(ToolResultBlock("c", ())),
    CallResult(ToolResultBlock("c", ()), handoff="billing"),
    SessionSettings(model="b", agent="billing", former="a", reason="down"),
    SessionSettings(origin="print"),
    CallResult(RESULT, final=True, details={"exit code": 1, "lines": [1, 2.5, None, True]}),
    AttemptFailed("the reply broke off", 2),
    AttemptFailed("overloaded", 1, 0.5, Usage(3, 4), "demo"),
    AttachmentStored(FILE),
    RunCancelled(),
    SubagentLinked("c", "4567"),
    BackgroundTask("4567", "c", "Explore", "find it"),
    BackgroundTask("4567", "c", "Explore", "find it", "done", "It is there.", is_told=True, isolation="worktree"),
    BackgroundTask("4567", "c", "A", "t", tier="fast", output_schema={"type": "object"}, structured_output=None),
    SessionRecovered((2, 3), 2),
    CompactionEntry(Message.user("The goal."), 4, "manual", 9_000, 800, Usage(3, 4), "demo"),
    ResultsClearedEntry(3, 700, 2),
    SnapshotEntry("/home/me", "ab" * 32, 3, is_whole=True, opens=True, restores=True),
    RewindEntry(2, 7, conversation=False, files=True, undo=True),
    SteeringQueued("q1", Message.user("Use tabs.")),
    SteeringWithdrawn("q1"),
    SteeringDelivered("q1"),
    TitleEntry("Sums", Usage(input_tokens=3), "demo"),
    Requested(),
    RunStarted(),
    RunStarted({"max_turns": 3}, continues=True),
    GoalChecked("pytest -q", False, "1 failed", "ab12"),
    RunStopped("done"),
    RunStopped("error", 2, Usage(3, 4, cost=0.5), "it broke", "text", {"n": [1]}),
    Asked("q", "c", {"kind": "permission", "tool": "Bash"}),
    Decided(False, "the user", "c", "q", "no"),
    Decided(True, "a rule"),
    Decided(True, "the user", "c", input={"path": "b"}),
    Requested(
        "Be brief.", (ToolSpec("read", "Reads.", {"type": "object"}),), ({"name": "web_search"},), {"effort": "low"}
    ),
    Requested(output_schema=None, reminder="This is the last turn.", situation="Today is Monday."),
]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
inputs = st.dictionaries(texts, values, max_size=3)
states = st.none() | st.builds(ProviderState, texts, texts, values, texts)
attachments = st.builds(AttachmentBlock, texts, texts, st.integers(0, 2**63 - 1), texts, texts)
text_blocks = st.builds(TextBlock, texts, states)
contents = st.lists(text_blocks | attachments, max_size=3).map(tuple)
results = st.builds(ToolResultBlock, texts, contents, st.booleans(), st.none() | attachments)
blocks: st.SearchStrategy[Block] = st.one_of(
    text_blocks,
    st.builds(ThinkingBlock, texts, states),
    st.builds(ToolUseBlock, texts, texts, inputs, st.none() | texts, states),
    results,
    attachments,
)
messages = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=4).map(tuple))
counts = st.integers(0, 2**53)
usages = st.builds(
    Usage, counts, counts, counts, counts, counts, st.none() | st.floats(0, allow_nan=False, allow_infinity=False)
)

examples = pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: type(entry).__name__)


# There and back


def test_there_is_an_example_of_every_kind() -> None:
    assert {type(entry) for entry in EXAMPLES} == set(KINDS.values())


@examples
def test_an_entry_of_any_kind_comes_back_as_it_went_in(entry: Entry) -> None:
    kind, body = encode(entry)
    assert KINDS[kind] is type(entry)
    assert decode(kind, body) == entry
    assert encode(decode(kind, body)) == (kind, body)


@given(messages, st.none() | usages)
def test_any_message_comes_back_as_it_went_in(message: Message, usage: Usage | None) -> None:
    entry = MessageEntry(message, usage, "end", "demo")
    assert decode(*encode(entry)) == entry


@given(results, st.booleans(), values)
def test_any_result_comes_back_as_it_went_in(result: ToolResultBlock, final: bool, details: Any) -> None:
    entry = CallResult(result, final, details)
    assert decode(*encode(entry)) == entry


@given(texts, texts, inputs)
def test_any_intent_comes_back_as_it_went_in(call_id: str, key: str, asked: dict[str, Any]) -> None:
    entry = Intent(call_id, "write", "write", key, asked)
    assert decode(*encode(entry)) == entry


def test_the_kinds_are_those_that_files_out_there_have() -> None:
    assert sorted(KINDS) == [
        "asked",
        "attachment",
        "attempt_failed",
        "background",
        "began",
        "cancelled",
        "compacted",
        "decided",
        "goal_checked",
        "message",
        "recovered",
        "requested",
        "results_cleared",
        "rewound",
        "run_started",
        "run_stopped",
        "settings",
        "snapshot",
        "steering_delivered",
        "steering_queued",
        "steering_withdrawn",
        "subagent",
        "titled",
        "tool_finished",
        "tool_started",
    ]


def test_a_body_is_the_json_of_the_fields_that_say_something() -> None:
    assert encode(MessageEntry(Message.user("Hello"))) == (
        "message",
        b'{"message":{"role":"user","content":[{"type":"text","text":"Hello"}]}}',
    )
    assert encode(RunCancelled()) == ("cancelled", b"{}")


# From a newer version


@given(texts.filter(lambda name: name not in KINDS), st.binary())
def test_a_kind_that_is_not_known_is_kept_byte_for_byte(kind: str, body: bytes) -> None:
    entry = decode(kind, body)
    assert isinstance(entry, UnknownEntry)
    assert encode(entry) == (kind, body)


@examples
def test_a_field_that_is_not_known_is_passed_over(entry: Entry) -> None:
    kind, body = encode(entry)
    newer = {"mood": {"of": ["the", "model"]}, **msgspec.json.decode(body)}
    assert decode(kind, msgspec.json.encode(newer)) == entry


async def test_a_session_with_entries_of_a_newer_version_can_be_read_copied_and_continued(tmp_path: Path) -> None:
    future = UnknownEntry("mood", msgspec.Raw(b'{"of" :  "the model","intensity":1.50}'))
    with Log(tmp_path) as log:
        with open_session(log, ["One."]) as session:
            await session.run("first")
        journal = log.open(session.id)
        journal.write_now(future)
        journal.close()
        with open_session(log, ["Two."], id=session.id) as session:
            await session.run("second")
            said = session.messages
        assert [message.text for message in said] == ["first", "One.", "second", "Two."]

        fork = log.fork(session.id)
        for name in (session.id, fork):
            assert log.messages(name) == said
            found = [entry for entry in entries_of(log, name) if isinstance(entry, UnknownEntry)]
            assert [(entry.name, bytes(entry.body)) for entry in found] == [(future.name, bytes(future.body))]
            assert log.session(name).last == len(entries_of(log, name))

        with open_session(log, ["Three."], id=fork) as again:
            assert again.messages == said
            assert (await again.run("third")).text == "Three."


def test_an_entry_that_is_not_known_changes_nothing_of_a_session() -> None:
    entries: list[Entry] = [
        MessageEntry(Message.user("go")),
        MessageEntry(Message.assistant(ToolUseBlock("c", "read", {}))),
        Intent("c", "read", "read", "k", {}),
        CallResult(ToolResultBlock("c", (TextBlock("a"),))),
        MessageEntry(Message.assistant("Done.")),
    ]
    plain = SessionState(entries)
    for place in range(len(entries) + 1):
        mixed = SessionState([*entries[:place], UnknownEntry("mood", msgspec.Raw(b"{}")), *entries[place:]])
        assert (mixed.messages, mixed.intents, mixed.answers) == (plain.messages, plain.intents, plain.answers)
    assert violations(plain.messages[:3]) == []


# What this version cannot read: that it is as it was written was checked before, so a newer version wrote it


def unreadable(kind: str, body: bytes) -> None:
    """It is refused by those who must understand it, and passed over by those who only look."""
    with pytest.raises(NewerLogError, match=f"kind '{kind}' was written by a newer version of Outrider .*upgrade"):
        decode(kind, body)
    entry = decode_if_known(kind, body)
    assert isinstance(entry, UnknownEntry)
    assert encode(entry) == (kind, body), "and copied as it is"


@examples
def test_a_body_that_ends_too_early_cannot_be_read(entry: Entry) -> None:
    kind, body = encode(entry)
    for length in range(len(body)):
        unreadable(kind, body[:length])


@examples
def test_who_only_looks_sees_what_can_be_read(entry: Entry) -> None:
    assert decode_if_known(*encode(entry)) == entry


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"hello"',
        b"{",
        b'{"message": 3}',
        b'{"message": {"role": "system", "content": []}}',
        b'{"message": {"role": "user", "content": [{"type": "unheard-of"}]}}',
        b'{"message": {"role": "user", "content": [3]}}',
        b'{"message": {"role": "user", "content": {}}}',
        b'{"message": {"role": "user"}}',
        b"\xff\xfe",
        b'{"message": {"role": "user", "content": "\xff"}}',
        b'{"message": {"role": "user", "content": "\\ud800"}}',
        b"[" * 100_000,
        b'{"message":' * 100_000,
    ],
)
def test_a_body_that_is_no_message_cannot_be_read(body: bytes) -> None:
    unreadable("message", body)


@given(st.sampled_from(sorted(KINDS)), st.binary())
def test_no_bytes_raise_anything_but_that_they_cannot_be_read(kind: str, body: bytes) -> None:
    with contextlib.suppress(NewerLogError):
        assert isinstance(decode(kind, body), KINDS[kind])


@given(st.sampled_from(EXAMPLES), st.integers(0), values)
def test_a_value_in_the_wrong_place_raises_nothing_but_that_it_cannot_be_read(
    entry: Entry, place: int, value: Any
) -> None:
    kind, body = encode(entry)
    plain = msgspec.json.decode(body)
    places = list(_places(plain))
    if places:
        container, key = places[place % len(places)]
        container[key] = value
    with contextlib.suppress(NewerLogError):
        assert isinstance(decode(kind, msgspec.json.encode(plain)), KINDS[kind])


def _places(value: Any) -> Any:
    """Each container with each of its keys, the inner ones too."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


async def test_a_session_with_a_message_that_cannot_be_read_is_shown_and_copied_but_not_continued(
    tmp_path: Path,
) -> None:
    newer = UnknownEntry("message", msgspec.Raw(b'{"message":{"role":"user","content":[{"type":"hologram"}]}}'))
    with Log(tmp_path) as log:
        with open_session(log, ["One."]) as session:
            await session.run("first")
        journal = log.open(session.id)
        journal.write_now(newer)
        journal.close()
        for name in (session.id, log.fork(session.id)):
            for found in (entries_of(log, name)[-1], log.newest(name, 1)[0].entry):
                assert isinstance(found, UnknownEntry)
                assert (found.name, bytes(found.body)) == (newer.name, bytes(newer.body))
            place = log.session(name).last
            with pytest.raises(NewerLogError, match=f"entry {place}: an entry of kind 'message' .*upgrade"):
                log.messages(name)
            assert [message.text for message in log.messages(name, upto=place - 1)] == ["first", "One."]
            with pytest.raises(NewerLogError):
                open_session(log, id=name)
            assert log.session(name).holder is None, "who could not open it does not hold it"


# What is not JSON


class Opaque:
    def __repr__(self) -> str:
        return "<something opaque>"


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("it cannot be said")


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Unreadable(set[int]):
    """A set that cannot be looked into."""

    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("the connection is gone")


def details_of(details: Any) -> Any:
    entry = decode(*encode(CallResult(ToolResultBlock("c", ()), details=details)))
    assert isinstance(entry, CallResult)
    json.dumps(entry.details)
    return entry.details


def test_details_that_are_not_json_are_kept_in_words() -> None:
    assert details_of(Opaque()) == "<something opaque>"
    assert details_of({"the thing": [Opaque(), 3]}) == {"the thing": ["<something opaque>", 3]}
    assert details_of({1: "one", (2, 3): "two and three"}) == {"1": "one", "(2, 3)": "two and three"}
    assert details_of({1}) == [1]
    assert details_of(Path("/tmp/a")) in ("/tmp/a", repr(Path("/tmp/a")))
    assert isinstance(details_of(ValueError("no luck")), str)


@pytest.mark.parametrize(
    "details",
    ["\ud800", {"a": ["\ud800"]}, {"\ud800": 1}, Unspeakable(), endless(), Unreadable([1]), [[]] * 3],
    ids=["surrogate", "surrogate within", "surrogate as key", "repr fails", "contains itself", "unreadable", "plain"],
)
def test_no_details_keep_an_answer_from_being_stored(details: Any) -> None:
    answer = decode(*encode(CallResult(RESULT, details=details)))
    assert isinstance(answer, CallResult)
    assert answer.result == RESULT


def nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"in": value}
    return value


def test_what_is_nested_too_deeply_to_be_read_again_is_refused_when_it_is_written() -> None:
    asked = {"in": nested(MAX_DEPTH - 3)}
    entry = Intent("c", "write", "write", "k", asked)
    assert decode(*encode(entry)) == entry
    for depth in (MAX_DEPTH, 10 * MAX_DEPTH, 100_000):
        with pytest.raises(LogError, match=r"nested more than 200 levels deep|cannot be stored"):
            encode(Intent("c", "write", "write", "k", {"in": nested(depth)}))


def test_brackets_in_text_are_no_nesting() -> None:
    entry = Intent("c", "write", "write", "k", {"text": "[{" * 10_000 + '"\\' + "[" * 1000, "list": [[]] * 1000})
    assert decode(*encode(entry)) == entry


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
async def test_details_that_are_nested_too_deeply_do_not_keep_a_run_from_its_end(tmp_path: Path, depth: int) -> None:
    async def odd() -> ToolResult:
        return ToolResult("It is done.", details=nested(depth))

    with Log(tmp_path) as log, open_session(log, [call("odd"), "ok"], [odd]) as session:
        result = await asyncio.wait_for(session.run("go"), 60)
        assert result.status in ("done", "error")
        assert log.messages(session.id) == session.messages


def test_an_entry_that_cannot_be_stored_says_so() -> None:
    with pytest.raises(LogError, match="'tool_started' cannot be stored"):
        encode(Intent("c", "write", "write", "k", {"itself": endless()}))


@pytest.mark.parametrize("details", ["'\\ud800'", "Unspeakable()"], ids=["surrogate", "repr fails"])
def test_a_tool_with_any_details_is_answered_and_the_run_ends(tmp_path: Path, details: str) -> None:
    script = """
        from outrider.tools.result import ToolResult

        class Unspeakable:
            def __repr__(self):
                raise ValueError("it cannot be said")

        async def odd():
            return ToolResult("It is done.", details=eval(arguments[1]))

        agent = Agent(ScriptedModel([call("odd"), "ok"]), tools=[odd])
        session = Session.open(Log(arguments[0]), agent=agent).now()
        say("ready")
        say(asyncio.run(session.run("go")).status)
    """
    with Process(script, tmp_path, details) as process:
        assert process.hear() == "ready"
        assert process.hear(seconds=4) == "done"


@pytest.mark.parametrize("how", ["prompt", "tool_results"])
async def test_text_that_cannot_be_encoded_does_not_break_a_session_in_a_log(tmp_path: Path, how: str) -> None:
    async def nothing() -> None: ...

    with Log(tmp_path) as log:
        session = open_session(log, [[ToolUseBlock("c", "nothing", {})], "ok"], [nothing])
        await session.think("go")
        broken = TextBlock("caf\ud800")
        if how == "prompt":
            reply = await session.think([broken])
        else:
            reply = await session.think(tool_results=[ToolResultBlock("c", (broken,))])
        assert reply.text == "ok"
        assert repair(log.messages(session.id)) == list(session.history.sendable())
        assert violations(session.history.sendable()) == []


def test_instructions_that_cannot_be_encoded_do_not_break_a_session_in_a_log(tmp_path: Path) -> None:
    with (
        Log(tmp_path) as log,
        Session.open(log, agent=Agent(model=ScriptedModel(["ok"]), system="caf\ud800")) as session,
    ):
        assert asyncio.run(session.run("go")).text == "ok"


def test_a_result_with_details_keeps_them_apart_from_what_the_model_reads() -> None:
    result = ToolResult("17 lines", details={"lines": 17})
    entry = CallResult(ToolResultBlock("c", (TextBlock(result.text),)), details=copy.deepcopy(result.details))
    assert SessionState([MessageEntry(Message.assistant(ToolUseBlock("c", "count", {}))), entry]).messages[
        -1
    ] == Message.user(ToolResultBlock("c", (TextBlock("17 lines"),)))
