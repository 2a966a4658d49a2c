"""A cancel of the parent ends its sub-agents: every call gets a result, and nothing is left running."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outrider import Log, Session, tool
from outrider.conversation.history import violations
from outrider.runtime.events import Event, RunFinished, SubagentEvent, SubagentStarted, ToolFinished, ToolStarted
from outrider.runtime.limits import Limits
from outrider.testing import Delay, call
from tests.processes import is_running
from tests.subagents.teams import Team, bench_in, play, task
from tests.subagents.test_subagent_events import check_order


@pytest.fixture(params=["in memory", "in a log"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log | None]:
    if request.param == "in memory":
        yield None
    else:
        with Log(tmp_path / "log") as log:
            yield log


class Sleeping:
    """A tool that never ends by itself, and who sleeps in it."""

    def __init__(self) -> None:
        self.now = 0
        self.changed = asyncio.Condition()

        @tool(effect="read")
        async def sleep() -> str:
            """Sleep."""
            await self._count(1)
            try:
                await asyncio.Event().wait()
            finally:
                self.now -= 1
            return "never"

        self.tool = sleep

    async def _count(self, more: int) -> None:
        async with self.changed:
            self.now += more
            self.changed.notify_all()

    async def until(self, sleeping: int) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: self.now == sleeping)


def sleeping_team(sleeping: Sleeping, names: str = "abc", **options: object) -> Team:
    children = {name: [[call("sleep"), call("sleep")], "Never."] for name in names}
    script = play([[*(task(name) for name in names), call("sleep")], "After."], children)
    return Team(script, [sleeping.tool], **options)  # type: ignore[arg-type]


def check_all_answered(team: Team, log: Log | None) -> None:
    team.check()
    check_order(team.events)
    assert all(each.is_error for each in team.results)
    assert len(team.results) == len(team.session.messages[1].tool_calls)
    begun = [event.event.call_id for event in team.nested if isinstance(event.event, ToolStarted)]
    ended = [event.event.call_id for event in team.nested if isinstance(event.event, ToolFinished)]
    assert sorted(begun) == sorted(ended)
    if log:
        for child in log.children(team.session.id):
            with Session.open(log, child.id, team.session.agent) as again:  # nobody holds it any more
                assert again.history.pending == ()
                assert violations(again.messages) == []


@pytest.mark.parametrize("how", ["cancel()", "cancel() in a thread", "the task", "the time"])
async def test_sub_agents_end_with_their_sender_however_it_is_stopped(log: Log | None, how: str) -> None:
    sleeping = Sleeping()
    limits = Limits(max_seconds=0.3) if how == "the time" else None
    team = sleeping_team(sleeping, log=log, limits=limits)
    running = asyncio.ensure_future(team.run())
    if how != "the time":
        await sleeping.until(7)
    if how == "cancel()":
        team.session.cancel()
    elif how == "cancel() in a thread":
        await asyncio.to_thread(team.session.cancel)
    elif how == "the task":
        running.cancel()
    if how == "the task":
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        assert (await running).status == ("max_seconds" if how == "the time" else "cancelled")
    assert sleeping.now == 0
    assert {event.status for event in team.inside(RunFinished)} <= {"cancelled"}
    assert len(team.inside(RunFinished)) == 3 or how == "the time"
    check_all_answered(team, log)


async def test_those_that_wait_for_their_turn_are_never_sent_out(log: Log | None) -> None:
    sleeping = Sleeping()
    team = sleeping_team(sleeping, "abcde", log=log, at_once=2)
    running = asyncio.ensure_future(team.run())
    await sleeping.until(5)
    team.session.cancel()
    assert (await running).status == "cancelled"
    assert len([event for event in team.events if isinstance(event, SubagentStarted)]) == 2
    assert len(team.results) == 6
    check_all_answered(team, log)


async def test_a_cancelled_parent_continues_and_can_start_others(log: Log | None) -> None:
    sleeping = Sleeping()
    children = {"a": [[call("sleep")], "Never."], "b": ["B."]}
    sender = [[task("a")], [task("b")], "Done."]
    team = Team(play(sender, children), [sleeping.tool], log=log, at_once=1)
    running = asyncio.ensure_future(team.run())
    await sleeping.until(1)
    team.session.cancel()
    await running
    result = await team.run("again")
    assert (result.status, result.text) == ("done", "Done.")
    assert [each.text for each in team.results][1:] == ["B."], "the place of the first is free again"


async def test_a_sub_agent_that_is_being_answered_keeps_what_it_has_heard() -> None:
    team = Team(play([[task("a")], "Never."], {"a": [Delay(60, "Never.")]}))
    team.session.observe(lambda event: isinstance(event, SubagentEvent) and team.session.cancel())
    assert (await team.run()).status == "cancelled"
    check_all_answered(team, None)


@pytest.mark.parametrize("strike", range(0, 45, 3))
async def test_a_cancel_at_any_event_leaves_every_call_answered(strike: int) -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return "seen"

    children = {name: [["I look.", call("look"), call("look")], f"{name} is there."] for name in "ab"}
    team = Team(play([[task("a"), task("b")], "Done."], children), [look])

    def cancel(_: Event) -> None:
        if len(team.events) == strike:
            team.session.cancel()

    team.session.observe(cancel)
    result = await team.run()
    assert result.status in ("cancelled", "done")
    if team.events[-1] is not team.events[0]:
        check_order(team.events)
    team.check()
    assert (await team.run("And now?")).status in ("done", "error")


# Tools that do not stop


class Stubborn:
    """A tool that goes on after a cancel until it is released."""

    def __init__(self, kind: str) -> None:
        self.release = threading.Event()
        self.begun = threading.Event()

        @tool(name="persist", effect="read")
        def in_a_thread() -> str:
            """Persist."""
            self.begun.set()
            self.release.wait(30)
            return "late"

        @tool(name="persist", effect="read")
        async def in_the_loop() -> str:
            """Persist."""
            self.begun.set()
            while not self.release.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
            return "late"

        self.tool = in_a_thread if kind == "thread" else in_the_loop


@pytest.fixture
def quick_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.runtime.calls.CANCEL_GRACE", 0.4)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("quick_grace")
@pytest.mark.parametrize("kind", ["thread", "loop"])
async def test_a_tool_of_a_sub_agent_that_does_not_stop_is_answered_without_it(log: Log | None, kind: str) -> None:
    stubborn = Stubborn(kind)
    team = Team(play([[task("a")], "Never."], {"a": [[call("persist")], "Never."]}), [stubborn.tool], log=log)
    try:
        running = asyncio.ensure_future(team.run())
        await _until(stubborn.begun.is_set)
        team.session.cancel()
        assert (await running).status == "cancelled"
        check_all_answered(team, log)
        seen = list(team.events)
    finally:
        stubborn.release.set()
    await _until(lambda: len(asyncio.all_tasks()) == 1)
    assert team.events == seen, "what comes too late is not shown"


@pytest.mark.usefixtures("quick_grace")
@pytest.mark.parametrize("kind", ["thread", "loop"])
async def test_a_second_cancel_waits_for_nothing_and_nothing_comes_after_the_end(log: Log | None, kind: str) -> None:
    stubborn = Stubborn(kind)
    team = Team(play([[task("a")], "Never."], {"a": [[call("persist")], "Never."]}), [stubborn.tool], log=log)
    try:
        running = asyncio.ensure_future(team.run())
        await _until(stubborn.begun.is_set)
        team.session.cancel()
        await asyncio.sleep(0)
        team.session.cancel()
        assert (await running).status == "cancelled"
        seen = list(team.events)
    finally:
        stubborn.release.set()
    await _until(lambda: len(asyncio.all_tasks()) == 1)
    assert isinstance(seen[-1], RunFinished)
    assert team.events == seen
    team.check()


# Commands


async def _begun(pid_file: Path) -> Path:
    await _until(lambda: is_running(pid_file))
    return pid_file


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks processes up in /proc")
@pytest.mark.parametrize("ending", ["done", "cancelled"])
async def test_what_a_sub_agent_runs_in_the_background_ends_with_it(folder: Path, ending: str) -> None:
    command = "echo $$ > pid && exec sleep 300"
    child = [
        [call("Bash", command=command, run_in_background=True)],
        Delay(0 if ending == "done" else 300, "It runs."),
    ]
    bench = bench_in(folder, permissions__mode="all")
    model = play([[task("a", "Bash")], "Done."], {"a": child})
    session = Session(bench.agent(model=model), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    running = asyncio.ensure_future(session.run("go"))
    pid = await _begun(folder / "pid")
    if ending == "cancelled":
        session.cancel()
    assert (await running).status == ending
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert not is_running(pid)
    bench.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks processes up in /proc")
async def test_a_command_that_a_sub_agent_waits_for_ends_with_a_cancel(folder: Path) -> None:
    bench = bench_in(folder, permissions__mode="all")
    model = play([[task("a", "Bash")], "Done."], {"a": [[call("Bash", command="echo $$ > pid && exec sleep 300")]]})
    session = Session(bench.agent(model=model), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    running = asyncio.ensure_future(session.run("go"))
    pid = await _begun(folder / "pid")
    session.cancel()
    assert (await running).status == "cancelled"
    await _until(lambda: not is_running(pid))
    bench.close()
