"""`batch()`: run many tasks with one agent, from Python."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, overload

import msgspec

from outrider.batches.queue import BatchLimits, BatchSettings, BatchState, Queue
from outrider.batches.running import AgentSessions, TaskRunner
from outrider.batches.task import Task, TaskResult, make_task
from outrider.errors import BudgetError, ConfigError, LogError
from outrider.log.log import Log
from outrider.runtime.agent import Agent
from outrider.tools.approval import Approver
from outrider.tools.context import DepsT
from outrider.tools.schema import Schema

if TYPE_CHECKING:
    from outrider.runtime.structured_output import OutputForm

T = TypeVar("T")
Tasks = Iterable[Task | Mapping[str, Any] | str]
NO_LIMITS = BatchLimits()
POLL_SECONDS = 0.1
"""The pause between two looks for new results."""


class BatchOptions(TypedDict, Generic[DepsT], total=False):
    """What `batch` takes beside its agent, its tasks, its log and its output."""

    workers: int
    """How many tasks run at once in this process, 4 by default; 0 leaves them to workers elsewhere."""
    name: str
    """The name by which the batch is continued."""
    limits: BatchLimits
    """The budget and the pace of requests of all tasks together."""
    approve: Approver | None
    """Decides before each call whether it may run."""
    deps: DepsT | None
    """The dependencies of the agent's tools in all tasks."""
    wait: bool
    """Whether the batch stays until the questions of its tasks are answered."""


@overload
def batch(
    agent: Agent[DepsT], tasks: Tasks, *, log: Log, output: None = None, **options: Unpack[BatchOptions[DepsT]]
) -> AsyncGenerator[TaskResult[str], None]: ...
@overload
def batch(
    agent: Agent[DepsT], tasks: Tasks, *, log: Log, output: type[T], **options: Unpack[BatchOptions[DepsT]]
) -> AsyncGenerator[TaskResult[T], None]: ...
@overload
def batch(
    agent: Agent[DepsT], tasks: Tasks, *, log: Log, output: OutputForm, **options: Unpack[BatchOptions[DepsT]]
) -> AsyncGenerator[TaskResult[Any], None]: ...
async def batch(
    agent: Agent[DepsT],
    tasks: Tasks,
    *,
    log: Log,
    output: Any = None,
    workers: int = 4,
    name: str = "",
    limits: BatchLimits = NO_LIMITS,
    approve: Approver | None = None,
    deps: DepsT | None = None,
    wait: bool = False,
) -> AsyncGenerator[TaskResult[Any], None]:
    """Run each task in a session of its own in the log, and yield the results as they come, in any order.

    A task is a prompt, a `Task`, or a mapping with its fields. `workers` tasks run at once in this process; 0 leaves
    them to workers elsewhere. With a `name`, the batch can be stopped at any time, also by a kill: the same call goes
    on with it, yields the results that are there already, and resumes the sessions that were interrupted. `output` is
    a Python type, of which `result.output` is a value, or a JSON Schema, for which it is decoded JSON; without it
    `result.output` is the text.

    `limits` has a budget and the pace of requests for all tasks together; BudgetError is raised when the budget is used
    up. `deps` are the dependencies of the agent's tools in all tasks. Failed tasks have a `status` other than `done`;
    they do not raise. Leaving the loop early stops the tasks that run.

    A task whose approver or tool raises `Defer` is parked until `log.answer` has answered: it needs no worker, and its
    limits do not run out. At the end, parked tasks are yielded with the status `waiting` and their `questions`; the
    same call with the same `name` goes on with those that were answered. With `wait` it stays until all are.
    """
    if workers < 0:
        raise ConfigError(f"workers is {workers}; it must be 0 or more")
    schema = None if output is None else Schema.of(output)
    made = _made(tasks, schema)
    queue = open_queue(log)
    settings = BatchSettings(limits.budget, limits.rates, max(workers, 1), tuple(tool.name for tool in agent.tools))
    sessions = AgentSessions(agent, log, approve, deps)
    try:
        batch_id = await asyncio.to_thread(_submit, queue, name, settings, made)
        work = _work(sessions, agent, log, queue, batch_id) if workers else asyncio.Event().wait()
        async with aclosing(_results(Collector(queue, batch_id, wait=wait), work)) as results:
            async for result in results:
                yield _decoded(result, schema)
    finally:
        await asyncio.to_thread(sessions.close)
        await asyncio.to_thread(queue.close)


async def _results(collector: Collector, work: Coroutine[Any, Any, object]) -> AsyncGenerator[TaskResult, None]:
    """Yield the results while the work goes on, which is cancelled at the end. Raises BudgetError."""
    working = asyncio.ensure_future(work)
    try:
        async for found in collector.results(working.done):
            for result in found:
                yield result
        if working.done():
            working.result()
        for result in collector.waiting:
            yield result
        _check_complete(collector)
        await asyncio.to_thread(collector.end)
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _work(sessions: AgentSessions, agent: Agent[Any], log: Log, queue: Queue, batch: str) -> None:
    """Run tasks of the batch until this is cancelled."""
    runner = TaskRunner(sessions, queue, log.folder / "workspaces")
    await queue.work(runner, asyncio.Event(), batch=batch, tools=[tool.name for tool in agent.tools])


def _submit(queue: Queue, name: str, settings: BatchSettings, tasks: list[Task]) -> str:
    batch_id = queue.begin(name or os.urandom(8).hex(), settings, resume=bool(name))
    queue.add(batch_id, tasks)
    return batch_id


def _made(tasks: Tasks, schema: Schema | None) -> list[Task]:
    """Return the tasks, each with an id of its own. Raises ValueError, which says which is wrong."""
    made: dict[str, Task] = {}
    for number, given in enumerate(tasks, 1):
        try:
            task = make_task(given, number)
        except (ValueError, TypeError) as error:
            raise type(error)(f"task {number}: {error}") from None
        if task.id in made:
            raise ValueError(f"task {number}: another task has the id {task.id!r}")
        own = task.permissions, task.allow, task.ask_later, task.settings
        if any(own) or task.tools is not None or task.system_prompt is not None:
            raise ValueError(
                f"task {number}: permissions, allow, ask_later, tools, settings and system_prompt are for "
                "`outrider batch`; here the agent has them, and approve=… decides about calls"
            )
        if schema is not None:
            if task.schema is not None:
                raise ValueError(f"task {number}: it has a schema, and the batch has an output; leave one of them out")
            task = msgspec.structs.replace(task, schema=schema.json)
        made[task.id] = task
    return list(made.values())


def _decoded(result: TaskResult[Any], schema: Schema | None) -> TaskResult[Any]:
    """Return the result with a value of the Python type, if there is one."""
    if schema is None or not result.is_done:
        return result
    return msgspec.structs.replace(result, value=schema.decode(result.structured_output))


def _check_complete(collector: Collector) -> None:
    state = collector.state
    if not state.is_complete and not collector.waiting:
        raise BudgetError(
            f"the budget of ${state.budget:g} is used up, and {state.finished} of {state.total} tasks have results; "
            "continue with the same name and a larger budget"
        )


def open_queue(log: Log) -> Queue:
    """Return the queue that belongs to a log: on DBOS for a log in Postgres, else in a file beside it."""
    if log.url:
        from outrider.batches.dbos_queue import DbosQueue

        return DbosQueue(log.url)
    from outrider.batches.local_queue import LocalQueue

    return LocalQueue(log.folder, log.inbox.unanswered)


class Collector:
    """Reads the results of a batch, each once, in the order in which they were stored."""

    def __init__(self, queue: Queue, batch: str, *, wait: bool = False) -> None:
        """With `wait`, parked tasks do not end the results."""
        self._queue, self._batch, self._wait = queue, batch, wait
        self._mark = 0
        self.state = BatchState(0, 0, 0)
        """Where the batch stood at the last look."""
        self.waiting: list[TaskResult] = []
        """What the parked tasks wait for, if nothing else is left."""
        self.trouble = ""
        """Why the last look failed; empty if it did not."""

    async def results(self, is_stopped: Callable[[], bool] = lambda: False) -> AsyncGenerator[list[TaskResult], None]:
        """Yield new results, perhaps none, about ten times a second.

        Ends when all tasks have results or are parked, when the budget is used up and no task runs, or when
        `is_stopped` says so.
        """
        while True:
            stopped = is_stopped()
            found = await asyncio.to_thread(self._look)
            yield found
            if not found and (stopped or (not self.trouble and self._has_ended())):
                return
            if found and self.state.is_complete:
                continue
            await asyncio.sleep(POLL_SECONDS)

    def _look(self) -> list[TaskResult]:
        """Return new results. A database that is down for the moment is asked again later."""
        try:
            # The state first: if it counts a result, the results have it, too.
            self.state = self._queue.state(self._batch)
            found, self._mark = self._queue.results(self._batch, self._mark)
            is_over = self.state.is_waiting and not self._wait and not self._queue.wake()
            self.waiting = self._queue.waiting(self._batch) if is_over else []
        except LogError as error:
            self.trouble = str(error)
            return []
        self.trouble = ""
        return found

    def _has_ended(self) -> bool:
        state = self.state
        is_parked = bool(self.waiting) and state.finished + len(self.waiting) >= state.total  # none was woken elsewhere
        return state.is_complete or is_parked or (state.is_spent and not state.running)

    def end(self) -> None:
        """Mark the batch as ended, unless tasks are left."""
        if self.state.is_complete:
            self._queue.end(self._batch)
