"""A cancel, wherever it strikes, leaves a history that can be sent and every call answered."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.events import Event, RunFinished, TextDelta, ToolStarted
from outrider.messages import Message
from outrider.providers.scripted import Delay, ScriptedModel, call
from outrider.tools import ToolContext, ToolResult
from tests.watching import Watched, last_results


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


async def test_a_cancel_in_the_middle_of_a_stream_keeps_what_was_said() -> None:
    watched = Watched(ScriptedModel([["One two three.", call("quick", text="a")]], chunk=4), [quick])

    def observer(event: Event) -> None:
        if isinstance(event, TextDelta) and event.text.startswith("two"):
            watched.session.cancel()

    async def slow_stream() -> None:
        original = watched.model.stream

        async def stream(request):  # type: ignore[no-untyped-def]
            async for item in original(request):
                yield item
                await asyncio.sleep(0)

        watched.model.stream = stream  # type: ignore[method-assign]

    await slow_stream()
    watched.session.observe(observer)
    result = await watched.session.run("go")
    assert result.status == "cancelled"
    assert result.conversation == [Message.user("go"), Message.assistant("One two ")]
    watched.check()


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
    assert last_results(watched.session) == [("done", False), ("The call was cancelled before it finished.", True)]
    watched.check()


async def test_a_tool_that_saves_its_output_when_cancelled_is_heard() -> None:
    async def careful() -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ToolResult("Output so far: 17 lines.")
        return ToolResult("never")

    watched = Watched([call("careful")], [careful])
    watched.session.observe(lambda event: watched.session.cancel() if isinstance(event, ToolStarted) else None)
    # The tool must have begun to be able to clean up: cancel on the next pass of the loop.
    await watched.session.run("go")
    watched.check()


async def test_a_tool_that_ignores_the_cancel_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.calls.CANCEL_GRACE", 0.01)
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
    assert last_results(watched.session) == [("The call was cancelled before it finished.", True)]
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
