"""Tasks that wait for an answer are parked, and go on by themselves once it is there; on both queues."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Deny, Limits, Log, Session, ToolContext, tool
from outrider.batches import TaskResult, batch
from outrider.batches.collector import open_queue
from outrider.batches.queue import BatchSettings
from outrider.batches.running import AgentSessions, TaskRunner
from outrider.batches.task import Task, session_of
from outrider.providers.base import Request
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.approval import Defer
from tests.batches.held_agent import held_at_the_third_turn
from tests.postgres import new_database

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # DBOS leaves connections


@pytest.fixture(params=["folder", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    if request.param == "folder":
        with Log(tmp_path / "log") as log:
            yield log
        return
    if find_spec("dbos") is None:
        pytest.skip("dbos is not installed")
    with new_database(tmp_path_factory) as url, Log(url) as log:
        yield log
    gc.collect()


class Shop:
    """An agent that refunds orders, which somebody has to approve later, and looks at others."""

    def __init__(self, seconds: float | None = None, **options: Any) -> None:
        self.paid: list[str] = []
        self._seconds = seconds

        @tool(effect="write")
        def refund(order: str) -> str:
            """Refund an order."""
            self.paid.append(order)
            return f"refunded {order}"

        self.agent = Agent(ScriptedModel(self._step), tools=[refund], **options)

    def _step(self, request: Request) -> Step:
        last = request.messages[-1]
        if last.tool_results:
            return f"done: {last.tool_results[0].text}"
        return call("refund", order=last.text) if last.text.startswith("order") else "nothing to do"

    def approve(self, use: Any, tool: Any) -> bool:
        raise Defer(f"Refund {use.input['order']}?", seconds=self._seconds)

    async def run(self, log: Log, *tasks: str, **options: Any) -> dict[str, TaskResult]:
        stream = batch(self.agent, tasks, log=log, name="refunds", approve=self.approve, **options)
        async with asyncio.timeout(20):
            results = [result async for result in stream]
        found = {result.id: result for result in results}
        assert len(found) == len(results)
        return found


async def test_a_task_is_parked_and_goes_on_after_the_answer(log: Log) -> None:
    """Parked tasks take no room: one worker does the others meanwhile."""
    shop = Shop()
    tasks = ("order 1", "order 2", "look")
    found = await shop.run(log, *tasks, workers=1)
    assert {name: each.status for name, each in found.items()} == {"1": "waiting", "2": "waiting", "3": "done"}
    assert [each.text for each in found["1"].questions] == ["Refund order 1?"]
    assert (found["1"].error, found["1"].turns, shop.paid) == ("it waits for an answer", 1, [])

    again = await shop.run(log, *tasks, workers=1)  # nobody has answered
    assert {name: each.status for name, each in again.items()} == {"1": "waiting", "2": "waiting", "3": "done"}
    assert again["1"].questions[0].id == found["1"].questions[0].id

    log.answer(found["1"].questions[0].id, Allow(), by="Ada")
    log.answer(found["2"].questions[0].id, Deny("too dear"), by="Ada")
    done = await shop.run(log, *tasks, workers=1)
    assert {name: each.status for name, each in done.items()} == {"1": "done", "2": "done", "3": "done"}
    assert done["1"].text == "done: refunded order 1"
    assert "too dear" in done["2"].text
    assert (shop.paid, done["1"].attempts, done["1"].turns, done["1"].questions) == (["order 1"], 1, 2, ())


async def test_a_batch_can_stay_until_the_answers_are_there(log: Log) -> None:
    shop = Shop()
    running = asyncio.ensure_future(shop.run(log, "order 1", "look", wait=True))
    while not (questions := await asyncio.to_thread(log.questions)):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    assert not running.done()
    await asyncio.to_thread(log.answer, questions[0].id, Allow())
    found = await running
    assert ({each.status for each in found.values()}, shop.paid) == ({"done"}, ["order 1"])


async def test_a_task_goes_on_when_nobody_has_answered_in_time(log: Log) -> None:
    shop = Shop(seconds=1.0)
    found = await shop.run(log, "order 1", wait=True)
    assert (found["1"].text, shop.paid) == ("done: refund was not run: nobody has allowed it in time", [])


async def test_a_worker_that_starts_later_takes_the_task_up(log: Log) -> None:
    """All workers have ended before the answer comes; the result is there for the batch that is continued."""
    shop = Shop()
    found = await shop.run(log, "order 1", "order 2")
    await asyncio.to_thread(log.answer, found["2"].questions[0].id, Allow())
    queue, stop = open_queue(log), asyncio.Event()
    runner = TaskRunner(AgentSessions(shop.agent, log, shop.approve), queue, log.folder / "workspaces")
    working = asyncio.ensure_future(queue.work(runner, stop, tools=["refund"]))
    async with asyncio.timeout(30):
        while not shop.paid:
            await asyncio.sleep(0.05)
        stop.set()
        await working
    assert shop.paid == ["order 2"]
    assert await asyncio.to_thread(queue.wake) == 0  # the other one has no answer
    await asyncio.to_thread(queue.close)
    again = await shop.run(log, "order 1", "order 2")
    assert {name: each.status for name, each in again.items()} == {"1": "waiting", "2": "done"}


async def test_a_result_comes_from_outside(log: Log) -> None:
    keys: list[str] = []

    @tool(effect="write")
    def order_parts(context: ToolContext) -> str:
        """Order parts."""
        keys.append(context.key)
        raise Defer("the delivery")

    def step(request: Request) -> Step:
        last = request.messages[-1]
        return last.tool_results[0].text if last.tool_results else call("order_parts")

    agent = Agent(ScriptedModel(step), tools=[order_parts])
    first = [result async for result in batch(agent, ["go"], log=log, name="parts")]
    assert [each.status for each in first] == ["waiting"]
    log.resolve(keys[0], "4 wheels")
    second = [result async for result in batch(agent, ["go"], log=log, name="parts")]
    assert ([each.output for each in second], len(keys)) == (["4 wheels"], 1)


async def test_a_batch_of_the_same_name_replaces_parked_tasks(log: Log) -> None:
    shop = Shop()
    found = await shop.run(log, "order 1")
    queue = open_queue(log)
    await asyncio.to_thread(queue.begin, "refunds", BatchSettings(tools=("refund",)), resume=False)
    await asyncio.to_thread(log.answer, found["1"].questions[0].id, Allow())
    assert await asyncio.to_thread(queue.wake) == 0
    await asyncio.to_thread(queue.close)


@pytest.mark.parametrize("turns", [1, 2])
async def test_the_limits_of_a_task_do_not_run_out_while_it_waits(tmp_path: Path, turns: int) -> None:
    """The last turn that a limit allows may wait, too: its calls run after the answer."""
    shop = Shop(limits=Limits(max_turns=turns, max_seconds=1.5))
    with Log(tmp_path) as log:
        found = await shop.run(log, "order 1")
        await asyncio.sleep(1.6)
        log.answer(found["1"].questions[0].id, Allow())
        done = (await shop.run(log, "order 1"))["1"]
    assert (done.status, done.turns, shop.paid) == (["max_turns", "done"][turns - 1], turns, ["order 1"])


async def test_the_turns_of_a_run_that_was_killed_count_once(tmp_path: Path) -> None:
    model, agent, reached = held_at_the_third_turn()
    with Log(tmp_path) as log:
        queue = open_queue(log)
        name = queue.begin("job", BatchSettings(tools=("look",)), resume=False)
        queue.add(name, [Task("go", id="1")])
        queue.close()
        async with Session.open(log, session_of(name, "1"), agent, create=True) as session:
            running = asyncio.ensure_future(session.run("go"))
            await reached.wait()
            await session.suspend()  # leaves the log as a kill does
            await running
        found = [result async for result in batch(agent, [Task("go", id="1")], log=log, name="job")]
    assert [(each.status, each.turns, len(model.requests)) for each in found] == [("max_turns", 4, 5)]


def test_a_parked_task_is_not_that_of_a_dead_worker(tmp_path: Path) -> None:
    """It is neither freed nor counted as running, and costs no query of the log while it is the only one."""
    from outrider.batches.local_queue import LocalQueue
    from outrider.log.questions import PermissionQuestion, Question

    looks: list[list[str]] = []

    def unanswered(ids: Any) -> set[str]:
        looks.append(list(ids))
        return set(ids)

    queue = LocalQueue(tmp_path, unanswered)
    name = queue.begin("job", BatchSettings(), resume=False)
    queue.add(name, [Task("x", id=str(number)) for number in range(3)])
    assert (queue.wake(), looks) == (0, [])
    for number in range(3):
        claim = queue._claim("", frozenset(), 0)
        assert claim
        body = PermissionQuestion(tool="t", input={}, title="t", deadline=time.time() + (-1 if number == 2 else 60))
        question = Question(f"q{number}", "s", "c", 0.0, body)
        queue._park(claim, TaskResult(claim.task.id, "waiting", questions=(question,)))
    queue._free_tasks_of_dead_workers()
    state = queue.state(name)
    assert (state.running, state.waiting, state.is_waiting) == (0, 3, True)
    assert queue._claim("", frozenset(), 0) is None
    assert (queue.wake(), looks) == (1, [["q0", "q1", "q2"]])  # one query for all; the third is late
    assert [each.questions[0].id for each in queue.waiting(name)] == ["q0", "q1"]
    claim = queue._claim("", frozenset(), 0)
    assert claim
    assert (claim.task.id, claim.attempt) == ("2", 1)
    queue.close()
