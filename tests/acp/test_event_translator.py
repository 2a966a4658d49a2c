"""The event translator with any sequence of events: every call ends, and no text is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider.acp.client import EditorClient
from outrider.acp.connection import Connection
from outrider.acp.content import to_session_update
from outrider.acp.event_translator import EventTranslator
from outrider.acp.update_sender import UpdateSender
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import Delivery, UpdateTarget
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.runtime.events import (
    Compacted,
    CompactionStarted,
    Event,
    HandedOff,
    MessageAdded,
    ModelSwitched,
    Notice,
    ReplyDiscarded,
    ResultsCleared,
    Retrying,
    RunFinished,
    SubagentEvent,
    SubagentFinished,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)
from tests.acp.official import check
from tests.acp.seen import FINAL, Seen
from tests.acp.updates.observing import SlowReader
from tests.lengths import examples

FOLDER = Path("/work")
INPUTS: list[dict[str, Any]] = [{"file_path": "a.txt"}, {"command": "ls"}, {"file_path": 3}, {}, {"path": "b"}]

ids = st.sampled_from(["a", "b", "c"])
names = st.sampled_from(["Read", "Bash", "Edit", "Task", "Todo", "own_tool"])
inputs = st.sampled_from(INPUTS)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
uses = st.builds(ToolUseBlock, ids, names, inputs)
contents = words.map(lambda text: (TextBlock(text),))
results = st.builds(ToolResultBlock, ids, contents, is_error=st.booleans())
progress = st.one_of(
    words, words.map(lambda text: {"output": text}), words.map(lambda name: {"terminal": name}), st.just({"n": 1})
)
details = st.sampled_from([None, {"exit_code": 1}, {"todos": [{"content": "x", "status": "odd"}, 3]}, {"diff": "d"}])
own = st.one_of(
    st.builds(TurnStarted, st.just(1)),
    st.builds(TextDelta, words),
    st.builds(ThinkingDelta, words),
    st.builds(ToolCallDelta, ids, names, st.sampled_from(['{"file_path": "a', '.txt"}', "x", ""])),
    st.builds(ReplyDiscarded, words),
    st.builds(Retrying, st.integers(2, 4), st.floats(0, 30), words),
    st.builds(lambda calls: MessageAdded(Message("assistant", tuple(calls))), st.lists(uses, min_size=1, max_size=3)),
    st.builds(lambda text: MessageAdded(Message.user(text), Usage(1, 2)), words),
    st.builds(ToolStarted, ids, names, inputs, st.just("read")),
    st.builds(ToolProgress, ids, progress),
    st.builds(ToolFinished, ids, names, results, details),
    st.builds(Notice, words),
    st.builds(CompactionStarted, st.just("threshold"), st.integers(0, 10**6)),
    st.builds(Compacted, st.just("threshold"), st.integers(0, 10**6), st.integers(0, 10**6), words),
    st.builds(ResultsCleared, st.integers(1, 9), st.integers(0, 10**6)),
    st.builds(RunFinished, st.just("done"), st.just(1), st.just(Usage())),
)
events = st.one_of(
    own,
    st.builds(SubagentStarted, ids, st.just("child"), st.just("Explore"), words),
    st.builds(SubagentEvent, ids, st.sampled_from(["child", "behind"]), own),
    st.builds(SubagentStarted, ids, st.just("behind"), st.just("Explore"), words, background=st.just(True)),
    st.builds(SubagentFinished, ids, st.just("behind"), st.just("Explore"), words, st.sampled_from(["done", "error"])),
)

ENDED_EARLY: list[Event] = [
    ToolCallDelta("b", "Read", '{"file_path": "a'),
    ToolFinished("b", "Read", ToolResultBlock("b", (TextBlock("0"),))),
    MessageAdded(Message("assistant", (ToolUseBlock("a", "Read", {}),))),
]
"""A call that ends while its arguments arrive, and another one after it."""


class SlowClient(EditorClient):
    """A client that reads as fast as it is told to."""

    def __init__(self, connection: Connection, reader: SlowReader) -> None:
        super().__init__(connection, None)  # type: ignore[arg-type]
        self._reader = reader

    @property
    def is_congested(self) -> bool:
        return self._reader.is_congested

    def when_drained(self, callback: Callable[[], None]) -> None:
        self._reader.when_drained(lambda: asyncio.get_running_loop().call_soon(callback) and None)


class Watched:
    """A translator on a real connection, and an editor that reads it."""

    def __init__(self, *, appends: bool = False) -> None:
        self.lines: list[bytes] = []
        self.reader = SlowReader()
        client = SlowClient(Connection(self.lines.append, {}, {}), self.reader)
        self.sender = UpdateSender(client, "s", lambda file: b"", lambda: (200_000, 0.5))
        send = lambda update: self.sender.send(to_session_update(update, lambda file: b""))  # noqa: E731
        self.engine = Engine(UpdateTarget(send, client), Delivery(appends))
        self.translator = EventTranslator(self.engine, self.sender, FOLDER, appends=appends)

    def end(self) -> Seen:
        """The session is over; what the editor shows."""
        self.translator.subagents.close()
        self.translator.end()
        self.sender.flush()
        seen = Seen()
        for line in self.lines:
            params = json.loads(line)["params"]
            check("SessionNotification", params)
            seen.take(params["update"])
        self.engine.close()
        return seen


async def _follow(happened: Sequence[Event], appends: bool, slow: Sequence[bool]) -> Seen:
    watched = Watched(appends=appends)
    for number, event in enumerate(happened):
        watched.reader.read(slowly=slow[number % len(slow)])
        watched.translator.handle(event)
        if number % 3 == 0:
            await asyncio.sleep(0)
    return watched.end()


@settings(max_examples=examples(60))
@given(st.lists(events, max_size=25), st.booleans(), st.lists(st.booleans(), min_size=1, max_size=4))
@example(ENDED_EARLY, False, [False])
def test_an_editor_can_follow_whatever_happens_and_every_call_ends(
    happened: list[Event], appends: bool, slow: list[bool]
) -> None:
    seen = asyncio.run(_follow(happened, appends, slow))
    assert all(call["status"] in FINAL for call in seen.calls.values())
    assert seen.text() == "".join(event.text for event in happened if isinstance(event, TextDelta))
    thoughts = "".join(event.text for event in happened if isinstance(event, ThinkingDelta))
    assert is_inside(thoughts, seen.text("thought")), "notices stand among the thoughts"
    assert seen.exits.keys() == seen.terminals.keys(), "every terminal ends with its call"


def is_inside(part: str, whole: str) -> bool:
    """Whether all of it is there, in its order."""
    rest = iter(whole)
    return all(character in rest for character in part)


async def test_a_call_is_announced_before_its_words_and_its_end_is_told_after_them() -> None:
    watched = Watched()
    use = ToolUseBlock("a", "Read", {"file_path": "a.txt"})
    watched.translator.handle(TextDelta("Before. "))
    watched.translator.handle(ToolCallDelta("a", "Read", '{"file_path": "a.txt"}'))
    watched.translator.handle(TextDelta("Between. "))
    watched.translator.handle(MessageAdded(Message("assistant", (TextBlock("Before. Between. "), use))))
    watched.translator.handle(ToolFinished("a", "Read", ToolResultBlock("a", (TextBlock("text"),))))
    watched.translator.handle(TextDelta("After."))
    seen = watched.end()
    assert seen.transcript == [("agent", "Before. "), ("call", "a"), ("agent", "Between. After.")]
    told = [(update.get("title"), update.get("status"), said(update)) for update in seen.updates]
    assert told == [
        (None, None, "Before. "),
        ("Read(a.txt)", "pending", ""),
        (None, None, "Between. "),
        (None, "completed", ""),
        (None, None, "After."),
    ]


def said(update: dict[str, Any]) -> str:
    is_chunk = update["sessionUpdate"] == "agent_message_chunk"
    return str(update["content"]["text"]) if is_chunk else ""


COMMAND = ToolUseBlock("a", "Bash", {"command": "ls"})
STREAMED: list[Event] = [
    ToolCallDelta("a", "Bash", '{"command": "l'),
    ToolCallDelta("a", "Bash", 's"}'),
    MessageAdded(Message("assistant", (COMMAND,))),
]
RUNNING: list[Event] = [*STREAMED, ToolStarted("a", "Bash", {"command": "ls"}, "write")]
STOPPED = ToolFinished("a", "Bash", ToolResultBlock("a", (TextBlock("It was stopped."),), is_error=True), {})
RUN_CANCELLED = RunFinished("cancelled", 1, Usage())


@pytest.mark.parametrize(
    ("happened", "has_terminal"),
    [
        ([*RUNNING, ToolProgress("a", {"output": "x"}), RUN_CANCELLED], True),
        ([*RUNNING, RUN_CANCELLED], True),
        ([*RUNNING, STOPPED], True),  # a time-out
        ([*STREAMED, STOPPED], False),  # invalid arguments, or a denial
        ([*STREAMED, RUN_CANCELLED], True),
        ([STREAMED[0], ReplyDiscarded("lost")], True),
    ],
)
async def test_a_terminal_is_announced_with_its_call_and_ends_with_it(
    happened: list[Event], has_terminal: bool
) -> None:
    watched = Watched(appends=True)
    for event in happened:
        watched.translator.handle(event)
        watched.engine.flush()
    seen = watched.end()
    first = seen.of_call("a")[0]
    assert first["sessionUpdate"] == "tool_call"
    assert first["_meta"]["terminal_info"] == {"terminal_id": "a"}
    assert seen.exits == {"a": None}
    assert ({"type": "terminal", "terminalId": "a"} in seen.calls["a"]["content"]) == has_terminal


@pytest.mark.parametrize("happened", [[*RUNNING, STOPPED], [*STREAMED, STOPPED], [*RUNNING, RUN_CANCELLED]])
async def test_a_replayed_command_ends_as_it_did_live(happened: list[Event]) -> None:
    shown = []
    for is_replaying in (False, True):
        watched = Watched(appends=True)
        watched.translator.is_replaying = is_replaying
        for event in happened:
            if not (is_replaying and isinstance(event, ToolCallDelta)):
                watched.translator.handle(event)
        seen = watched.end()
        shown.append((seen.calls["a"], seen.exits))
    assert shown[0] == shown[1]


async def test_words_of_one_moment_go_out_together_and_none_is_lost_to_a_slow_editor() -> None:
    watched = Watched()
    for number in range(100):
        watched.translator.handle(TextDelta(f"{number} "))
    await asyncio.sleep(0)
    assert len(watched.lines) == 1
    watched.reader.read(slowly=True)
    for number in range(100, 200):
        watched.translator.handle(TextDelta(f"{number} "))
        await asyncio.sleep(0)
    assert len(watched.lines) == 1, "while it is slow, words wait for each other"
    watched.reader.read(slowly=False)
    await asyncio.sleep(0)
    assert len(watched.lines) == 2, "and go out as soon as it has caught up"
    assert watched.end().text() == "".join(f"{number} " for number in range(200))


async def test_a_reply_that_does_not_count_ends_its_calls_with_the_reason() -> None:
    watched = Watched()
    watched.translator.handle(ToolCallDelta("a", "Bash", '{"command": "ls'))
    watched.translator.handle(ReplyDiscarded("The connection broke off."))
    watched.translator.handle(ToolCallDelta("a", "Bash", '{"command": "ls"}'))
    use = ToolUseBlock("a", "Bash", {"command": "ls"})
    watched.translator.handle(MessageAdded(Message("assistant", (use,))))
    assert watched.translator.calls.tool_call_id("a") == "a-2"
    watched.translator.handle(ToolStarted("a", "Bash", {"command": "ls"}, "write"))
    watched.translator.handle(ToolFinished("a", "Bash", ToolResultBlock("a", (TextBlock("done"),))))
    seen = watched.end()
    assert {name: call["status"] for name, call in seen.calls.items()} == {"a": "failed", "a-2": "completed"}
    assert "broke off" in str(seen.calls["a"]["content"])


async def test_a_row_of_failures_is_one_notice_and_a_discarded_part_is_named() -> None:
    watched = Watched()
    for event in (
        Retrying(2, 0.5, "overloaded"),
        Retrying(3, 1.0, "overloaded"),
        TextDelta("Half a rep"),
        ReplyDiscarded("reset"),
        Retrying(4, 2.0, "reset"),
        Retrying(5, 4.0, "reset"),
        TextDelta("Whole."),
        MessageAdded(Message.assistant("Whole."), Usage(1, 2)),
        RunFinished("done", 1, Usage()),
    ):
        watched.translator.handle(event)
    assert watched.end().text("thought").splitlines() == [
        "overloaded; retrying in 0.5 s (attempt 2)",
        "reset; retrying in 2.0 s (attempt 4). The part of this reply that was shown is discarded.",
    ]


async def test_a_switched_model_and_a_handoff_are_a_notice_each() -> None:
    watched = Watched()
    for event in (
        TextDelta("Half a rep"),
        ReplyDiscarded("reset"),
        ModelSwitched("a/x", "b/y", "it is down"),
        HandedOff("triage", "billing"),
        TextDelta("Whole."),
        MessageAdded(Message.assistant("Whole."), Usage(1, 2)),
        RunFinished("done", 1, Usage()),
    ):
        watched.translator.handle(event)
    assert watched.end().text("thought").splitlines() == [
        "a/x cannot answer; b/y goes on. it is down. The part of this reply that was shown is discarded.",
        "triage hands over to billing",
    ]


async def test_the_end_of_a_broken_reply_does_not_repeat_the_error() -> None:
    watched = Watched()
    for event in (TextDelta("Half"), ReplyDiscarded("reset"), RunFinished("error", 1, Usage(), error="reset")):
        watched.translator.handle(event)
    assert watched.end().text("thought") == "The part of this reply that was shown is discarded.\n"


async def test_calls_that_got_other_ids_are_the_calls_that_were_announced() -> None:
    watched = Watched()
    for name, command in (("x", "one"), ("y", "two")):
        watched.translator.handle(ToolCallDelta(name, "Bash", json.dumps({"command": command})))
    uses = [ToolUseBlock("x_2", "Bash", {"command": "one"}), ToolUseBlock("y", "Bash", {"command": "two"})]
    watched.translator.handle(MessageAdded(Message("assistant", tuple(uses))))
    for use in uses:
        watched.translator.handle(ToolStarted(use.id, "Bash", use.input, "write"))
        watched.translator.handle(ToolFinished(use.id, "Bash", ToolResultBlock(use.id, (TextBlock("done"),))))
    seen = watched.end()
    told = {name: (call["title"], call["status"]) for name, call in seen.calls.items()}
    assert told == {"x": ("Bash(one)", "completed"), "y": ("Bash(two)", "completed")}
