"""`batch()`: run many tasks with one agent, from Python."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.batches.task import Task, TaskResult, make_task
from outrider.errors import BudgetError, ConfigError
from outrider.runtime.agent import Agent
from outrider.tools.approval import Approver

if TYPE_CHECKING:
    from outrider.batches.queue import BatchSettings, BatchState, Queue
    from outrider.log.log import Log
    from outrider.tools.schema import Schema


async def batch(
    agent: Agent,
    tasks: Iterable[Task | Mapping[str, Any] | str],
    *,
    log: Log,
    workers: int = 4,
    name: str = "",
    output: Any = None,
    budget: float | None = None,
    rates: Mapping[str, float] = {},
    approve: Approver | None = None,
) -> AsyncGenerator[TaskResult, None]:
    """Run each task in a session of its own in the log, and yield the results as they come, in any order.

    A task is a prompt, a `Task`, or a mapping with its fields. `workers` tasks run at once in this process; 0 leaves
    them to workers elsewhere. With a `name`, the batch can be stopped at any time, also by a kill: the same call goes
    on with it, yields the results that are there already, and resumes the sessions that were interrupted. `output` is
    a type or a JSON Schema, for tasks that have none: then `structured_output` has the value.

    `budget` is in US dollars for all tasks together; BudgetError is raised when it is used up. `rates` has the requests
    a minute by provider, as in {"anthropic": 50}. Failed tasks have a `status` other than `done`; they do not raise.
    Leaving the loop early stops the tasks that run.
    """
    from outrider.batches.queue import BatchSettings, open_queue  # few programs run batches
    from outrider.tools.schema import Schema

    _check_numbers(workers, budget, rates)
    schema = None if output is None else Schema.of(output)
    made = _made(tasks, schema)
    queue = open_queue(log)
    settings = BatchSettings(budget, dict(rates), max(workers, 1), tuple(tool.name for tool in agent.tools))
    try:
        batch_id = await asyncio.to_thread(_submit, queue, name, settings, made)
        work = _work(agent, log, approve, queue, batch_id) if workers else asyncio.Event().wait()
        async with aclosing(_results(queue, batch_id, work)) as results:
            async for result in results:
                yield _decoded(result, schema)
    finally:
        await asyncio.to_thread(queue.close)


async def _results(queue: Queue, batch: str, work: Coroutine[Any, Any, object]) -> AsyncGenerator[TaskResult, None]:
    """Yield the results while the work goes on, which is cancelled at the end. Raises BudgetError."""
    from outrider.batches.collecting import Collector

    working = asyncio.ensure_future(work)
    try:
        collector = Collector(queue, batch)
        async for found in collector.results(working.done):
            for result in found:
                yield result
        if working.done():
            working.result()
        _check_complete(collector.state)
        await asyncio.to_thread(queue.end, batch)
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _work(agent: Agent, log: Log, approve: Approver | None, queue: Queue, batch: str) -> None:
    """Run tasks of the batch until this is cancelled."""
    from outrider.batches.running import AgentSessions, TaskRunner  # few programs run batches

    runner = TaskRunner(AgentSessions(agent, log, approve), queue, log.folder / "workspaces")
    await queue.work(runner, asyncio.Event(), batch=batch, tools=[tool.name for tool in agent.tools])


def _submit(queue: Queue, name: str, settings: BatchSettings, tasks: list[Task]) -> str:
    batch_id = queue.begin(name or os.urandom(8).hex(), settings, resume=bool(name))
    queue.add(batch_id, tasks)
    return batch_id


def _made(tasks: Iterable[Task | Mapping[str, Any] | str], schema: Schema | None) -> list[Task]:
    """Return the tasks, each with an id of its own. Raises ValueError, which says which is wrong."""
    made: dict[str, Task] = {}
    for number, given in enumerate(tasks, 1):
        try:
            task = make_task(given, number)
        except (ValueError, TypeError) as error:
            raise type(error)(f"task {number}: {error}") from None
        if task.id in made:
            raise ValueError(f"task {number}: another task has the id {task.id!r}")
        if task.permissions or task.allow or task.tools is not None or task.system_prompt is not None:
            raise ValueError(
                f"task {number}: permissions, allow, tools and system_prompt are for `outrider batch`; "
                "here the agent has them, and approve=… decides about calls"
            )
        if schema is not None and task.schema is None:
            task = msgspec.structs.replace(task, schema=schema.json)
        made[task.id] = task
    return list(made.values())


def _decoded(result: TaskResult, schema: Schema | None) -> TaskResult:
    """Return the result with a value of the Python type, if there is one."""
    if schema is None or result.structured_output is None:
        return result
    return msgspec.structs.replace(result, structured_output=schema.decode(result.structured_output))


def _check_complete(state: BatchState) -> None:
    if not state.is_complete:
        raise BudgetError(
            f"the budget of ${state.budget:g} is used up, and {state.finished} of {state.total} tasks have results; "
            "continue with the same name and a larger budget"
        )


def _check_numbers(workers: int, budget: float | None, rates: Mapping[str, float]) -> None:
    if workers < 0:
        raise ConfigError(f"workers is {workers}; it must be 0 or more")
    if budget is not None and not budget > 0:
        raise ConfigError(f"budget is {budget!r}; it must be over 0, in US dollars")
    for provider, rate in rates.items():
        if not rate > 0:
            raise ConfigError(f"the rate of {provider} is {rate!r}; it must be over 0, in requests a minute")
