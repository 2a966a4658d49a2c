"""The commit order is a contract: what it promises holds while commits are slow, when they fail, and under a cancel."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.conversation.history import violations
from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.errors import SessionLostError
from outrider.log.entries import CallResult, Intent, RunStopped
from outrider.log.log import Log
from outrider.log.sqlite import writer as writer_module
from outrider.log.sqlite.database import open_for_writing
from outrider.providers.base import Reply, Request
from outrider.runtime.events import (
    Delta,
    Event,
    MessageAdded,
    ReplyDiscarded,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from outrider.runtime.limits import Limits
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.context import ToolContext
from outrider.tools.tool import tool
from tests.log import DEADLINE, change, entries_of, kinds_of, let_everything_happen, open_session, until_so


class Moment(msgspec.Struct, frozen=True):
    """A commit, by an entry that it brings."""

    name: str
    kind: str
    words: bytes

    def is_in(self, entries: Sequence[tuple[str, bytes]]) -> bool:
        return any(kind == self.kind and self.words in body for kind, body in entries)


class Gate:
    """Stands before every commit of the log: it can be held back, and it can fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commits = 0
        """How many came so far, the failed ones too."""
        self.hold_at: Moment | None = None
        """The commit that is to wait, with those after it, until the gate is opened."""
        self.fail_at: Moment | None = None
        """The commit that fails, as on a full disk, however often it is tried."""
        self.fails = False
        """Whether every commit fails."""
        self._waits = False
        self._open = threading.Event()
        self._open.set()
        opened = open_for_writing
        monkeypatch.setattr(writer_module, "open_for_writing", lambda path: _Gated(opened(path), self))

    def close(self) -> None:
        """Hold back every commit from now on."""
        self._open.clear()

    def open(self) -> None:
        self.hold_at = None
        self._open.set()

    def repair(self) -> None:
        """No commit fails any more."""
        self.fail_at, self.fails = None, False

    def pass_through(self, entries: Sequence[tuple[str, bytes]]) -> None:
        self.commits += 1
        if self.hold_at and self.hold_at.is_in(entries):
            self.close()
        self._waits = True
        assert self._open.wait(DEADLINE), "nobody opened the gate"
        self._waits = False
        if self.fails or (self.fail_at and self.fail_at.is_in(entries)):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    async def reached(self) -> None:
        """Wait until a commit stands before the closed gate, and let the session do whatever it dares to."""
        await until_so(lambda: self._waits and not self._open.is_set())
        await let_everything_happen()


class _Gated:
    """A connection whose commits go through the gate."""

    def __init__(self, connection: sqlite3.Connection, gate: Gate) -> None:
        self._connection = connection
        self._gate = gate
        self._entries: list[tuple[str, bytes]] = []

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith("BEGIN"):
            self._entries = []
        elif statement.startswith("INSERT INTO event"):
            _, _, _, kind, body, _ = values[0]
            self._entries.append((kind, body))
        elif statement == "COMMIT":
            self._gate.pass_through(self._entries)
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open()


@pytest.fixture
def log(tmp_path: Path, gate: Gate) -> Iterator[Log]:
    with Log(tmp_path) as log:
        yield log
        gate.repair()
        gate.open()


class Watched:
    """A session behind the gate, what its observers saw, and what its tools did."""

    def __init__(self, log: Log, gate: Gate, steps: Any = None, limits: Limits | None = None) -> None:
        self.log, self.gate = log, gate
        self.events: list[Event] = []
        self.wrong: list[str] = []
        """What was done or shown before it was on disk."""
        self.done: list[str] = []
        """The calls that tools really carried out."""
        steps = by_heart if steps is None else steps
        self.model = steps if isinstance(steps, ScriptedModel) else ScriptedModel(steps, usage=Usage(1, 1))
        self.session = open_session(log, self.model, self._tools(), limits=limits, observer=self._observe)
        gate.commits = 0

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def on_disk(self) -> list[Message]:
        return self.log.messages(self.session.id)

    def check(self) -> None:
        assert self.wrong == []
        assert self.session.messages == self.on_disk
        assert violations(self.session.history.sendable()) == []
        assert len(self.done) == len(set(self.done)), "no call was carried out twice"

    def _tools(self) -> list[Any]:
        async def work(context: ToolContext, name: str) -> str:
            self._began(context)
            await asyncio.sleep(0)
            return f"{name} is done"

        @tool(concurrent=False)
        async def alone(context: ToolContext, name: str) -> str:
            self._began(context)
            return f"{name} is done"

        @tool(effect="read")
        def look(context: ToolContext, name: str) -> str:
            self._began(context)
            return f"{name} was looked at"

        return [work, alone, look]

    def _began(self, context: ToolContext) -> None:
        self.done.append(context.call_id)
        intents = [entry for entry in entries_of(self.log, self.session.id) if isinstance(entry, Intent)]
        if not any((each.call_id, each.key) == (context.call_id, context.key) for each in intents):
            self.wrong.append(f"{context.call_id} ran before its intent was on disk")
        if not any(use.id == context.call_id for message in self.on_disk for use in message.tool_calls):
            self.wrong.append(f"{context.call_id} ran before the reply was on disk")

    def _observe(self, event: Event) -> None:
        self.events.append(event)
        if not isinstance(event, MessageAdded | ToolStarted | ToolFinished):
            return
        entries = entries_of(self.log, self.session.id)
        match event:
            case MessageAdded(message=message):
                if message not in self.on_disk:
                    self.wrong.append("a message was shown before it was on disk")
            case ToolStarted(call_id=call_id):
                if not any(isinstance(entry, Intent) and entry.call_id == call_id for entry in entries):
                    self.wrong.append(f"{call_id} was shown as begun before its intent was on disk")
            case ToolFinished(result=result):
                if not any(isinstance(entry, CallResult) and entry.result == result for entry in entries):
                    self.wrong.append(f"{result.tool_use_id} was shown as done before its result was on disk")


SCRIPT: tuple[Step, ...] = (
    [
        "I'll do all of it.",
        call("work", name="a"),
        call("look", name="b"),
        call("unheard_of"),
        call("alone", name="c"),
        call("alone", name="d"),
        call("work", wrong="x"),
    ],
    call("work", name="e"),
    "All is done.",
)
"""Calls side by side, calls one by one, a tool that is not there, arguments that make no sense, and two turns."""


def by_heart(request: Request) -> Step:
    """The next line of the script, by what was said so far: a reply that was lost is given again."""
    if request.messages[-1].text:
        return SCRIPT[0] if request.messages[-1].text == "go" else "Yes."
    return SCRIPT[sum(message.role == "assistant" for message in request.messages)]


CALLS = 7
"""How many calls the script makes."""

PROMPT = Moment("the prompt", "message", b'"go"')
REPLY = Moment("a reply with calls", "message", b"I'll do all of it.")
RESULT = Moment("a result", "tool_finished", b'"call_1"')
LATER_INTENT = Moment("the intent of a later call", "tool_started", b'"call_4"')
LATER_RESULT = Moment("the result of a later call", "tool_finished", b'"call_4"')
SECOND_REPLY = Moment("a second reply with a call", "message", b'"name":"e"')
LAST_RESULT = Moment("the last result", "tool_finished", b'"call_7"')
ANSWER = Moment("the answer", "message", b"All is done.")
MOMENTS = (PROMPT, REPLY, RESULT, LATER_INTENT, LATER_RESULT, SECOND_REPLY, LAST_RESULT, ANSWER)

at_each_moment = pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)


def in_order(model: ScriptedModel, watched: Watched) -> None:
    """Have each request compared with what is on disk when it comes."""
    play = model._next

    def next_step(request: Request) -> Step:
        if list(request.messages) != watched.on_disk:
            watched.wrong.append("the model was asked about something that was not on disk")
        return play(request)

    model._next = next_step  # type: ignore[method-assign]


# All is well


async def test_nothing_is_done_shown_or_asked_before_it_is_on_disk(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)
    in_order(watched.model, watched)
    result = await watched.session.run("go")
    assert (result.status, result.text) == ("done", "All is done.")
    assert len(watched.of(ToolFinished)) == CALLS
    watched.check()


async def test_the_entries_stand_in_the_order_that_was_promised(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate, [[call("work", name="a"), call("look", name="b")], "ok"])
    await watched.session.run("go")
    began, settings, *kinds = kinds_of(log, watched.session.id)
    assert (began, settings) == ("began", "settings")
    assert kinds == [
        "run_started",
        "message",
        "requested",
        "message",
        "tool_started",
        "tool_started",
        "tool_finished",
        "tool_finished",
        "message",
        "run_stopped",
    ]


async def test_a_reply_and_the_intents_of_its_first_calls_share_one_commit(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate, [call("work", name="a"), "ok"])
    await watched.session.run("go")
    assert gate.commits == 4, "the prompt, the reply with the intent, the result, and the answer"


# Slow commits


async def test_the_model_is_not_asked_before_the_message_of_the_person_is_on_disk(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)
    gate.close()
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    assert watched.model.requests == []
    assert watched.of(MessageAdded) == []
    assert watched.on_disk == watched.session.messages == []
    gate.open()
    assert (await running).status == "done"
    watched.check()


async def test_no_tool_begins_before_the_reply_and_the_intent_are_on_disk(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)
    gate.hold_at = REPLY
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    assert len(watched.model.requests) == 1
    assert watched.done == []
    assert watched.of(ToolStarted) == []
    assert [event.message.role for event in watched.of(MessageAdded)] == ["user"]
    assert watched.on_disk == watched.session.messages == [Message.user("go")]
    gate.open()
    assert (await running).status == "done"
    watched.check()


async def test_a_call_that_waits_for_its_turn_waits_for_its_intent_as_well(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)
    gate.hold_at = LATER_INTENT
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    assert set(watched.done) == {"call_1", "call_2"}
    assert {event.call_id for event in watched.of(ToolStarted)} == {"call_1", "call_2"}
    gate.open()
    assert (await running).status == "done"
    watched.check()


async def test_act_alone_records_its_intents_before_it_begins(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate, [call("work", name="a")])
    await watched.session.think("go")
    gate.close()
    acting = asyncio.ensure_future(watched.session.act())
    await gate.reached()
    assert watched.done == []
    gate.open()
    await acting
    assert len(watched.done) == 1
    watched.check()


async def test_a_result_is_not_shown_and_the_model_not_asked_before_it_is_on_disk(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate, [[call("work", name="a"), call("work", name="b")], "ok"])
    gate.hold_at = RESULT
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    assert len(watched.done) == 2
    assert watched.of(ToolFinished) == []
    assert len(watched.model.requests) == 1
    assert len(watched.of(MessageAdded)) == 2
    gate.open()
    assert (await running).status == "done"
    assert len(watched.of(ToolFinished)) == 2
    watched.check()


async def test_the_end_of_a_run_is_not_told_before_the_answer_is_on_disk(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)
    gate.hold_at = ANSWER
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    assert not running.done()
    assert watched.of(RunFinished) == []
    assert watched.session.messages[-1].role == "user"
    gate.open()
    assert (await running).text == "All is done."
    watched.check()


# Commits that fail


@pytest.mark.sampled(2)
@at_each_moment
async def test_a_disk_that_is_full_ends_the_run_with_the_reason_and_the_next_run_goes_on(
    log: Log, gate: Gate, moment: Moment
) -> None:
    watched = Watched(log, gate)
    gate.hold_at = moment
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    gate.fails = True
    gate.open()
    result = await running
    assert result.status == "error"
    assert "the disk is full. Free some space and continue" in result.error
    assert watched.of(RunFinished)[-1].error == result.error
    watched.check()
    gate.repair()
    result = await watched.session.run("" if watched.session.messages else "go")
    assert (result.status, result.text) == ("done", "All is done.")
    assert watched.session.history.pending == ()
    watched.check()


@at_each_moment
async def test_one_commit_that_fails_leaves_memory_as_the_disk_is(log: Log, gate: Gate, moment: Moment) -> None:
    watched = Watched(log, gate)
    gate.fail_at = moment
    result = await watched.session.run("go")
    assert result.status == "error"
    taken_back = [event.reason for event in watched.of(ReplyDiscarded)]
    assert taken_back == ([result.error] if moment in (REPLY, SECOND_REPLY, ANSWER) else []), "what was shown in vain"
    watched.check()


@at_each_moment
async def test_a_prompt_after_a_failed_commit_is_answered_and_memory_and_disk_agree(
    log: Log, gate: Gate, moment: Moment
) -> None:
    watched = Watched(log, gate)
    gate.fail_at = moment
    assert (await watched.session.run("go")).status == "error"
    gate.repair()
    result = await watched.session.run("Are you there?")
    assert (result.status, result.text) == ("done", "Yes.")
    watched.check()


@pytest.mark.parametrize("moment", [PROMPT, REPLY, RESULT, ANSWER], ids=lambda moment: moment.name)
async def test_another_process_goes_on_after_a_disk_that_was_full(log: Log, gate: Gate, moment: Moment) -> None:
    steps: list[Step] = [["I'll do all of it.", call("work", name="a"), call("work", name="b")], "All is done."]
    watched = Watched(log, gate, steps)
    gate.hold_at = moment
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    gate.fails = True
    gate.open()
    assert (await running).status == "error"
    gate.repair()
    watched.session.close()
    rest = steps if len(watched.on_disk) < 2 else steps[1:]
    with open_session(log, rest, watched._tools(), id=watched.session.id) as session:
        watched.session = session
        result = await session.run("" if session.messages else "go")
        assert (result.status, result.text) == ("done", "All is done.")
        assert log.messages(session.id) == session.messages
        assert len(watched.done) == 2, "what ran and could not be written down is unknown, and not run again"


async def test_a_result_that_could_not_be_written_is_written_later_and_shown_then(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate, [call("work", name="a"), "ok"])
    gate.fail_at = RESULT
    assert (await watched.session.run("go")).status == "error"
    assert watched.of(ToolFinished) == [], "what is not on disk is not shown as done"
    gate.repair()
    assert (await watched.session.run()).status == "done"
    assert [event.result.text for event in watched.of(ToolFinished)] == ["a is done"]
    assert len(watched.done) == 1
    watched.check()


async def test_calls_that_were_not_begun_when_the_disk_was_full_stay_open_and_are_carried_out_later(
    log: Log, gate: Gate
) -> None:
    watched = Watched(log, gate)
    gate.fail_at = LATER_INTENT
    assert (await watched.session.run("go")).status == "error"
    assert watched.done == ["call_1", "call_2"]
    answered = {
        entry.result.tool_use_id for entry in entries_of(log, watched.session.id) if isinstance(entry, CallResult)
    }
    assert answered == {"call_1", "call_2", "call_3"}, "nobody says of the others that they were cancelled"
    assert "call_4" in {use.id for use in watched.session.history.pending}
    gate.repair()
    assert (await watched.session.run()).text == "All is done."
    assert set(watched.done) == {"call_1", "call_2", "call_4", "call_5", "call_7"}
    watched.check()


async def test_a_session_that_was_taken_over_stops_with_the_reason(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)

    def lose(event: Event) -> None:
        if isinstance(event, ToolStarted):
            change(log, "UPDATE session SET fence = fence + 1")

    watched.session.observe(lose)
    result = await watched.session.run("go")
    assert result.status == "error"
    assert "taken over by another process" in result.error
    assert watched.session.messages == watched.on_disk
    assert "tool_finished" not in kinds_of(log, watched.session.id)
    with pytest.raises(SessionLostError):
        await watched.session.think("still there?")


# Cancels


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["cancel()", "task.cancel()"])
@at_each_moment
async def test_a_cancel_during_a_commit_waits_for_it_and_then_cancels(
    log: Log, gate: Gate, moment: Moment, how: str
) -> None:
    watched = Watched(log, gate)
    gate.hold_at = moment
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    before = len(watched.session.messages)
    watched.session.cancel() if how == "cancel()" else running.cancel()
    await let_everything_happen()
    assert not running.done()
    assert watched.of(RunFinished) == []
    assert len(watched.session.messages) == before
    gate.open()
    await asyncio.wait([running], timeout=DEADLINE)
    status = "done" if moment is ANSWER else "cancelled"  # the end of the run is stored with its answer
    if how == "cancel()":
        assert running.result().status == status
    else:
        assert running.cancelled()
    assert watched.of(RunFinished)[-1].status == status
    assert watched.session.history.pending == ()
    started = {event.call_id for event in watched.of(ToolStarted)}
    assert started <= {event.call_id for event in watched.of(ToolFinished)}, "every call is answered"
    watched.check()
    assert (await watched.session.run("go on")).status == "done"
    watched.check()


@pytest.mark.parametrize("moment", [PROMPT, RESULT, ANSWER], ids=lambda moment: moment.name)
async def test_a_time_limit_during_a_commit_waits_for_it_and_then_ends_the_run(
    log: Log, gate: Gate, moment: Moment
) -> None:
    watched = Watched(log, gate, [call("work", name="a"), "All is done."], limits=Limits(max_seconds=0.5))
    gate.hold_at = moment
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    begun = time.monotonic()
    await until_so(lambda: running.done() or time.monotonic() > begun + 0.6)
    assert not running.done()
    gate.open()
    await asyncio.wait([running], timeout=DEADLINE)
    assert not running.cancelled(), "nobody cancelled it"
    assert running.result().status == ("done" if moment is ANSWER else "max_seconds")
    assert watched.of(RunFinished)[-1].status == running.result().status
    assert watched.session.history.pending == ()
    watched.check()


@pytest.mark.sampled(2)
@at_each_moment
async def test_a_cancel_during_a_commit_that_then_fails_leaves_memory_as_the_disk_is(
    log: Log, gate: Gate, moment: Moment
) -> None:
    watched = Watched(log, gate)
    gate.hold_at = moment
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    watched.session.cancel()
    await let_everything_happen()
    gate.fails = True
    gate.open()
    result = await running
    gate.repair()
    assert result.status == "cancelled", "the cancel goes before the error of the commit"
    watched.check()
    assert (await watched.session.run("go on")).status == "done"
    watched.check()


async def test_a_cancel_in_the_middle_of_a_reply_whose_words_cannot_be_kept_cancels_the_caller(
    log: Log, gate: Gate
) -> None:
    model = ScriptedModel(lambda request: ["One two ", "three."], chunk=4)
    watched = Watched(log, gate, model)
    play = model.stream

    async def stream(request: Request) -> AsyncIterator[Delta | Reply]:
        async for item in play(request):
            yield item
            await asyncio.sleep(0)

    model.stream = stream  # type: ignore[method-assign]
    running = asyncio.ensure_future(watched.session.run("go"))

    def observer(event: Event) -> None:
        if isinstance(event, TextDelta):
            gate.fails = True
            running.cancel()

    watched.session.observe(observer)
    await asyncio.wait([running], timeout=DEADLINE)
    gate.repair()
    assert running.cancelled()
    watched.check()


@at_each_moment
async def test_a_caller_that_is_cancelled_during_a_commit_that_then_fails_is_not_told_that_all_is_well(
    log: Log, gate: Gate, moment: Moment
) -> None:
    watched = Watched(log, gate)
    gate.hold_at = moment
    running = asyncio.ensure_future(watched.session.run("go"))
    await gate.reached()
    running.cancel()
    await let_everything_happen()
    gate.fails = True
    gate.open()
    await asyncio.wait([running], timeout=DEADLINE)
    gate.repair()
    assert running.cancelled(), "whoever was cancelled stops"
    watched.check()


async def test_a_session_whose_disk_is_full_can_be_closed(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)
    with watched.session:
        gate.fails = True
        assert (await watched.session.run("go")).status == "error"
    gate.repair()


async def test_a_cancel_is_recorded(log: Log, gate: Gate) -> None:
    watched = Watched(log, gate)
    watched.session.observe(lambda event: watched.session.cancel() if isinstance(event, ToolStarted) else None)
    assert (await watched.session.run("go")).status == "cancelled"
    (*_, last) = (record.entry for record in log.records(watched.session.id))
    assert isinstance(last, RunStopped)
    assert (last.status, last.turns) == ("cancelled", 1)
    watched.check()
