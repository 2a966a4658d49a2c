"""Steering: a message queued during a run is delivered at the next boundary, can be taken back, and is never lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import violations
from outrider.conversation.messages import Message, TextBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import ConversationError
from outrider.log.entries import MessageEntry, RunStopped, SteeringDelivered, SteeringQueued, SteeringWithdrawn
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime import events
from outrider.runtime.agent import Agent
from outrider.runtime.events import MessageAdded, RunFinished
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import Delay, ScriptedModel, call
from outrider.tools.result import ToolResult
from tests.adapters import ALL, Case, each
from tests.oracles import check
from tests.watching import Watched

THREE_STEPS = [call("step", number=1), call("step", number=2), call("step", number=3), "Done."]
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


class Steps:
    """A tool whose calls do something to the session that makes them."""

    def __init__(self, actions: dict[int, Callable[[Session], Any]]) -> None:
        self.session: Session | None = None
        self._actions = actions

    async def step(self, number: int) -> str:
        """Do one step."""
        if action := self._actions.get(number):
            assert self.session
            await action(self.session)
        return f"step {number} done"


def watched(actions: dict[int, Callable[[Session], Any]], steps: Any = None, **options: Any) -> Watched:
    tool = Steps(actions)
    made = Watched(steps or THREE_STEPS, [tool.step], **options)
    tool.session = made.session
    return made


def said(request: Request) -> list[str]:
    """The texts of the user in a request, in order."""
    users = (message for message in request.messages if message.role == "user")
    return [block.text for message in users for block in message.content if isinstance(block, TextBlock)]


# Delivery


async def test_a_message_reaches_the_model_at_the_next_boundary_after_the_results() -> None:
    seen = watched({1: lambda session: session.steer("Use tabs.")})
    result = await seen.session.run("Go")
    assert result.status == "done"
    assert [said(request) for request in seen.model.requests][:2] == [["Go"], ["Go", "Use tabs."]]
    results, steered = result.messages[2:4]
    assert [each.tool_use_id for each in results.tool_results] == ["call_1"]
    assert steered == Message.user("Use tabs.")
    assert seen.session.queued == ()
    seen.check()


async def test_events_tell_of_the_queue_and_of_the_delivery() -> None:
    seen = watched({1: lambda session: session.steer("Use tabs.")})
    await seen.session.run("Go")
    (queued,) = seen.of(events.SteeringQueued)
    assert queued.message == Message.user("Use tabs.")
    (delivered,) = [event for event in seen.of(MessageAdded) if event.steering]
    assert (delivered.steering, delivered.message) == (queued.id, queued.message)
    assert seen.events.index(queued) < seen.events.index(delivered)


async def test_a_message_during_the_last_reply_begins_another_turn() -> None:
    session: Session

    def last(_: Request) -> Delay:
        waiting.append(asyncio.ensure_future(session.steer("And the tests?")))
        return Delay(0.01, "Done.")

    waiting: list[Any] = []
    seen = Watched([last, "They pass."])
    session = seen.session
    result = await session.run("Go")
    assert (result.status, result.text, result.turns) == ("done", "They pass.", 2)
    assert [message.text for message in result.messages] == ["Go", "Done.", "And the tests?", "They pass."]
    assert len(seen.of(RunFinished)) == 1


async def test_a_message_beside_a_final_result_keeps_the_run_going() -> None:
    async def finish(text: str) -> ToolResult:
        """End the run."""
        if text == "early":
            await session.steer("Wait, more.")
        return ToolResult(text, final=True)

    seen = Watched([call("finish", text="early"), call("finish", text="late")], [finish])
    session = seen.session
    result = await session.run("Go")
    assert (result.status, result.text) == ("done", "late")
    assert said(seen.model.requests[1]) == ["Go", "Wait, more."]


async def test_several_messages_are_delivered_in_order_and_with_their_files() -> None:
    async def steer(session: Session) -> None:
        await session.steer(["Look:", Attachment(PNG, "image/png", "a.png")])
        await session.steer("And be brief.")

    seen = watched({2: steer})
    result = await seen.session.run("Go")
    first, second = result.messages[5:7]
    assert (first.text, first.content[1].name, second.text) == ("Look:", "a.png", "And be brief.")  # type: ignore[union-attr]
    seen.check()


async def test_an_idle_session_takes_no_message_and_says_what_to_do() -> None:
    seen = Watched(["Hello."])
    with pytest.raises(ConversationError, match=r"no run is under way .* send it with run\(\)"):
        await seen.session.steer("Hi")
    await seen.session.run("Go")
    with pytest.raises(ConversationError, match="no run"):
        await seen.session.steer("Hi")
    assert seen.session.queued == ()


async def test_an_empty_message_is_refused() -> None:
    async def steer(session: Session) -> None:
        with pytest.raises(ConversationError, match="the message is empty"):
            await session.steer("")

    seen = watched({1: steer})
    assert (await seen.session.run("Go")).status == "done"
    assert seen.of(events.SteeringQueued) == []


async def test_a_run_that_reaches_its_limit_leaves_the_message_for_the_next() -> None:
    seen = watched({1: lambda session: session.steer("Use tabs.")}, limits=Limits(max_turns=1))
    assert (await seen.session.run("Go")).status == "max_turns"
    assert [each.text for each in seen.session.queued] == ["Use tabs."]
    assert seen.session.is_unfinished
    await seen.session.run("Go on")
    assert said(seen.model.requests[1]) == ["Go", "Use tabs.", "Go on"]


async def test_a_cancelled_run_leaves_the_message_for_the_next() -> None:
    async def steer_and_cancel(session: Session) -> None:
        await session.steer("Use tabs.")
        session.cancel()
        await asyncio.sleep(0)

    seen = watched({1: steer_and_cancel}, [call("step", number=1), "With tabs."])
    assert (await seen.session.run("Go")).status == "cancelled"
    assert [each.text for each in seen.session.queued] == ["Use tabs."]
    result = await seen.session.run()
    assert (result.status, result.text) == ("done", "With tabs.")
    assert said(seen.model.requests[1]) == ["Go", "Use tabs."]
    seen.check()


async def test_think_begins_with_what_is_queued() -> None:
    seen = watched({1: lambda session: session.steer("Use tabs.")}, limits=Limits(max_turns=1))
    await seen.session.run("Go")
    await seen.session.think("Next?")
    assert [message.text for message in seen.session.messages[3:5]] == ["Use tabs.", "Next?"]


# Taking back


async def test_a_message_can_be_taken_back_until_it_is_delivered() -> None:
    taken: list[Any] = []

    async def steer(session: Session) -> None:
        taken.append(await session.steer("First."))
        await session.steer("Second.")
        taken.append(await session.unsteer())

    async def too_late(session: Session) -> None:
        taken.append(await session.unsteer(taken[0]))

    seen = watched({1: steer, 2: too_late})
    await seen.session.run("Go")
    assert [each and each.text for each in taken] == ["First.", "Second.", None]
    assert said(seen.model.requests[-1]) == ["Go", "First."]
    assert len(seen.of(events.SteeringWithdrawn)) == 1


# The log


def opened(log: Log, id: str | None, actions: dict[int, Any], steps: Any) -> tuple[Session, ScriptedModel]:
    tool = Steps(actions)
    model = ScriptedModel(steps)
    tool.session = session = Session.open(log, id, Agent(model=model, tools=[tool.step])).__enter__()
    return session, model


async def test_a_boundary_waits_for_a_message_that_is_being_taken_back(tmp_path: Path) -> None:
    taken: list[asyncio.Future[Any]] = []

    async def queue(session: Session) -> None:
        await session.steer("Wait!")

    def take_back(event: events.Event) -> None:
        if isinstance(event, MessageAdded) and event.message.tool_results and not taken:
            taken.append(asyncio.ensure_future(session.unsteer()))

    tool = Steps({1: queue})
    with Log(tmp_path) as log:
        agent = Agent(model=ScriptedModel([call("step", number=1), "Done."]), tools=[tool.step])
        async with Session.open(log, agent=agent) as session:
            tool.session = session
            session.observe(take_back)
            assert (await session.run("Go.")).text == "Done."
            assert (await taken[0]).text == "Wait!"
            assert not session.queued


async def test_a_message_is_in_the_log_when_it_is_queued_and_delivered_in_one_commit(tmp_path: Path) -> None:
    stored: list[Any] = []

    async def steer(session: Session) -> None:
        await session.steer("Use tabs.")
        stored.extend(record.entry for record in log.records(session.id))

    with Log(tmp_path) as log:
        session, _ = opened(log, None, {1: steer}, THREE_STEPS)
        result = await session.run("Go")
        assert [entry.message.text for entry in stored if isinstance(entry, SteeringQueued)] == ["Use tabs."]
        assert log.messages(session.id) == result.conversation
        records = list(log.records(session.id))
        at = next(n for n, record in enumerate(records) if isinstance(record.entry, SteeringDelivered))
        assert records[at].time == records[at + 1].time
        session.close()


async def test_a_queue_survives_if_replay_begins_at_a_later_reply(tmp_path: Path) -> None:
    """The newest 200 entries have one reply, and the message was queued right before it."""
    first, many = ([call("step", number=number) for number in range(*ends)] for ends in ((10, 70), (100, 190)))
    holder: dict[str, Session] = {}

    def queue_then_call(_: Request) -> Any:
        waiting.append(asyncio.ensure_future(holder["it"].steer("Use tabs.")))
        return Delay(0.01, many)

    async def steer_cancel(session: Session) -> None:
        session.cancel()
        await asyncio.sleep(0)

    waiting: list[Any] = []
    with Log(tmp_path) as log:
        session, _ = opened(log, None, {189: steer_cancel}, [first, queue_then_call])
        holder["it"] = session
        assert (await session.run("Go")).status == "cancelled"
        session.close()
        tail, before = log.tail(log.open(session.id).extent)
        assert before
        assert isinstance(tail[0].entry, MessageEntry)
        log.close()
        again, model = opened(log, session.id, {}, ["Tabs it is."])
        assert [each.text for each in again.queued] == ["Use tabs."]
        assert (await again.run()).status == "done"
        assert said(model.requests[0])[-1] == "Use tabs."
        again.close()


async def test_a_message_that_was_taken_back_or_delivered_does_not_come_again(tmp_path: Path) -> None:
    async def steer(session: Session) -> None:
        await session.steer("First.")
        await session.steer("Second.")
        await session.unsteer()

    with Log(tmp_path) as log:
        session, _ = opened(log, None, {1: steer}, THREE_STEPS)
        await session.run("Go")
        session.close()
        again, model = opened(log, session.id, {}, ["Yes."])
        assert (again.queued, again.is_unfinished) == ((), False)
        await again.run("Well?")
        assert said(model.requests[0]) == ["Go", "First.", "Well?"]
        again.close()


async def test_a_fork_does_not_deliver_what_waits_in_the_original(tmp_path: Path) -> None:
    async def steer(session: Session) -> None:
        await session.steer("Use tabs.")
        copies.append(log.fork(session.id))

    copies: list[str] = []
    with Log(tmp_path) as log:
        session, _ = opened(log, None, {1: steer}, THREE_STEPS)
        await session.run("Go")
        copy, _ = opened(log, copies[0], {}, ["Yes."])
        assert copy.queued == ()
        *_, withdrawn, stopped = (record.entry for record in log.records(copies[0]))
        assert isinstance(withdrawn, SteeringWithdrawn)
        assert isinstance(stopped, RunStopped)
        copy.close()
        session.close()


KILLED = """
import asyncio, os, signal, sys
from outrider import Agent, Session, tool
from outrider.log.log import Log
from outrider.testing import Delay, ScriptedModel, call

@tool(effect="read")
async def step(number: int) -> str:
    '''Do one step.'''
    if number == 2:
        await session.steer("Use tabs.")
        print(session.id, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return f"step {number} done"

model = ScriptedModel([call("step", number=n) for n in (1, 2, 3)])
with Log(sys.argv[1]) as log:
    session = Session.open(log, None, Agent(model=model, tools=[step])).__enter__()
    asyncio.run(session.run("Go"))
"""


@pytest.fixture
def killed(tmp_path: Path) -> str:
    """The session of a process that was killed in its second step, with a message queued."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return ended.stdout.strip()


async def test_a_queued_message_survives_kill_9(tmp_path: Path, killed: str) -> None:
    with Log(tmp_path) as log:
        session, model = opened(log, killed, {}, ["With tabs."])
        assert [each.text for each in session.queued] == ["Use tabs."]
        result = await session.run()
        assert (result.status, result.text) == ("done", "With tabs.")
        request = model.requests[0].messages
        assert [each.tool_use_id for each in request[-1].tool_results] == ["call_2"]
        assert request[-1].text.endswith("Use tabs.")
        session.close()


# What the APIs get


@each(*ALL)
async def test_every_adapter_sends_a_history_with_steering(case: Case) -> None:
    async def steer(session: Session) -> None:
        await session.steer(["Look:", Attachment(PNG, "image/png", "a.png")])
        await session.steer("And be brief.")

    store = MemoryStore()
    seen = watched({1: steer, 3: lambda session: session.steer("Stop soon.")}, store=store)
    await seen.session.run("Go")
    adapter = case.adapter("http://127.0.0.1:9", key="k")
    for request in seen.model.requests:
        assert violations(request.messages) == []
        check(case, adapter.render(request), request)
