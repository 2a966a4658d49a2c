"""The queue on DBOS, on a real Postgres: what the other queue promises, and leases."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Usage, tool
from outrider.batches import BatchLimits, TaskResult, batch
from outrider.batches.dbos_queue import DbosQueue
from outrider.batches.dbos_tasks import application_of
from outrider.batches.queue import BatchSettings
from outrider.batches.running import AgentSessions, TaskRunner
from outrider.batches.task import Task
from outrider.errors import BudgetError, ConfigError, OutriderError
from outrider.providers.base import Request
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.approval import Defer
from tests.batches.held_agent import HeldAgent
from tests.postgres import new_database, rights_of, without, worker_role

pytestmark = [
    pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # DBOS leaves connections
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Let connections that DBOS leaves open be collected in the test that left them."""
    yield
    gc.collect()


@pytest.fixture
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with new_database(tmp_path_factory) as url, Log(url) as log:
        yield log


async def collect(agent: Agent, tasks: Any, log: Log, **options: Any) -> dict[str, TaskResult]:
    results = [result async for result in batch(agent, tasks, log=log, **options)]
    found = {result.id: result for result in results}
    assert len(found) == len(results)
    return found


async def test_a_batch_is_stopped_and_goes_on(log: Log) -> None:
    """Also the budget, the stored results, and a task that changed: one database for all of it is quicker."""
    script = HeldAgent(cost=0.5)
    agent = script.agent
    running = batch(agent, ["quick", "slow"], log=log, name="job", workers=2)
    assert (await anext(running)).id == "1"
    await script.held.wait()
    await running.aclose()
    with pytest.raises(BudgetError, match="2 of 3 tasks have results"):
        await collect(agent, ["quick", "slow", "later"], log, name="job", workers=1, limits=BatchLimits(budget=2.0))
    found = await collect(
        agent, ["quick", "slow", "later"], log, name="job", workers=2, limits=BatchLimits(budget=50.0)
    )
    assert {name: (result.status, result.text) for name, result in found.items()} == {
        "1": ("done", "done"),
        "2": ("done", "done"),
        "3": ("done", "done"),
    }
    assert sorted(script.runs) == ["later", "quick", "slow"]
    with pytest.raises(ConfigError, match="the task '1' has another prompt"):
        await collect(agent, ["other"], log, name="job")


def test_workflows_of_an_executor_whose_lease_expired_are_put_back(log: Log) -> None:
    queue = DbosQueue(log.url, lease=0.0)
    id = queue.begin("job", BatchSettings(), resume=False)  # noqa: A001
    queue.add(id, [Task("x", id="a"), Task("y", id="b")])
    queue.register("gone")
    queue.query(
        "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'gone' WHERE workflow_uuid = %s RETURNING 1",
        f"{id}/a",
    )
    assert queue._counts(id) == (0, 1, 2)
    state = queue.state(id)
    assert (state.total, state.finished, state.running) == (2, 0, 0)
    assert not queue.beat("gone")
    queue.close()


def test_workflows_that_an_executor_took_after_the_end_of_its_lease_are_put_back(log: Log) -> None:
    """It was taken for dead, did not know it yet, took another task, and was killed."""
    queue = DbosQueue(log.url)
    id = queue.begin("job", BatchSettings(), resume=False)  # noqa: A001
    queue.add(id, [Task("x", id="a"), Task("y", id="b")])
    queue.register("alive")
    for name, executor in (("a", "gone"), ("b", "alive")):
        taking = (
            "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = %s WHERE workflow_uuid = %s RETURNING 1"
        )
        queue.query(taking, executor, f"{id}/{name}")
    assert queue.state(id).running == 1
    assert queue.query("SELECT executor_id FROM dbos.workflow_status WHERE status = 'PENDING'") == [("alive",)]
    queue.close()


def test_workflows_of_a_process_that_has_ended_are_put_back_before_its_lease_expires(log: Log) -> None:
    queue = DbosQueue(log.url)
    id = queue.begin("job", BatchSettings(), resume=False)  # noqa: A001
    queue.add(id, [Task("x", id="a")])
    executor = queue.new_executor()
    queue.register(executor)
    queue.query("UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = %s RETURNING 1", executor)
    queue.release(os.getpid() * 10)
    assert queue.state(id).running == 1, "another process"
    queue.release(os.getpid())
    assert (queue.state(id).running, queue.beat(executor)) == (0, False)
    queue.close()


def test_a_new_batch_of_a_name_cancels_what_waits_of_the_one_before(log: Log) -> None:
    queue = DbosQueue(log.url)
    first = queue.begin("job", BatchSettings(), resume=False)
    queue.add(first, [Task("x", id="a")])
    second = queue.begin("job", BatchSettings(), resume=False)
    assert second != first
    rows = queue.query("SELECT status FROM dbos.workflow_status WHERE workflow_uuid = %s", f"{first}/a")
    assert rows == [("CANCELLED",)]
    assert queue.begin("job", BatchSettings(), resume=True) == second
    queue.close()


def test_money_and_requests_are_shared(log: Log) -> None:
    first, second = DbosQueue(log.url), DbosQueue(log.url)
    id = first.begin("job", BatchSettings(budget=1.0), resume=False)  # noqa: A001
    first.spend(id, 0.6)
    assert not second.is_spent(id)
    second.spend(id, 0.6)
    assert first.is_spent(id)
    waits = [queue.reserve("anthropic", 100.0) for queue in (first, second, first, second)]
    assert [round(wait / 100) for wait in waits] == [0, 1, 2, 3]
    first.block("gemini", 100.0)
    assert round(second.reserve("gemini", 0.0) / 100) == 1
    assert second.reserve("openai", 0.0) == 0
    first.close()
    second.close()


def test_tools_decide_who_takes_a_batch() -> None:
    assert application_of(["b", "a"]) == application_of(["a", "b", "a"])
    assert len({application_of([]), application_of(["a"]), application_of(["a", "b"])}) == 3


def test_the_password_is_in_no_error(tmp_path: Path) -> None:
    from outrider.errors import LogError

    queue = DbosQueue("postgresql://ann:s3cret@127.0.0.1:9/x")
    with pytest.raises(LogError, match="cannot be reached") as caught:
        queue.is_spent("x")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(LogError, match=r"cannot be reached.*Connection refused") as caught:
        queue.begin("job", BatchSettings(), resume=False)
    assert "s3cret" not in str(caught.value)


async def test_batches_with_other_tools_share_a_database(log: Log) -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    for tools in ((), (look,)):
        found = await collect(Agent(ScriptedModel(["done"]), tools=tools), ["x"], log)
        assert found["1"].text == "done"


async def works(owner: DbosQueue, url: str, seconds: float) -> bool:
    """Return whether a worker can do all it does: take over, run, park, wake, pay, stop at the budget, and end."""
    id = owner.begin("job", BatchSettings(budget=0.8, rates={"scripted": 6000}), resume=False)  # noqa: A001
    owner.add(id, [Task(name, id=name) for name in "abc"])
    owner.query("INSERT INTO outrider_batch.executor VALUES ('gone', now() - interval '1 hour') RETURNING 1")
    taken = (
        "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'gone' WHERE workflow_uuid = %s RETURNING 1"
    )
    owner.query(taken, f"{id}/a")
    counted = "SELECT count(*) FROM dbos.workflow_status WHERE starts_with(workflow_uuid, %s) AND status = ANY(%s)"

    async def watch(stop: asyncio.Event) -> None:
        ended = {"SUCCESS": 2, "CANCELLED": 1}
        parked = "SELECT 1 FROM outrider_batch.parked WHERE batch = %s"  # `state` would take over for the worker
        while owner.query(parked, id) or any(owner.query(counted, id, [each])[0][0] < ended[each] for each in ended):
            await asyncio.sleep(0.05)
        stop.set()

    stop = asyncio.Event()
    mine = DbosQueue(url, lease=0.5)
    with Log(url) as log:

        def approve(use: Any, tool: Any) -> bool:
            raise Defer("Really?", seconds=2)  # if it is too late before the task is parked, it need not be

        def step(request: Request) -> Step:
            is_asking = request.messages[-1].text == "a" and not request.messages[-1].tool_results
            return call("wave") if is_asking else "done"

        @tool
        def wave() -> str:
            """Wave."""
            return "waved"

        agent = Agent(ScriptedModel(step, usage=Usage(cost=0.3)), tools=[wave])
        sessions = AgentSessions(agent, log, approve)
        worker = mine.work(TaskRunner(sessions, mine, log.folder / "workspaces"), stop, batch=id)
        try:
            await asyncio.wait_for(asyncio.gather(watch(stop), worker), seconds)
        except (OutriderError, TimeoutError):
            return False
        finally:
            mine.close()
    return not owner.query("SELECT id FROM outrider_batch.executor")


@pytest.mark.long  # a worker that starts with the rights, and all of them, is in tests/cli/test_batch_on_postgres.py
async def test_a_worker_needs_each_right_of_the_documentation(log: Log) -> None:
    log.create().close()
    owner = DbosQueue(log.url)
    owner.begin("first", BatchSettings(), resume=False)
    with worker_role(log.url, batches=True) as restricted:
        assert await works(owner, restricted, 120)
        role = restricted.partition("//")[2].partition("@")[0]
        rights = [(right, place) for right, place in rights_of(log.url, role) if "outrider." not in place]
        rights = [each for each in rights if each != ("USAGE", "SCHEMA outrider")]
        assert len(rights) > 20
        for right, place in rights:
            with without(log.url, role, right, place):
                assert not await works(owner, restricted, 6), f"{right} on {place} is not needed"
            owner.query("DELETE FROM outrider_batch.executor RETURNING 1")
    owner.close()
