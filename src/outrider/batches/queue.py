"""The seam between a batch and its workers: `Queue`, which hands out tasks and keeps their results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec

from outrider.batches.task import Task, TaskResult, session_of
from outrider.errors import ConfigError, DamagedLogError, LogDeniedError, LogError, NewerLogError

MAX_ATTEMPTS = 5
"""How often a task is taken before it fails: it may be the task that kills its workers."""
WAKE_SECONDS = 1.0
"""The pause between two looks of a worker for parked tasks that can go on."""
P = ParamSpec("P")
T = TypeVar("T")
LOG_SECONDS = 600.0
"""How long a task waits for a database that cannot be reached."""
PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the second attempt, and the most that the growing pause reaches."""
PERMANENT = (DamagedLogError, LogDeniedError, NewerLogError)
"""Errors that time does not heal."""


class BatchLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a batch, over all workers. Raises ConfigError for those that nothing can satisfy."""

    budget: float | None = None
    """US dollars for the whole batch; None for no limit."""
    rates: dict[str, float] = {}
    """Requests a minute by provider, as in {"anthropic": 50}."""

    def __post_init__(self) -> None:
        if self.budget is not None and not self.budget > 0:
            raise ConfigError(f"budget is {self.budget!r}; it must be over 0, in US dollars")
        for provider, rate in self.rates.items():
            if not rate > 0:
                raise ConfigError(f"the rate of {provider} is {rate!r}; it must be over 0, in requests a minute")


class BatchSettings(BatchLimits, frozen=True, omit_defaults=True):
    """What all workers of a batch share."""

    concurrency: int = 1
    """Tasks that one worker runs at once."""
    tools: tuple[str, ...] = ()
    """The names of the tools from files that a worker must have."""


class Claim(msgspec.Struct, frozen=True):
    """A task that a worker has taken."""

    batch: str
    task: Task
    attempt: int
    """1 for the first worker that takes it."""
    settings: BatchSettings


class BatchState(msgspec.Struct, frozen=True):
    """Where a batch stands."""

    total: int
    finished: int
    running: int
    spent: float = 0.0
    """US dollars so far, as far as prices are known."""
    budget: float | None = None
    waiting: int = 0
    """Tasks that are parked: they wait for answers from outside."""

    @property
    def is_waiting(self) -> bool:
        """Whether every task that has no result is parked."""
        return 0 < self.waiting == self.total - self.finished

    @property
    def is_complete(self) -> bool:
        """Whether every task has a result."""
        return self.finished >= self.total

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        return self.budget is not None and self.spent >= self.budget


class Unfinished(Exception):  # noqa: N818 - not an error: the task goes back to the queue
    """The run of a task was stopped before its end. Its session can be resumed."""


Run: TypeAlias = Callable[[Claim], Awaitable[TaskResult]]
"""Runs a task to its result. Raises Unfinished if it stops before: the queue gives the task to a worker again.

A result with the status `waiting` parks the task: no worker has it until it is woken.
"""


class Ledger(Protocol):
    """What the workers of all batches share: money and requests."""

    def spend(self, batch: str, dollars: float) -> None:
        """Add the cost of a request."""

    def is_spent(self, batch: str) -> bool:
        """Return whether the budget of a batch is used up."""

    def reserve(self, provider: str, interval: float) -> float:
        """Take the next slot for a request, `interval` seconds after the one before. Return the seconds until it."""

    def block(self, provider: str, seconds: float) -> None:
        """Let no request to a provider start for so long, because it asks for that."""


class Queue(Ledger, Protocol):
    """The tasks of batches and their results. All methods may be called from any thread; they block."""

    def begin(self, name: str, settings: BatchSettings, *, resume: bool) -> str:
        """Start a batch, or continue the newest one of this name with `resume`. Return its id.

        A new batch ends earlier ones of the same name: their tasks that wait are not started any more. The settings
        replace those of a continued batch.
        """

    def add(self, batch: str, tasks: Sequence[Task]) -> None:
        """Add the tasks that the batch does not have yet. Raises ConfigError if one has another prompt than before."""

    def results(self, batch: str, after: int) -> tuple[list[TaskResult], int]:
        """Return the results since a mark, which is 0 at the beginning, and the next mark."""

    def state(self, batch: str) -> BatchState:
        """Return where the batch stands."""

    def waiting(self, batch: str) -> list[TaskResult]:
        """Return what the parked tasks of a batch wait for: results with the status `waiting`."""

    def wake(self) -> int:
        """Give parked tasks back to their queues whose questions have answers, or were not answered in time.

        Return how many. All parked tasks cost one query: workers call this about once a second.
        """

    def end(self, batch: str) -> None:
        """Mark a batch as ended: workers leave it alone."""

    def release(self, pid: int) -> None:
        """Give the tasks of a worker process of this machine, which has ended, to others at once."""

    async def work(self, run: Run, stop: asyncio.Event, *, batch: str = "", tools: Iterable[str] = ()) -> None:
        """Run tasks of one batch, or of all whose tools are here, until `stop` is set; then finish those that run.

        A cancel stops the running ones, which go back to the queue.
        """

    def close(self) -> None:
        """Release what the queue has open."""


def rate_of(rates: Mapping[str, float], model: str) -> tuple[str, float] | None:
    """Return the rate that applies to a model, and the name it goes by: the longest that its name begins with.

    >>> rate_of({"anthropic": 50, "anthropic/claude-opus-5": 10}, "anthropic/claude-opus-5")
    ('anthropic/claude-opus-5', 10)
    """
    fitting = [name for name in rates if model == name or model.startswith((f"{name}/", f"{name}#"))]
    longest = max(fitting, key=len, default=None)
    return None if longest is None else (longest, rates[longest])


def check_same(stored: Task, task: Task) -> None:
    """Raise ConfigError if a task of a continued batch is another one than before."""
    if stored.prompt != task.prompt:
        raise ConfigError(
            f"the task {task.id!r} has another prompt than when this batch began; give it a new id, or start a new "
            "batch with another --output"
        )


def given_up(batch: str, task: Task, attempts: int) -> TaskResult:
    """Return the result of a task that no worker survived."""
    error = f"{attempts} workers died while they ran this task; it is not tried again"
    session = session_of(batch, task.id)
    return TaskResult(task.id, "error", error=error, session=session, attempts=attempts, metadata=task.metadata)


async def retried(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call a blocking function in a thread, again and again while it raises LogError, for ten minutes."""
    until, pause = time.monotonic() + LOG_SECONDS, PAUSE
    while True:
        try:
            return await asyncio.to_thread(function, *arguments, **options)
        except PERMANENT:
            raise
        except LogError:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def first_of(*awaitables: object, seconds: float | None = None) -> None:
    """Wait until one is done, or for some seconds. Tasks go on, coroutines are cancelled."""
    own = [asyncio.ensure_future(each) for each in awaitables if asyncio.iscoroutine(each)]
    tasks = [each for each in awaitables if isinstance(each, asyncio.Future)]
    try:
        await asyncio.wait([*own, *tasks], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in own:
            each.cancel()
