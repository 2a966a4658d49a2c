"""One run of `outrider batch`: read the tasks, start the workers, collect the results."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from outrider.batches.collector import Collector, open_queue
from outrider.batches.files import ResultsFile, read_tasks
from outrider.batches.pool import WorkerPool
from outrider.batches.queue import BatchSettings, BatchState, Queue
from outrider.batches.task import Task, TaskResult
from outrider.cli.live_region import LiveRegion
from outrider.cli.options import UsageError, tools_and_files
from outrider.cli.prompt_input import read_schema
from outrider.coding.batch_sessions import check_task
from outrider.coding.config.loading import load
from outrider.coding.config.settings import SETTINGS
from outrider.coding.tool_files import load_tools
from outrider.environment import default_model
from outrider.processes.signals import exit_code, on_signals
from outrider.processes.starting import python_module
from outrider.sync import default_log
from outrider.text import counted, dollars
from outrider.text.visible import safe_line

WINDOW_SECONDS = 60.0
WINDOW_RESULTS = 8
"""The rate is that of the last minute, or of so many results if they took longer."""
LINE_SECONDS = 10.0
"""The pause between two lines where there is no terminal."""
BAR = 24
MAX_FAILURES = 20
"""Failed tasks that are named."""


class BatchProgress:
    """Counts results and shows where the batch stands."""

    def __init__(
        self, total: int, finished: int, failed: int = 0, *, quiet: bool, stream: TextIO | None = None
    ) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._total, self._before = total, finished
        self._finished = finished
        self._failed, self._failed_before = 0, failed
        self.unknown = 0
        """Calls whose outcome is unknown."""
        self.has_unpriced = False
        """Whether a model answered whose price is not known."""
        self._began = time.monotonic()
        self._times: deque[tuple[float, int]] = deque([(self._began, 0)])
        self._region = LiveRegion(self._stream) if not quiet and self._stream.isatty() else None
        self._printed = self._began

    @property
    def failed(self) -> int:
        """Results without an answer, with those of earlier runs."""
        return self._failed + self._failed_before

    def take(self, results: list[TaskResult]) -> None:
        """Count results, and name those that failed."""
        for result in results:
            self._finished += 1
            self.unknown += len(result.unknown_calls)
            self.has_unpriced = self.has_unpriced or (result.usage.total_tokens > 0 and result.usage.cost is None)
            if not result.is_done:
                self._failed += 1
                if self._failed <= MAX_FAILURES:
                    self.note(f"{result.id}: {result.status}{f': {result.error}' if result.error else ''}")
                elif self._failed == MAX_FAILURES + 1:
                    self.note("more tasks failed; the results file has the reasons")

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        if self._quiet:
            return
        with suppress(OSError):
            if self._region:
                self._region.commit([safe_line(text)[: self._region.width]])
            else:
                print(safe_line(text), file=self._stream, flush=True)

    def show(self, state: BatchState, note: str = "") -> None:
        """Show where the batch stands."""
        now = time.monotonic()
        if self._finished - self._before > self._times[-1][1]:
            self._times.append((now, self._finished - self._before))
        while len(self._times) > WINDOW_RESULTS and now - self._times[0][0] > WINDOW_SECONDS:
            self._times.popleft()
        if self._quiet:
            return
        with suppress(OSError):
            if self._region:
                line = f"{self._bar()} {self.line(state)}{f' · {safe_line(note)}' if note else ''}"
                self._region.draw([line[: self._region.width]])
            elif now - self._printed >= LINE_SECONDS:
                self._printed = now
                print(self.line(state), file=self._stream, flush=True)

    def clear(self) -> None:
        with suppress(OSError):
            if self._region:
                self._region.clear()

    def line(self, state: BatchState) -> str:
        """Return the state in one line: counts, rate, cost and the time left."""
        rate = self._rate()
        parts = [f"{self._finished}/{self._total}", f"{state.running} running"]
        if state.waiting:
            parts.append(f"{state.waiting} waiting")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if rate:
            parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min")
        if state.spent:
            parts.append(dollars(state.spent))
        if rate and self._finished < self._total:
            parts.append(f"{duration((self._total - self._finished) / rate)} left")
        return " · ".join(parts)

    def summary(self, spent: float) -> str:
        """Return the last line."""
        parts = [f"{self._finished} of {counted(self._total, 'task')} finished"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.unknown:
            parts.append(f"{counted(self.unknown, 'call')} with an unknown outcome")
        if spent:
            parts.append(dollars(spent))
        if self.has_unpriced:
            parts.append("the price of a model is not known")
        return " · ".join([*parts, duration(time.monotonic() - self._began)])

    def _rate(self) -> float:
        (since, before), (_, count) = self._times[0], self._times[-1]
        seconds = time.monotonic() - since
        return (count - before) / seconds if seconds >= 1 else 0.0

    def _bar(self) -> str:
        done = BAR * self._finished // max(1, self._total)
        return "█" * done + "░" * (BAR - done)


def duration(seconds: float) -> str:
    """Return a duration for people.

    >>> duration(42), duration(200), duration(7300)
    ('42 s', '3 min', '2 h 2 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


WAITING = 6
"""The exit code if only tasks are left that wait for answers, as of `-p`."""


Judge: TypeAlias = Callable[[TaskResult], Awaitable[TaskResult | None]]
"""Adds to a result before it is stored; None leaves it out."""


class BatchRun:
    """A batch, from its options to its exit code."""

    def __init__(self, options: argparse.Namespace, judge: Judge | None = None) -> None:
        self._options = options
        self._judge = judge
        self._signals: list[signal.Signals] = []

    def run(self) -> int:
        """Run the batch of a file. Raises OutriderError if it cannot be started or continued."""
        names, files = tools_and_files(self._options.tools)
        return self.run_tasks(self._read(self._defaults(names)), files)

    def run_tasks(self, tasks: list[Task], files: Sequence[str] = ()) -> int:
        """Run these tasks, with the tools of these files. Raises OutriderError."""
        options = self._options
        tools = tuple(tool.name for tool in load_tools(files))
        settings = BatchSettings(options.budget, options.rates, options.concurrency, tools)
        log = default_log()
        queue = open_queue(log)
        try:
            with ResultsFile(options.output, resume=options.resume) as results:
                batch = queue.begin(str(results.path), settings, resume=options.resume)
                queue.add(batch, [task for task in tasks if task.id not in results.ids])
                return asyncio.run(self._collect(queue, batch, tasks, results, files))
        finally:
            queue.close()
            log.close()

    # The tasks

    def _defaults(self, names: list[str] | None) -> dict[str, Any]:
        """Return the fields of tasks that leave them out."""
        options = self._options
        settings = load(Path.cwd(), environment=os.environ, flags={"model": options.model}).settings
        given = {
            "model": settings.model or default_model(),
            "effort": options.effort,
            "cwd": options.cwd and (options.cwd if options.image else os.path.abspath(options.cwd)),
            "image": options.image,
            "schema": None if options.schema is None else read_schema(options.schema).schema,
            "permissions": options.permissions,
            "allow": options.allow or None,
            "ask_later": options.ask_later or None,
            "tools": names,
            "system_prompt": options.system_prompt,
            "limits": self._limits() or None,
            "settings": {"workspace": options.workspace} if options.workspace else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _limits(self) -> dict[str, Any]:
        given = {"max_turns": self._options.max_turns, "max_cost": self._options.max_cost}
        return {
            name: SETTINGS[f"limits.{name}"].value_type.parse(text) for name, text in given.items() if text is not None
        }

    def _read(self, defaults: dict[str, Any]) -> list[Task]:
        """Return the tasks of the file. Raises TaskFileError, which names the bad lines, and UsageError."""
        name = self._options.tasks
        here = self._options.workers > 0

        checked: set[tuple[object, ...]] = set()

        def check(task: Task) -> None:
            """Check a task, unless one with the same settings was checked already."""
            key = task.model, task.effort, task.cwd, task.permissions, task.allow, task.tools, str(task.settings)
            if key not in checked:
                check_task(task, os.environ, here=here)
                checked.add(key)

        try:
            if name == "-":
                tasks = read_tasks(sys.stdin.buffer, "standard input", defaults, check)
            else:
                with open(name, "rb") as lines:
                    tasks = read_tasks(lines, name, defaults, check)
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror}") from None
        if not tasks:
            raise UsageError(f'{name} has no tasks; write one a line, as in {{"id": "a", "prompt": "…"}}')
        return tasks

    # The results

    async def _collect(
        self, queue: Queue, batch: str, tasks: list[Task], results: ResultsFile, files: Sequence[str]
    ) -> int:
        known = sum(task.id in results.ids for task in tasks)
        failed = sum(task.id in results.failed for task in tasks)
        progress = BatchProgress(len(tasks), known, failed, quiet=self._options.quiet)
        pool = WorkerPool(self._command(batch, files), self._options.workers, progress.note, queue.release)
        collector = Collector(queue, batch, wait=self._options.wait)
        try:
            with self._catching(pool, progress):
                async for found in collector.results(lambda: bool(self._signals) and pool.has_ended):
                    new = [each for each in found if each.id not in results.ids]
                    if self._judge:
                        new = [each for each in await asyncio.gather(*map(self._judge, new)) if each]
                    await asyncio.to_thread(results.append, new)
                    progress.take(new)
                    if not collector.state.is_complete:
                        await pool.tend()
                    progress.show(collector.state, collector.trouble)
                await self._end_workers(pool)
        finally:
            progress.clear()
            await pool.close()
        await asyncio.to_thread(collector.end)
        return self._report(progress, collector)

    async def _end_workers(self, pool: WorkerPool) -> None:
        """Let the workers, which have nothing left to do, end by themselves."""
        pool.drain()
        while not pool.has_ended:
            await pool.tend()
            await asyncio.sleep(0.02)

    def _command(self, batch: str, files: Sequence[str]) -> list[str]:
        tools = [part for file in files for part in ("--tools", file)]
        return python_module("outrider", "worker", "--quiet", "--until-eof", "--batch", batch, *tools)

    @contextmanager
    def _catching(self, pool: WorkerPool, progress: BatchProgress) -> Iterator[None]:
        """Let the first signal drain the workers, the second cancel their tasks, and the third kill them."""

        def caught(number: signal.Signals) -> None:
            self._signals.append(number)
            match len(self._signals):
                case 1:
                    pool.drain()
                    progress.note("Stopping: the running tasks finish. Press Ctrl-C again to interrupt them.")
                case 2:
                    pool.cancel()
                    progress.note("Interrupting the running tasks. Press Ctrl-C again to kill them.")
                case _:
                    pool.kill()

        with on_signals(caught):
            yield

    def _report(self, progress: BatchProgress, collector: Collector) -> int:
        """Print the last line, and return the exit code."""
        state = collector.state
        if not self._options.quiet:
            print(progress.summary(state.spent), file=sys.stderr)
        if state.is_complete:
            return 1 if progress.failed else 0
        if self._signals:
            print("Stopped. To continue, start the same command with --resume.", file=sys.stderr)
            return exit_code(self._signals[0])
        if count := len(collector.waiting):
            print(
                f"Waiting for answers: {counted(count, 'task')}. `outrider sessions questions` lists the questions, "
                "`outrider sessions answer ID yes` answers one. Then start the same command with --resume.",
                file=sys.stderr,
            )
            return WAITING
        print(
            f"The budget of ${state.budget:g} is used up. Continue with --resume and a larger --budget", file=sys.stderr
        )
        return 3
