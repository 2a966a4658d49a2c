"""A cancel, wherever it strikes, leaves a history that can be sent and every call answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, Message, ThinkingBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import SessionCancelledError
from outrider.providers.base import Reply, Request
from outrider.runtime.calls import CANCELLED, CHECK
from outrider.runtime.events import Delta, Event, RunFinished, TextDelta
from outrider.testing import Delay, ScriptedModel, call
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from tests.watching import Watched, last_results

STOPPED = f"{CANCELLED} {CHECK}"


async def quick(text: str) -> str:
    await asyncio.sleep(0)
    return text


async def yielding(text: str) -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return text


def script() -> ScriptedModel:
    return ScriptedModel(
        [
            ["Let me look at two things.", call("quick", text="a"), call("yielding", text="b")],
            ["And one more.", call("yielding", text="c")],
            "All is well.",
        ],
        chunk=5,
    )


@pytest.mark.parametrize("how", ["cancel()", "task.cancel()"])
@given(st.integers(0, 40))
def test_cancelling_at_any_event_leaves_a_sound_history_that_goes_on(how: str, strike: int) -> None:
    async def scenario() -> None:
        watched = Watched(script(), [quick, yielding])
        running = asyncio.ensure_future(watched.session.run("go"))

        def observer(_: Event) -> None:
            if len(watched.events) == strike:
                watched.session.cancel() if how == "cancel()" else running.cancel()

        watched.session.observe(observer)
        if how == "cancel()":
            result = await running
            assert result.status in ("cancelled", "done")
        else:
            await asyncio.wait([running])
        watched.check()
        # The conversation goes on as if nothing had happened.
        follow_up = Watched(["Fine."], [quick, yielding], messages=watched.session.messages)
        assert (await follow_up.session.run("go on")).text == "Fine."
        follow_up.check()

    asyncio.run(scenario())


def slowly(model: ScriptedModel) -> ScriptedModel:
    """The model with a pause after each item, in which a cancel can strike."""
    original = model.stream

    async def stream(request: Request) -> AsyncIterator[Delta | Reply]:
        async for item in original(request):
            yield item
            await asyncio.sleep(0)

    model.stream = stream  # type: ignore[method-assign]
    return model


async def test_a_cancel_in_the_middle_of_a_stream_keeps_what_was_said_and_says_that_it_was_cut() -> None:
    steps = [[ThinkingBlock("hm"), "One two three.", call("quick", text="a")], "One two three four."]
    watched = Watched(slowly(ScriptedModel(steps, chunk=4)), [quick])

    def observer(event: Event) -> None:
        if isinstance(event, TextDelta) and event.text.startswith("two"):
            watched.session.cancel()

    watched.session.observe(observer)
    result = await watched.session.run("go")
    assert result.status == "cancelled"
    said, marker = result.conversation[1:]
    assert said == Message.assistant("One two ")
    assert "interrupted" in marker.text
    watched.check()
    again = Watched(["One two three four."], [quick], messages=result.conversation)
    assert (await again.session.run()).text == "One two three four.", "half a reply is not taken for the answer"


async def test_a_cancel_before_the_first_word_adds_nothing() -> None:
    watched = Watched([Delay(60, "never")])
    running = asyncio.create_task(watched.session.run("go"))
    while not watched.model.requests:
        await asyncio.sleep(0)
    watched.session.cancel()
    assert (await running).conversation == [Message.user("go")]
    watched.check()


async def test_a_cancelled_call_is_an_error_result_and_its_finished_sibling_keeps_its_own() -> None:
    async def endless() -> str:
        await asyncio.Event().wait()
        return "never"

    watched = Watched([[call("quick", text="done"), call("endless")]], [quick, endless])
    running = asyncio.create_task(watched.session.run("go"))
    while len([event for event in watched.events if type(event).__name__ == "ToolFinished"]) < 1:
        await asyncio.sleep(0)
    watched.session.cancel()
    assert (await running).status == "cancelled"
    assert last_results(watched.session) == [("done", False), (STOPPED, True)]
    watched.check()


async def test_a_tool_that_saves_its_output_when_cancelled_is_heard() -> None:
    begun = asyncio.Event()

    async def careful() -> ToolResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ToolResult("Output so far: 17 lines.")
        return ToolResult("never")

    watched = Watched([call("careful")], [careful])
    running = asyncio.create_task(watched.session.run("go"))
    await begun.wait()
    watched.session.cancel()
    await running
    said = f"{STOPPED}\nOutput so far: 17 lines."
    assert last_results(watched.session) == [(said, True)]
    watched.check()


async def test_a_tool_that_was_through_keeps_its_result_although_a_file_was_not_stored() -> None:
    writing, release = threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def put(self, attachment: Attachment, max_bytes: int = 0) -> AttachmentBlock:
            writing.set()
            release.wait(10)
            return super().put(attachment, max_bytes)

    async def draw() -> ToolResult:
        return ToolResult("The chart was drawn and sent.", attachments=[Attachment(b"x", name="x.txt")])

    watched = Watched([call("draw")], [draw], store=Slow())
    running = asyncio.create_task(watched.session.run("go"))
    assert await asyncio.to_thread(writing.wait, 10)
    watched.session.cancel()
    assert (await running).status == "cancelled"
    release.set()
    assert last_results(watched.session) == [("The chart was drawn and sent.", False)]
    watched.check()


async def test_observers_are_told_of_the_end_also_when_the_caller_is_cancelled() -> None:
    watched = Watched([Delay(60, "never")])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watched.session.run("go"), 0.05)
    (finished,) = watched.of(RunFinished)
    assert finished.status == "cancelled"


@pytest.mark.parametrize("verb", ["think", "act"])
async def test_cancelling_think_or_act_does_not_cancel_the_caller(verb: str) -> None:
    begun = asyncio.Event()

    async def endless() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    def begin(request: Request) -> Any:
        begun.set()
        return Delay(60, "never")

    watched = Watched([call("endless")] if verb == "act" else begin, [endless])
    if verb == "act":
        await watched.session.think("go")
    work = watched.session.act() if verb == "act" else watched.session.think("go")
    running = asyncio.create_task(work)
    await begun.wait()
    watched.session.cancel()
    with pytest.raises(SessionCancelledError):
        await running
    assert not running.cancelled()
    watched.check()


async def test_a_cancel_from_another_thread_arrives_at_once() -> None:
    begun = asyncio.Event()

    async def endless() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    watched = Watched([call("endless")], [endless])
    running = asyncio.create_task(watched.session.run("go"))
    await begun.wait()
    await asyncio.to_thread(watched.session.cancel)
    async with asyncio.timeout(60):
        assert (await running).status == "cancelled"


async def test_a_tool_that_ignores_the_cancel_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.runtime.calls.CANCEL_GRACE", 0.01)
    begun = asyncio.Event()
    release = asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    watched = Watched([call("stubborn")], [stubborn])
    running = asyncio.create_task(watched.session.run("go"))
    await begun.wait()
    watched.session.cancel()
    assert (await running).status == "cancelled"
    assert last_results(watched.session) == [(STOPPED, True)]
    release.set()
    await asyncio.sleep(0)
    watched.check()


async def test_a_second_cancel_does_not_wait_for_a_stubborn_tool() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    watched = Watched([call("stubborn")], [stubborn])
    running = asyncio.create_task(watched.session.run("go"))
    await begun.wait()
    loop = asyncio.get_running_loop()
    before = loop.time()
    watched.session.cancel()
    await asyncio.sleep(0)
    watched.session.cancel()
    assert (await running).status == "cancelled"
    assert loop.time() - before < 0.9, "it did not wait for the whole grace"
    release.set()
    watched.check()


async def test_a_tool_in_a_thread_is_told_that_nobody_waits() -> None:
    begun, noticed = threading.Event(), threading.Event()

    def patient(context: ToolContext) -> str:
        begun.set()
        while not context.cancelled:
            threading.Event().wait(0.001)
        noticed.set()
        return "stopped"

    watched = Watched([call("patient")], [patient])
    running = asyncio.create_task(watched.session.run("go"))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    watched.session.cancel()
    assert (await running).status == "cancelled"
    assert await asyncio.to_thread(noticed.wait, 10)
    watched.check()


async def test_a_cancel_when_all_is_done_has_no_effect() -> None:
    watched = Watched(["one", "two"])
    watched.session.observe(lambda event: watched.session.cancel() if isinstance(event, RunFinished) else None)
    assert (await watched.session.run("go")).status == "done"
    await asyncio.sleep(0)
    watched.session.cancel()
    assert (await watched.session.run("again")).status == "done"
