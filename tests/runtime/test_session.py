"""The loop: think, act, run, and what observers see of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.errors import AttachmentError, ConversationError, ProviderError, SessionBusyError
from outrider.providers.base import Reply, StopReason
from outrider.runtime.agent import Agent
from outrider.runtime.calls import CHECK
from outrider.runtime.events import (
    Event,
    MessageAdded,
    Notice,
    ReplyDiscarded,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)
from outrider.runtime.limits import FORMER_NAMES, Limits
from outrider.runtime.session import Session
from outrider.testing import Cut, ScriptedModel, call, malformed_call
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import tool
from tests.watching import Watched, last_results

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


async def read(path: str) -> str:
    """Read a file."""
    if path == "missing":
        raise FileNotFoundError("no such file: missing")
    return f"content of {path}"


# One call, several calls


async def test_one_read_gives_a_call_and_then_a_user_message_with_its_result() -> None:
    watched = Watched([call("read", path="a"), "It says a."], [read])
    result = await watched.session.run("Read a")
    assert result.status == "done"
    assert result.turns == 2
    assert result.text == "It says a."
    assert result.conversation == [
        Message.user("Read a"),
        Message.assistant(ToolUseBlock("call_1", "read", {"path": "a"})),
        Message.user(ToolResultBlock("call_1", (TextBlock("content of a"),))),
        Message.assistant("It says a."),
    ]
    watched.check()


async def test_results_stand_in_one_message_in_call_order_whichever_finished_first() -> None:
    second_is_done = asyncio.Event()

    async def slow() -> str:
        await second_is_done.wait()
        return "slow"

    async def fast() -> str:
        second_is_done.set()
        return "fast"

    watched = Watched([[call("slow"), call("fast")], "ok"], [slow, fast])
    await watched.session.run("go")
    assert last_results(watched.session) == [("slow", False), ("fast", False)]
    assert [event.name for event in watched.of(ToolFinished)] == ["fast", "slow"]
    watched.check()


async def test_only_the_failure_is_flagged_and_its_sibling_survives() -> None:
    watched = Watched([[call("read", path="missing"), call("read", path="a")], "ok"], [read])
    result = await watched.session.run("go")
    assert result.status == "done"
    (failed, was_error), sibling = last_results(watched.session)
    assert was_error
    assert "FileNotFoundError: no such file: missing" in failed
    assert sibling == ("content of a", False)
    watched.check()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (call("nonsense"), ["no tool named 'nonsense'", "read"]),
        (malformed_call("read", '{"path": "a'), ["not a JSON object", '{"path": "a']),
        (call("read", path=3, mode="x"), ["path", "mode"]),
        (call("read"), ["path"]),
        (call("read", path="missing"), ["FileNotFoundError"]),
    ],
    ids=["unknown tool", "arguments do not parse", "arguments do not validate", "argument missing", "exception"],
)
async def test_what_goes_wrong_with_a_call_is_an_error_result_and_the_loop_goes_on(
    bad: ToolUseBlock, words: list[str]
) -> None:
    watched = Watched([bad, "sorry"], [read])
    result = await watched.session.run("go")
    assert (result.status, result.text) == ("done", "sorry")
    ((text, is_error),) = last_results(watched.session)
    assert is_error
    for word in words:
        assert word in text
    watched.check()


async def test_a_tool_past_its_time_is_answered_with_an_error() -> None:
    @tool(timeout=0.01)
    async def endless() -> str:
        await asyncio.Event().wait()
        return "never"

    watched = Watched([call("endless"), "ok"], [endless])
    result = await watched.session.run("go")
    assert result.status == "done"
    assert last_results(watched.session) == [(f"endless did not finish within 0.01 seconds. {CHECK}", True)]
    watched.check()


async def test_without_a_limit_a_tool_may_take_its_time() -> None:
    async def slow() -> str:
        await asyncio.sleep(0.01)
        return "in the end"

    watched = Watched([call("slow"), "ok"], [slow], Limits(tool_seconds=None))
    assert (await watched.session.run("go")).status == "done"
    assert last_results(watched.session) == [("in the end", False)]


def test_progress_of_a_tool_that_outlives_the_event_loop_is_dropped() -> None:
    goes_on, ended = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    @tool(timeout=0.01)
    def lingers(context: ToolContext) -> str:
        goes_on.wait(60)
        try:
            context.progress("late")
        except BaseException as error:
            failures.append(error)
        ended.set()
        return "late"

    watched = Watched([call("lingers"), "ok"], [lingers])
    assert asyncio.run(watched.session.run("go")).status == "done"
    before = len(watched.events)
    goes_on.set()
    assert ended.wait(60)
    assert (failures, len(watched.events)) == ([], before)


async def test_a_cancel_while_a_long_result_is_stored_keeps_what_the_tool_said() -> None:
    """The tool has acted: its result is no error, and the model learns that the rest is gone."""
    begun, goes_on = threading.Event(), threading.Event()

    class SlowStore(MemoryStore):
        def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
            begun.set()
            goes_on.wait(60)
            return super().put(attachment, max_bytes)

    def acts() -> str:
        return "It is done. " * 1000

    watched = Watched([call("acts")], [acts], Limits(result_characters=500), store=SlowStore())
    running = asyncio.create_task(watched.session.run("go"))
    try:
        assert await asyncio.to_thread(begun.wait, 60)
        watched.session.cancel()
        assert (await running).status == "cancelled"
    finally:
        goes_on.set()
    ((text, is_error),) = last_results(watched.session)
    assert (text.startswith("It is done. "), is_error) == (True, False)
    assert "it was cancelled before all of it could be stored" in text
    watched.check()


async def test_a_tool_that_may_not_run_beside_others_runs_alone_and_in_its_turn() -> None:
    running: set[str] = set()
    seen: list[tuple[str, int]] = []

    async def work(name: str) -> str:
        running.add(name)
        await asyncio.sleep(0)
        seen.append((name, len(running)))
        await asyncio.sleep(0)
        running.remove(name)
        return name

    @tool(concurrent=False)
    async def alone(name: str) -> str:
        return await work(name)

    calls = [call("work", name="a"), call("work", name="b"), call("alone", name="c"), call("alone", name="d")]
    watched = Watched([[*calls, call("work", name="e")], "ok"], [work, alone])
    await watched.session.run("go")
    assert dict(seen) == {"a": 2, "b": 2, "c": 1, "d": 1, "e": 1}
    assert [text for text, _ in last_results(watched.session)] == ["a", "b", "c", "d", "e"]
    watched.check()


async def test_a_sync_tool_does_not_hold_up_the_loop() -> None:
    import threading

    released = threading.Event()

    def blocking() -> str:
        assert released.wait(10)
        return "released"

    async def release() -> str:
        released.set()
        return "done"

    watched = Watched([[call("blocking"), call("release")], "ok"], [blocking, release])
    await watched.session.run("go")
    assert last_results(watched.session) == [("released", False), ("done", False)]


# What the model says


async def test_text_before_calls_stays_before_them_and_empty_text_makes_no_block() -> None:
    thinking = ThinkingBlock("hm")
    use = ToolUseBlock("c", "read", {"path": "a"})
    said = Message.assistant(thinking, "First.", TextBlock(""), use, "After.")
    watched = Watched([said, "ok"], [read])
    await watched.session.run("go")
    assert watched.session.messages[1].content == (thinking, TextBlock("First."), use, TextBlock("After."))


async def test_calls_count_by_their_blocks_not_by_the_stop_reason() -> None:
    reply = Reply(Message.assistant(ToolUseBlock("c", "read", {"path": "a"})))
    watched = Watched([reply, "ok"], [read])
    assert (await watched.session.run("go")).turns == 2
    watched.check()


async def test_calls_without_ids_and_with_ids_used_before_get_their_own() -> None:
    twice = Message.assistant(ToolUseBlock("c", "read", {"path": "a"}), ToolUseBlock("c", "read", {"path": "b"}))
    watched = Watched([twice, twice, Message.assistant(ToolUseBlock("", "nonsense", {})), "ok"], [read])
    await watched.session.run("go")
    assert [use.id for m in watched.session.messages for use in m.tool_calls] == ["c", "c-2", "c-3", "c-4", "call_1"]
    watched.check()


async def test_an_empty_reply_ends_the_run() -> None:
    watched = Watched([Message("assistant", ())])
    result = await watched.session.run("go")
    assert (result.status, result.text, len(result.conversation)) == ("done", "", 2)
    watched.check()


# Limits


async def test_the_last_turn_is_announced_to_the_model_and_its_calls_are_answered() -> None:
    watched = Watched([call("read", path="a"), call("read", path="b")], [read], Limits(max_turns=2))
    result = await watched.session.run("go")
    assert (result.status, result.turns) == ("max_turns", 2)
    first, last = watched.model.requests
    assert first.reminder == ""
    assert "This is your FINAL turn" in last.reminder
    assert last_results(watched.session) == [("content of b", False)]
    assert all("FINAL" not in message.text for message in result.conversation), (
        "the reminder is not part of the history"
    )
    watched.check()


async def test_a_finish_on_the_last_turn_is_done() -> None:
    watched = Watched([call("read", path="a"), "finished"], [read], Limits(max_turns=2))
    assert (await watched.session.run("go")).status == "done"


async def test_a_run_that_used_up_its_turns_goes_on_where_it_stopped() -> None:
    watched = Watched([call("read", path="a"), "finished"], [read], Limits(max_turns=1))
    assert (await watched.session.run("go")).status == "max_turns"
    result = await watched.session.run()
    assert (result.status, result.text, result.turns) == ("done", "finished", 1)
    assert len(result.conversation) == 4
    watched.check()


@pytest.mark.parametrize(
    ("limits", "status"),
    [(Limits(max_total_tokens=25), "max_total_tokens"), (Limits(max_cost=0.025), "max_cost")],
    ids=["tokens", "cost"],
)
async def test_tokens_and_cost_stop_the_run_with_every_call_answered(limits: Limits, status: str) -> None:
    model = ScriptedModel(lambda request: call("read", path="a"), usage=Usage(8, 2, cost=0.01))
    watched = Watched(model, [read], limits)
    result = await watched.session.run("go")
    assert (result.status, result.turns) == (status, 3)
    assert result.usage == Usage(24, 6, cost=pytest.approx(0.03))
    watched.check()


async def test_wall_time_stops_the_run_in_the_middle_of_a_tool() -> None:
    async def endless() -> str:
        await asyncio.Event().wait()
        return "never"

    watched = Watched([call("endless")], [endless], Limits(max_seconds=0.05))
    result = await watched.session.run("go")
    assert result.status == "max_seconds"
    assert last_results(watched.session)[0][1]
    watched.check()


@pytest.mark.parametrize("name", [*FORMER_NAMES.values(), "tool_seconds", "result_characters"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"the limit {name} is 0"):
        Limits(**{name: 0})


# Ending by a result


async def test_a_final_result_ends_the_run_after_its_siblings_were_answered() -> None:
    async def report(value: str) -> ToolResult:
        return ToolResult(f"reported {value}", final=True)

    watched = Watched([[call("report", value="x"), call("read", path="a")]], [report, read])
    result = await watched.session.run("go")
    assert (result.status, result.text, result.turns) == ("done", "reported x", 1)
    assert last_results(watched.session) == [("reported x", False), ("content of a", False)]
    watched.check()


# Where a run begins


async def test_a_run_can_begin_with_calls_that_wait_for_their_results() -> None:
    pending = [Message.user("go"), Message.assistant(ToolUseBlock("c", "read", {"path": "a"}))]
    watched = Watched(["ok"], [read], messages=pending)
    result = await watched.session.run()
    assert (result.status, result.turns, len(result.conversation)) == ("done", 1, 4)
    watched.check()


async def test_a_conversation_that_ends_with_the_models_answer_is_done_already() -> None:
    watched = Watched([], messages=[Message.user("hi"), Message.assistant("Hello.")])
    result = await watched.session.run()
    assert (result.status, result.turns, result.text) == ("done", 0, "Hello.")


async def test_a_run_with_nothing_to_answer_says_so() -> None:
    with pytest.raises(ConversationError, match="nothing to answer"):
        await Watched([]).session.run()


async def test_a_new_prompt_answers_the_calls_that_were_left_open() -> None:
    pending = [Message.user("go"), Message.assistant(ToolUseBlock("c", "read", {"path": "a"}))]
    watched = Watched(["ok"], [read], messages=pending)
    await watched.session.run("never mind")
    answer = watched.session.messages[2]
    assert answer.tool_results[0].is_error
    assert answer.content[1] == TextBlock("never mind")
    watched.check()


async def test_files_can_be_part_of_the_prompt(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)
    watched = Watched(["nice"])
    await watched.session.run(["Look at this", Attachment.from_path(picture)])
    text, file = watched.session.messages[0].content
    assert text == TextBlock("Look at this")
    assert watched.session.store.read(file) == PNG  # type: ignore[arg-type]


# think and act by hand


async def test_think_leaves_the_calls_to_act() -> None:
    watched = Watched([call("read", path="a"), "ok"], [read])
    reply = await watched.session.think("go")
    assert [use.name for use in reply.message.tool_calls] == ["read"]
    results = await watched.session.act()
    assert results.message.tool_results[0].text == "content of a"
    assert (await watched.session.think()).text == "ok"
    watched.check()


async def test_thinking_past_open_calls_is_refused() -> None:
    watched = Watched([call("read", path="a")], [read])
    await watched.session.think("go")
    with pytest.raises(ConversationError, match=r"calls wait for results \(read\)"):
        await watched.session.think()


async def test_thinking_without_a_question_is_refused() -> None:
    watched = Watched(["ok"])
    await watched.session.think("go")
    with pytest.raises(ConversationError, match="add a prompt"):
        await watched.session.think()


# Providers that fail


async def test_a_provider_failure_is_a_status_and_leaves_the_conversation_intact() -> None:
    watched = Watched([call("read", path="a"), ProviderError("overloaded"), "ok"], [read])
    result = await watched.session.run("go")
    assert (result.status, result.error, len(result.conversation)) == ("error", "overloaded", 3)
    again = await watched.session.run()
    assert (again.status, again.text, len(again.conversation)) == ("done", "ok", 4)
    watched.check()


async def test_half_a_reply_is_taken_back() -> None:
    watched = Watched([Cut("Half a rep", ProviderError("no more"))])
    result = await watched.session.run("go")
    assert (result.status, result.error) == ("error", "no more")
    assert len(watched.of(ReplyDiscarded)) == 1
    assert result.conversation == [Message.user("go")]
    watched.check()


async def test_an_adapter_that_breaks_the_contract_is_an_error_with_its_name() -> None:
    watched = Watched([KeyError("choices")])
    result = await watched.session.run("go")
    assert (result.status, result.error) == ("error", "scripted failed: KeyError: 'choices'")


# Observers


async def test_events_come_in_the_promised_order() -> None:
    watched = Watched([["Look.", call("read", path="a")], "ok"], [read])
    await watched.session.run("go")
    kinds = [type(event) for event in watched.events if not isinstance(event, TextDelta)]
    assert [kind.__name__ for kind in kinds] == [
        "MessageAdded",
        "TurnStarted",
        "ToolCallDelta",
        "MessageAdded",
        "ToolStarted",
        "ToolFinished",
        "MessageAdded",
        "TurnStarted",
        "MessageAdded",
        "RunFinished",
    ]
    assert [event.turn for event in watched.of(TurnStarted)] == [1, 2]
    assert [event.message.role for event in watched.of(MessageAdded)] == ["user", "assistant", "user", "assistant"]


async def test_a_stream_gives_each_event_as_it_happens_and_ends_with_the_run() -> None:
    session = Session(Agent(model=ScriptedModel(["Hello there."], chunk=6)))
    events: list[Event] = [event async for event in session.stream("hi")]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello ", "there."]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].text == "Hello there."
    assert [event async for event in Session(Agent(model="demo")).stream("hi")], "the next stream is not disturbed"


async def test_a_reader_who_is_cancelled_twice_leaves_nothing_behind() -> None:
    async def slow_to_leave() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
        return "never"

    watched = Watched([call("slow_to_leave"), "Done."], [slow_to_leave])
    started = asyncio.Event()

    async def read() -> None:
        async for event in watched.session.stream("go"):
            if isinstance(event, ToolStarted):
                started.set()

    reader = asyncio.ensure_future(read())
    await started.wait()
    before = len(watched.session._observers._all)
    reader.cancel()
    await asyncio.sleep(0.01)
    reader.cancel()
    await asyncio.wait([reader])
    assert len(watched.session._observers._all) == before - 1


async def test_leaving_a_stream_early_cancels_the_run() -> None:
    cancelled = asyncio.Event()

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    watched = Watched([call("endless")], [endless])
    stream = watched.session.stream("go")
    async for event in stream:
        if isinstance(event, ToolStarted):
            break
    await stream.aclose()  # type: ignore[attr-defined]
    assert cancelled.is_set()
    watched.check()


async def test_a_stream_raises_what_the_run_raises() -> None:
    with pytest.raises(ConversationError):
        async for _ in Watched([]).session.stream():
            pass


async def test_progress_is_seen_while_the_tool_runs_and_its_last_item_is_the_result() -> None:
    async def count() -> AsyncIterator[str | ToolResult]:
        yield "one"
        yield "two"
        yield ToolResult("three", details={"for": "people"})

    def count_in_thread(context: ToolContext) -> str:
        context.progress({"percent": 50})
        return "half"

    watched = Watched([[call("count"), call("count_in_thread")], "ok"], [count, count_in_thread])
    await watched.session.run("go")
    shown = [(event.call_id, event.content) for event in watched.of(ToolProgress)]
    assert [content for call_id, content in shown if call_id == "call_1"] == ["one", "two"]
    assert ("call_2", {"percent": 50}) in shown
    assert {event.call_id: event.details for event in watched.of(ToolFinished)}["call_1"] == {"for": "people"}
    assert last_results(watched.session) == [("three", False), ("half", False)]


async def test_an_observer_that_fails_does_not_harm_the_session(caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("no screen")

    watched = Watched(["ok"])
    watched.session.observe(broken)
    assert (await watched.session.run("go")).status == "done"
    assert "no screen" in caplog.text


# Files from tools


async def test_a_tool_returns_text_and_files_and_the_history_holds_no_bytes() -> None:
    async def chart(context: ToolContext) -> ToolResult:
        context.attach(Attachment(b"a,b\n", name="data.csv"))
        return ToolResult("Q3 chart", attachments=[Attachment(PNG, name="q3.png", description="bars")])

    watched = Watched([call("chart"), "ok"], [chart])
    await watched.session.run("go")
    result = watched.session.messages[2].tool_results[0]
    assert result.text == "Q3 chart"
    assert [(f.name, f.mime_type, f.size, f.description) for f in result.attachments] == [
        ("q3.png", "image/png", len(PNG), "bars"),
        ("data.csv", "text/csv", 4, ""),
    ]
    assert watched.session.store.read(result.attachments[0]) == PNG
    watched.check()


async def test_a_file_that_cannot_be_attached_is_a_note_and_an_event_and_the_turn_goes_on() -> None:
    async def files() -> ToolResult:
        return ToolResult(
            "three",
            attachments=[
                Attachment.from_path("missing.png"),
                Attachment(b"\x7fELF", "image/png", name="virus.png"),
                Attachment(b"x" * 101, "text/plain", name="large.txt"),
                Attachment(PNG, name="good.png"),
            ],
        )

    watched = Watched([call("files"), "ok"], [files], Limits(attachment_bytes=100))
    result = await watched.session.run("go")
    assert result.status == "done"
    answer = watched.session.messages[2].tool_results[0]
    assert not answer.is_error
    assert [file.name for file in answer.attachments] == ["good.png"]
    for said in ("missing.png cannot be read", "virus.png is labelled image/png", "large.txt has 101 bytes"):
        assert said in answer.text
        assert any(said in notice.text for notice in watched.of(Notice))
    watched.check()


@pytest.mark.parametrize("error", [AttachmentError("no space left"), PermissionError("keep out")])
async def test_a_store_that_fails_costs_the_file_and_not_the_turn(error: Exception) -> None:
    class Failing(MemoryStore):
        def put(self, attachment: Attachment, max_bytes: int = 0) -> AttachmentBlock:
            raise error

    async def chart() -> ToolResult:
        return ToolResult("Q3 chart", attachments=[Attachment(PNG, name="q3.png")])

    watched = Watched([call("chart"), "ok"], [chart], store=Failing())
    assert (await watched.session.run("go")).text == "ok"
    answer = watched.session.messages[2].tool_results[0]
    assert (answer.is_error, answer.attachments) == (False, ())
    assert answer.text.startswith("Q3 chart\n[A file could not be attached: ")
    assert str(error) in answer.text
    assert any(str(error) in notice.text for notice in watched.of(Notice))
    watched.check()


# One thing at a time


async def test_a_busy_session_refuses_a_second_run() -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        started.set()
        await release.wait()
        return "ok"

    watched = Watched([call("wait"), "ok"], [wait])
    running = asyncio.create_task(watched.session.run("go"))
    await started.wait()
    with pytest.raises(SessionBusyError):
        await watched.session.run("me too")
    release.set()
    assert (await running).status == "done"
    watched.check()


async def test_usage_is_summed_for_the_run_and_for_the_session() -> None:
    model = ScriptedModel([call("read", path="a"), "ok", "again"], usage=Usage(8, 2, cached_tokens=3))
    watched = Watched(model, [read])
    first = await watched.session.run("go")
    second = await watched.session.run("once more")
    assert first.usage == Usage(16, 4, cached_tokens=6)
    assert second.usage == Usage(8, 2, cached_tokens=3)
    assert watched.session.usage == Usage(24, 6, cached_tokens=9)


async def test_a_cost_exactly_at_the_limit_stops_the_run() -> None:
    model = ScriptedModel(lambda request: call("read", path="a"), usage=Usage(1, 1, cost=0.5))
    assert (await Watched(model, [read], Limits(max_cost=1.0)).session.run("go")).turns == 2


async def test_a_cost_limit_that_cannot_be_kept_is_said_once() -> None:
    watched = Watched([call("read", path="a"), "ok"], [read], Limits(max_cost=1.0))
    await watched.session.run("go")
    assert [notice.text for notice in watched.of(Notice)] == [
        "the price of scripted is not known: the cost limit cannot be kept"
    ]


async def test_a_stream_leaves_no_observer_behind() -> None:
    session = Session(Agent(model=ScriptedModel(["one", "two"])))
    _ = [event async for event in session.stream("a")]
    assert session._observers._all == []


async def test_a_call_that_the_user_talked_over_is_not_run() -> None:
    ran: list[str] = []

    async def delete(path: str) -> str:
        ran.append(path)
        return "deleted"

    asked = [Message.user("delete a"), Message.assistant(ToolUseBlock("c", "delete", {"path": "a"}))]
    watched = Watched(["Fine."], [delete], messages=[*asked, Message.user("No, do not!")])
    result = await watched.session.run()
    assert (ran, result.text) == ([], "Fine.")
    assert watched.model.requests[0].messages[2].tool_results[0].is_error


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
async def test_a_blank_prompt_is_refused_before_anything_is_sent(blank: str) -> None:
    watched = Watched(["never"])
    with pytest.raises(ConversationError, match="nothing to answer"):
        await watched.session.run(blank)
    assert watched.model.requests == []


@pytest.mark.parametrize("wrong", [5, [3], [None], [["hello"]]])
async def test_a_prompt_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="a prompt is text, an Attachment, a Message, or a list of them"):
        await Watched(["never"]).session.run(wrong)  # type: ignore[call-overload]


def test_a_session_without_an_agent_is_refused() -> None:
    with pytest.raises(TypeError, match=r"write Agent\(model\)"):
        Session("demo")  # type: ignore[arg-type]


async def test_more_calls_than_run_at_once_are_all_answered_in_order() -> None:
    running: list[int] = []

    async def work(number: int) -> str:
        running.append(1)
        most = len(running)
        await asyncio.sleep(0)
        running.pop()
        return f"{number} {most <= 64}"

    calls = [call("work", number=number) for number in range(150)]
    watched = Watched([calls, "ok"], [work])
    await watched.session.run("go")
    assert last_results(watched.session) == [(f"{number} True", False) for number in range(150)]
    watched.check()


async def test_many_calls_of_one_id_each_get_their_own() -> None:
    same = [ToolUseBlock("call_0", "read", {"path": str(number)}) for number in range(2000)]
    watched = Watched([Message.assistant(*same), "ok"], [read])
    await watched.session.run("go")
    assert [text for text, _ in last_results(watched.session)] == [f"content of {number}" for number in range(2000)]
    watched.check()


@pytest.mark.parametrize(
    ("stop", "said"),
    [(StopReason.MAX_TOKENS, "cut off"), (StopReason.REFUSAL, "refused"), (StopReason.CONTENT_FILTER, "filter")],
)
async def test_a_reply_with_an_unusual_stop_reason_gives_a_notice(stop: StopReason, said: str) -> None:
    watched = Watched([Reply(Message.assistant("Half an ans"), stop)])
    result = await watched.session.run("go")
    assert (result.status, result.stop_reason) == ("done", stop)
    assert [said in notice.text for notice in watched.of(Notice)] == [True]
    assert watched.of(RunFinished)[0].stop_reason == stop


async def test_a_reply_that_pauses_is_asked_to_go_on() -> None:
    watched = Watched([Reply(Message.assistant("One,"), StopReason.PAUSE), "two."])
    result = await watched.session.run("go")
    assert (result.status, result.turns, result.text) == ("done", 1, "two.")
    assert [message.text for message in watched.model.requests[1].messages] == ["go", "One,"]


async def test_a_failed_request_that_was_charged_for_is_counted() -> None:
    failure = ProviderError("broken")
    failure.usage = Usage(30, 4)
    session = Session(Agent(ScriptedModel([failure])))
    assert (await session.run("Hi")).status == "error"
    assert session.usage == Usage(30, 4)
