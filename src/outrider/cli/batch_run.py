"""One run of `outrider batch`: read the tasks, start the workers, collect the results."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from outrider.batches.collector import Collector, open_queue
from outrider.batches.files import ResultsFile, read_tasks
from outrider.batches.pool import WorkerPool
from outrider.batches.queue import BatchSettings, Queue
from outrider.batches.task import Task, TaskResult
from outrider.cli.batch_progress import BatchProgress
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
from outrider.text import counted

WAITING = 6
"""The exit code if only tasks are left that wait for answers, as of `-p`."""


Judge: TypeAlias = Callable[[TaskResult], Awaitable[TaskResult]]
"""Adds to a result before it is stored."""


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
                async for found in collector.results(lambda: self._is_stopped(pool)):
                    new = [each for each in found if each.id not in results.ids]
                    if self._judge:
                        new = list(await asyncio.gather(*map(self._judge, new)))
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

    def _is_stopped(self, pool: WorkerPool) -> bool:
        return bool(self._signals) and pool.has_ended

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
            [pool.drain, pool.cancel, pool.kill][min(len(self._signals), 3) - 1]()
            if len(self._signals) == 1:
                progress.note("Stopping: the running tasks finish. Press Ctrl-C again to interrupt them.")

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
