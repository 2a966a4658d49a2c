"""The sub-agents of a session that work in the background: started, told, waited for and stopped.

The state of each is an entry of the log. Its work is a task of the event loop, which outlives the run that started it,
and ends with the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from outrider.log.background import INTERRUPTED, answer_of, ended
from outrider.log.entries import BackgroundTask
from outrider.runtime.exclusive_task import running_loop
from outrider.text import clean

if TYPE_CHECKING:
    from outrider.runtime.journal import Journal
    from outrider.runtime.record import SessionRecord


class Ending(NamedTuple):
    """How a sub-agent ended."""

    status: str
    words: str
    """Its answer, or why there is none."""
    note: str = ""
    """What the user should know: what became of its worktree."""
    output: Any = UNSET
    """The data of its answer, if it has any."""


class Job:
    """One sub-agent at work."""

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.child: Any = None
        """Its `Session`, once it is open."""
        self.is_quiet = False
        """Whether the model has stopped it, and so need not be told."""

    def cancel(self) -> None:
        """Let it end, wherever it is. Safe from any thread."""
        if (loop := self.task.get_loop()) is running_loop():
            self.task.cancel()
        else:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(self.task.cancel)


Work: TypeAlias = Callable[[Job], Awaitable[Ending]]


class Background:
    """The sub-agents in the background of one session."""

    def __init__(self, record: SessionRecord) -> None:
        self._record = record
        self._jobs: dict[str, Job] = {}
        self.journals: dict[str, Journal] = {}
        """Those of the sub-agents. Without a log they are all that remembers what was said."""
        self._nudged: asyncio.Future[None] | None = None
        self._is_closed = False
        self.wake: Callable[[], None] | None = None
        """Called when one has ended. With it a run ends while sub-agents work; without it, a run waits for them."""

    def __iter__(self) -> Iterator[BackgroundTask]:
        return iter(list(self._record.state.background.values()))

    @property
    def working(self) -> list[BackgroundTask]:
        """Those that have not ended."""
        return self._record.state.working

    @property
    def has_news(self) -> bool:
        """Whether a run would tell the model of one."""
        return bool(self._record.state.reports)

    def find(self, id: str) -> BackgroundTask | None:
        """Return the one whose session has this id, or an id that begins so. None if there is not exactly one."""
        found = [each for each in self if id and each.session.startswith(id)]
        return found[0] if len(found) == 1 else None

    async def answer(self, task: BackgroundTask) -> str:
        """Return the whole answer of one that has ended."""
        child = await self._record.journal.child_state(task.session)
        return answer_of(child)[0] if child else ""

    def child(self, task: BackgroundTask) -> Any:
        """Return the `Session` of one at work, once it is open; None before."""
        return job.child if (job := self._jobs.get(task.session)) else None

    async def start(self, task: BackgroundTask, work: Work, most: int) -> None:
        """Let one work from now on. Return once the log knows of it. The model reads `most` characters of its answer.

        A call that runs again after a crash finds it at work, or with a report that waits.
        """
        if (known := self._record.tasks.get(task.session)) and (known.status == "done" or task.session in self._jobs):
            return
        job, stored = Job(), asyncio.get_running_loop().create_future()
        self._jobs[task.session] = job
        job.task = asyncio.create_task(self._work(job, task, work, most, stored))
        await asyncio.shield(stored)

    async def restart(self, task: BackgroundTask, work: Work, most: int) -> None:
        """Let one that has ended go on. What the model was not told of it yet, it will be."""
        del self._record.tasks[task.session]
        await self.start(
            msgspec.structs.replace(task, status="", is_told=False, note="", structured_output=UNSET), work, most
        )

    async def _work(self, job: Job, task: BackgroundTask, work: Work, most: int, stored: asyncio.Future[None]) -> None:
        try:
            await self._record.append(task)
            stored.set_result(None)
            try:
                ending = await work(job)
            except asyncio.CancelledError:
                if self._is_closed:
                    raise
                ending = Ending("cancelled", "")
            except Exception as error:  # noqa: BLE001 - every sub-agent has an end
                ending = Ending("error", clean(f"{type(error).__name__}: {error}"))
            if not self._is_closed:  # else the next process reports it, as after a kill
                noted = msgspec.structs.replace(self._record.tasks[task.session], note=clean(ending.note))
                end = ended(noted, ending.status, ending.words, most=most, output=ending.output)
                await self._record.append(msgspec.structs.replace(end, report="") if job.is_quiet else end)
        except BaseException as error:
            if not stored.done():
                stored.set_exception(error)
                return
            raise
        finally:
            del self._jobs[task.session]
        if self.wake:
            self.wake()

    async def stop(self, task: BackgroundTask, *, quietly: bool = False) -> bool:
        """Stop one, and wait for its end. Return whether it was at work. `quietly` does not tell the model."""
        if (job := self._jobs.get(task.session)) is None:
            return False
        job.is_quiet = quietly
        job.child.cancel() if job.child else job.cancel()  # a run that is cancelled still has its last words
        await asyncio.wait([job.task])
        return True

    async def wait(self, sessions: Collection[str]) -> None:
        """Wait until these have ended."""
        if waited := [job.task for session, job in self._jobs.items() if session in sessions]:
            await asyncio.wait(waited)

    async def changed(self) -> None:
        """Return when one has ended, or after `nudge`. Raises LogError if its end could not be stored."""
        jobs = [job.task for job in self._jobs.values()]
        if not jobs:  # its end could not be stored, or its event loop was closed
            await self._record.append(*(ended(each, INTERRUPTED, "") for each in self.working))
            return
        self._nudged = asyncio.get_running_loop().create_future()
        try:
            done, _ = await asyncio.wait([*jobs, self._nudged], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            self._nudged = None

    def nudge(self) -> None:
        """Let `changed` return: a message waits."""
        if self._nudged and not self._nudged.done():
            self._nudged.set_result(None)

    def close(self) -> None:
        """Stop all. The log is as after a kill: the next process to open the session reports them."""
        self._is_closed = True
        for job in list(self._jobs.values()):
            job.cancel()

    async def aclose(self) -> None:
        """Stop all, and wait for their ends."""
        self.close()
        here = asyncio.get_running_loop()
        if waited := [job.task for job in list(self._jobs.values()) if job.task.get_loop() is here]:
            await asyncio.wait(waited)
