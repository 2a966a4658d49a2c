"""`batch()` from Python, on the embedded log."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import Agent, Limits, Log, Retry, Session, Usage, tool
from outrider.batches import BatchLimits, Task, TaskResult, batch, metering
from outrider.batches.local_queue import LocalQueue
from outrider.batches.queue import MAX_ATTEMPTS, BatchSettings, BatchState, Claim
from outrider.conversation.messages import Message
from outrider.errors import BudgetError, ConfigError, ProviderError, RateLimitedError, RunError
from outrider.log.holder import Holder
from outrider.providers.base import Reply, Request
from outrider.testing import Cut, ScriptedModel, Step, call
from tests.batches.held_agent import HeldAgent, held_at_the_third_turn


def echo(request: Request) -> Step:
    return f"you said {request.messages[-1].text}"


async def collect(agent: Agent, tasks: Any, log: Log, **options: Any) -> dict[str, TaskResult]:
    results = [result async for result in batch(agent, tasks, log=log, **options)]
    found = {result.id: result for result in results}
    assert len(found) == len(results)
    return found


async def test_each_task_has_one_result_and_a_session(tmp_path: Path) -> None:
    log = Log(tmp_path)
    tasks = ["hello", Task("there", id="b", metadata={"row": 2}), {"id": "c", "prompt": "you"}]
    found = await collect(Agent(ScriptedModel(echo)), tasks, log)
    assert {name: result.text for name, result in found.items()} == {
        "1": "you said hello",
        "b": "you said there",
        "c": "you said you",
    }
    assert found["b"].metadata == {"row": 2}
    assert [message.text for message in log.messages(found["c"].session)] == ["you", "you said you"]
    log.close()


async def test_the_next_model_goes_on_and_the_budget_counts_both(tmp_path: Path) -> None:
    broken = ProviderError("it broke off")
    broken.usage = Usage(1, cost=0.6)
    first = ScriptedModel(lambda _: Cut("half", broken))
    second = ScriptedModel(lambda _: "done", usage=Usage(1, cost=0.6))
    first.name, second.name = "a/x", "b/y"
    with Log(tmp_path) as log:
        limits = BatchLimits(budget=1.0)
        with pytest.raises(BudgetError, match="1 of 3 tasks have results"):
            await collect(Agent([first, second]), ["one", "two", "three"], log, workers=1, limits=limits)
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_results_have_the_type_of_the_output(tmp_path: Path) -> None:
    class Point(msgspec.Struct):
        x: int

    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(lambda request: call("report_back", x=len(request.messages[-1].text))))
        found = await collect(agent, ["abc"], log, output=Point)
        with pytest.raises(ValueError, match="task 1: it has a schema, and the batch has an output"):
            await collect(agent, [Task("abc", schema={"type": "object"})], log, output=Point)
    assert (found["1"].output, found["1"].structured_output) == (Point(3), {"x": 3})


async def test_the_output_of_a_batch_without_a_type_is_the_text_and_of_a_failed_task_an_error(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(lambda request: call("report_back", result=None)))
        assert (await collect(agent, ["abc"], log, output={"type": "null"}))["1"].output is None
        assert (await collect(Agent(ScriptedModel(["hello"])), ["abc"], log))["1"].output == "hello"
        failed = (await collect(Agent(ScriptedModel([ProviderError("on fire")])), ["abc"], log, output=int))["1"]
    with pytest.raises(RunError, match=r"task 1 has no answer \(error\): on fire") as raised:
        failed.output  # noqa: B018
    assert raised.value.result is failed


async def test_failures_have_reasons_and_do_not_stop_others(tmp_path: Path) -> None:
    def step(request: Request) -> Step:
        text = request.messages[-1].text
        if text == "fail":
            return ProviderError("the model is on fire")
        return call("nothing") if text != "fine" else "fine"

    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(step), limits=Limits(max_turns=2))
        found = await collect(agent, ["fail", "loop", "fine", Task("x", model="nix/nix")], log, workers=2)
    assert (found["1"].status, found["1"].error) == ("error", "the model is on fire")
    assert (found["2"].status, found["2"].error) == ("max_turns", "stopped by the limit max_turns")
    assert found["3"].is_done
    assert "there is no model 'nix/nix'" in found["4"].error


async def test_a_stopped_batch_goes_on_under_its_name(tmp_path: Path) -> None:
    """Results that are there are not computed again, and the interrupted session is resumed."""
    script = HeldAgent()
    agent = script.agent
    with Log(tmp_path) as log:
        running = batch(agent, ["quick", "slow"], log=log, name="job", workers=2)
        assert (await anext(running)).id == "1"
        await script.held.wait()
        await running.aclose()
        found = await collect(agent, ["quick", "slow", "later"], log, name="job")
    assert {name: result.text for name, result in found.items()} == {"1": "done", "2": "done", "3": "done"}
    assert sorted(script.runs) == ["later", "quick", "slow"]
    assert found["2"].turns == 2


async def test_a_task_that_changed_is_refused(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel(echo))
    with Log(tmp_path) as log:
        await collect(agent, ["a"], log, name="job")
        with pytest.raises(ConfigError, match="the task '1' has another prompt than when this batch began"):
            await collect(agent, ["b"], log, name="job")


async def test_a_write_that_was_stopped_half_way_is_reported_as_unknown_and_not_repeated(tmp_path: Path) -> None:
    begun, runs = asyncio.Event(), list[int]()

    @tool(effect="write")
    async def book(row: int) -> str:
        """Book a row."""
        runs.append(row)
        begun.set()
        await asyncio.Event().wait()
        return "booked"

    def step(request: Request) -> Step:
        return "I check it." if request.messages[-1].tool_results else call("book", row=7)

    agent = Agent(ScriptedModel(step), tools=[book])
    with Log(tmp_path) as log:
        running = batch(agent, ["go"], log=log, name="job")
        waiting = asyncio.ensure_future(anext(running))
        await begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        await running.aclose()
        found = await collect(agent, ["go"], log, name="job")
    assert (found["1"].status, found["1"].text, runs) == ("done", "I check it.", [7])
    assert [each.tool for each in found["1"].unknown_calls] == ["book"]


async def test_calls_that_a_stopped_worker_has_not_begun_are_run_by_the_next(tmp_path: Path) -> None:
    """Nobody has cancelled them, so the model does not read that somebody did."""
    looking, runs = asyncio.Event(), list[str]()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        runs.append("look")
        if not looking.is_set():
            looking.set()
            await asyncio.Event().wait()
        return "seen"

    @tool(effect="write", concurrent=False)
    def book() -> str:
        """Book it."""
        runs.append("book")
        return "booked"

    def step(request: Request) -> Step:
        results = request.messages[-1].tool_results
        return " ".join(each.text for each in results) if results else [call("look"), call("book")]

    agent = Agent(ScriptedModel(step), tools=[look, book])
    with Log(tmp_path) as log:
        running = asyncio.ensure_future(collect(agent, ["go"], log, name="job"))
        await looking.wait()
        running.cancel()
        await asyncio.wait([running])
        found = await collect(agent, ["go"], log, name="job")
    assert (found["1"].text, found["1"].unknown_calls) == ("seen booked", ())
    assert runs == ["look", "look", "book"]


async def test_a_task_that_is_taken_while_its_worker_is_stopped_goes_back(tmp_path: Path) -> None:
    """It would belong to a process that lives and does not run it."""
    queue, taken, go_on = LocalQueue(tmp_path), threading.Event(), threading.Event()
    name = queue.begin("job", BatchSettings(), resume=False)
    queue.add(name, [Task("go", id="1")])
    claim = queue._claim

    def slow_claim(*given: Any) -> Claim | None:
        found = claim(*given)
        taken.set()
        go_on.wait()
        return found

    queue._claim = slow_claim  # type: ignore[method-assign]

    async def never(claim: Claim) -> TaskResult:
        raise AssertionError("a stopped worker runs nothing")

    working = asyncio.ensure_future(queue.work(never, asyncio.Event(), batch=name))
    await asyncio.to_thread(taken.wait)
    working.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait([working])
    assert working.cancelled()
    assert queue.state(name).running == 0
    queue.close()


async def test_the_budget_is_one_for_all_tasks(tmp_path: Path) -> None:
    def step(request: Request) -> Step:
        return Reply(Message.assistant("ok"), usage=Usage(cost=0.4))

    agent = Agent(ScriptedModel(step))
    tasks = [f"task {number}" for number in range(10)]
    with Log(tmp_path) as log:
        with pytest.raises(BudgetError, match=r"the budget of \$1 is used up, and 3 of 10 tasks have results"):
            await collect(agent, tasks, log, name="job", workers=1, limits=BatchLimits(budget=1.0))
        found = await collect(agent, tasks, log, name="job", limits=BatchLimits(budget=100))
    assert len(found) == 10
    assert {result.status for result in found.values()} == {"done"}


async def test_requests_to_a_provider_wait_for_their_turn(tmp_path: Path) -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    with Log(tmp_path) as log:
        await collect(
            Agent(ScriptedModel(echo)), ["a", "b"], log, workers=2, limits=BatchLimits(rates={"scripted": 60})
        )
    assert clock() - began >= 1.0


async def test_a_refused_request_makes_the_others_wait(tmp_path: Path) -> None:
    clock = asyncio.get_running_loop().time
    times: list[float] = []

    def step(request: Request) -> Step:
        times.append(clock())
        return RateLimitedError("slow down", retryable=True, retry_after=1.0) if len(times) == 1 else "ok"

    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(step), retry=Retry(seconds=0))
        found = await collect(agent, ["a", "b"], log, workers=1)
    assert [found[name].status for name in "12"] == ["error", "done"]
    assert times[1] - times[0] >= 0.9


def test_slots_are_shared_by_all_queues_of_a_log(tmp_path: Path) -> None:
    queues = LocalQueue(tmp_path), LocalQueue(tmp_path)
    waits = [queue.reserve("anthropic", 100.0) for queue in (*queues, *queues)]
    assert [round(wait / 100) for wait in waits] == [0, 1, 2, 3]
    queues[0].block("gemini", 100.0)
    assert round(queues[1].reserve("gemini", 0.0) / 100) == 1
    assert queues[1].reserve("openai", 0.0) == 0
    for queue in queues:
        queue.close()


async def test_a_worker_asks_rarely_whether_a_provider_is_blocked_and_sees_its_own_block_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, looks = LocalQueue(tmp_path), list[str]()
    reserve = queue.reserve

    def counted(provider: str, interval: float) -> float:
        looks.append(provider)
        return reserve(provider, interval)

    monkeypatch.setattr(queue, "reserve", counted)
    monkeypatch.setattr(metering, "FRESH_SECONDS", 3600.0)
    shared: dict[str, float] = {}
    meters = [metering.Meter(queue, "x", BatchSettings(), shared) for _ in range(3)]
    for meter in meters:
        await meter.admit("gemini/flash")
    assert looks == ["gemini"]
    await meters[0].refused("gemini/flash", RateLimitedError("slow down", retryable=True, retry_after=0.1))
    await meters[1].admit("gemini/flash")
    assert looks == ["gemini"] * 2
    paced = metering.Meter(queue, "x", BatchSettings(rates={"gemini": 60_000}), shared)
    await paced.admit("gemini/flash")
    await paced.admit("gemini/flash")
    assert looks == ["gemini"] * 4
    queue.close()


async def test_limits_count_over_all_attempts(tmp_path: Path) -> None:
    """A task that was interrupted does not start its turns anew."""
    model, agent, reached = held_at_the_third_turn()
    with Log(tmp_path) as log:
        running = asyncio.ensure_future(collect(agent, ["go"], log, name="job"))
        await reached.wait()
        running.cancel()
        await asyncio.wait([running])
        found = await collect(agent, ["go"], log, name="job")
    assert found["1"].status == "max_turns"
    assert found["1"].turns == 4
    assert len(model.requests) == 5


async def test_a_failing_log_does_not_fail_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is resumed from what is in the log."""
    from outrider.errors import LogError
    from outrider.log.journal import Journal
    from outrider.log.pending_write import PendingWrite

    write, failures = Journal.write, 2

    def failing(self: Journal, *entries: Any) -> PendingWrite:
        nonlocal failures
        if failures:
            failures -= 1
            return PendingWrite.failed(LogError("the disk is away"))
        return write(self, *entries)

    with Log(tmp_path) as log:
        monkeypatch.setattr(Journal, "write", failing)
        found = await collect(Agent(ScriptedModel(echo)), ["hello"], log)
    assert found["1"].text == "you said hello"


@pytest.mark.parametrize(
    ("tasks", "options", "sentence"),
    [
        ([Task("x", permissions="all")], {}, "task 1: permissions, allow, ask_later, tools, settings and system"),
        (["a", {"id": "1", "prompt": "b"}], {}, "task 2: another task has the id '1'"),
        (["a", ""], {}, "task 2: the prompt is empty"),
        ([3], {}, "task 1: a task is text, a Task or a mapping, not int"),
        (["a"], {"workers": -1}, "workers is -1"),
    ],
)
async def test_wrong_arguments_are_refused_before_anything_starts(
    tmp_path: Path, tasks: list[Any], options: dict[str, Any], sentence: str
) -> None:
    model = ScriptedModel(echo)
    with Log(tmp_path) as log, pytest.raises(ValueError, match=sentence):
        await collect(Agent(model), tasks, log, **options)
    assert model.requests == []


@pytest.mark.parametrize(
    ("limits", "sentence"), [({"budget": 0}, "budget is 0"), ({"rates": {"x": 0}}, "the rate of x is 0")]
)
def test_limits_that_allow_nothing_are_refused(limits: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BatchLimits(**limits)


def test_a_task_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    queue = LocalQueue(tmp_path)
    id = queue.begin("job", BatchSettings(), resume=False)  # noqa: A001
    queue.add(id, [Task("x", id="poison", metadata=7), Task("y", id="fine")])
    for attempt in range(1, MAX_ATTEMPTS + 1):
        worker = subprocess.Popen(["true"])
        doomed = LocalQueue(tmp_path)
        doomed._worker = msgspec.json.encode(
            msgspec.structs.replace(Holder.current(), pid=worker.pid, started="1")
        ).decode()
        worker.wait()
        claim = doomed._claim("", frozenset(), 0)
        assert claim is not None
        assert (claim.task.id, claim.attempt) == ("poison", attempt)
        doomed.close()
        queue._free_tasks_of_dead_workers()
    ((result,), _) = queue.results(id, 0)
    assert (result.id, result.status, result.attempts, result.metadata) == ("poison", "error", MAX_ATTEMPTS, 7)
    assert "5 workers died while they ran this task" in result.error
    assert queue.state(id) == BatchState(2, 1, 0)
    queue.close()


def test_a_worker_that_lost_its_task_cannot_finish_it(tmp_path: Path) -> None:
    queue, late = LocalQueue(tmp_path), LocalQueue(tmp_path)
    id = queue.begin("job", BatchSettings(), resume=False)  # noqa: A001
    queue.add(id, [Task("x", id="a")])
    claim = late._claim("", frozenset(), 0)
    assert claim is not None
    late._put_back(claim)
    again = queue._claim("", frozenset(), 0)
    assert again is not None
    late._finish(claim, TaskResult("a", "done", "late"))
    queue._finish(again, TaskResult("a", "done", "right"))
    late._finish(claim, TaskResult("a", "done", "later"))
    assert [result.text for result in queue.results(id, 0)[0]] == ["right"]
    queue.close()
    late.close()


def test_a_worker_without_the_tools_leaves_the_tasks_alone(tmp_path: Path) -> None:
    queue = LocalQueue(tmp_path)
    queue.add(queue.begin("job", BatchSettings(tools=("move",)), resume=False), [Task("x", id="a")])
    assert queue._claim("", frozenset(), 0) is None
    assert queue._claim("", frozenset(["move", "paint"]), 0) is not None
    queue.close()


async def test_sessions_of_tasks_are_sessions_of_the_log(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        found = await collect(Agent(ScriptedModel(echo)), ["hello"], log)
        with Session.open(log, found["1"].session, Agent(ScriptedModel(echo))) as session:
            assert (await session.run("again")).text == "you said again"
        assert [summary.id for summary in log.sessions()] == [found["1"].session]
