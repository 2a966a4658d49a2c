"""A batch on worker processes that are killed at random, and the judge of its results."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from outrider import Log
from outrider.batches.collector import Collector, open_queue
from outrider.batches.dbos_queue import DbosQueue
from outrider.batches.files import ResultsFile
from outrider.batches.pool import WorkerPool
from outrider.batches.queue import BatchSettings
from outrider.batches.task import Task, TaskResult, session_of
from outrider.log.entries import Decided
from tests.batches.scripted_worker import asks

DEADLINE = 540.0
LEASE = 3.0
ANSWERERS = ("phone", "page", "terminal")


class Trial:
    """Runs tasks whose only effect is a line in a ledger."""

    def __init__(
        self,
        folder: Path,
        log: str,
        tasks: int,
        workers: int,
        seconds: float = 0.003,
        queue: str = "",
        asking: bool = False,
    ) -> None:
        """With `asking`, every third task waits for an answer, which three processes give at the same moment."""
        self.folder = folder
        self.ledger = folder / "ledger.txt"
        self.results: list[TaskResult] = []
        self.kills = 0
        self._log, self._workers, self._seconds, self._queue = log, workers, seconds, queue
        self._asking, self._answers, self._batch = asking, folder / "answers.txt", ""
        self._tasks = [Task(f"task-{number}", id=f"task-{number}") for number in range(tasks)]

    async def run(self, kills: int, seed: int, *disasters: Callable[[], Awaitable[None]]) -> None:
        """Run the batch to its end, with kills of workers and other disasters, spread at random over the results."""
        chance = random.Random(seed)
        later = len(self._tasks) * 9 // 10
        when = sorted(chance.sample(range(later), kills))
        others = [(later * (number + 1) // (len(disasters) + 1), each) for number, each in enumerate(disasters)]
        async with asyncio.timeout(DEADLINE) as time_out:
            with Log(self._log) as log, ResultsFile(self.folder / "results.jsonl") as file:
                queue = DbosQueue(self._queue, lease=LEASE) if self._queue else open_queue(log)
                batch = await asyncio.to_thread(queue.begin, "trial", BatchSettings(tools=("append",)), resume=False)
                await asyncio.to_thread(queue.add, batch, self._tasks)
                command = [sys.executable, "-m", "tests.batches.scripted_worker", self._log, batch, str(self.ledger)]
                command += ["--seconds", str(self._seconds), "--queue", self._queue, "--lease", str(LEASE)]
                self._batch = batch
                pool = WorkerPool([*command, *["--asking"] * self._asking], self._workers, print)
                answering = await self._answer() if self._asking else []
                try:
                    async for found in Collector(queue, batch, wait=self._asking).results():
                        self.results += found
                        file.append(found)
                        await pool.tend()
                        while when and when[0] <= len(self.results):
                            when.pop(0)
                            await asyncio.sleep(chance.random() * 0.05)
                            self._kill(chance.choice(pool.pids))
                        while others and others[0][0] <= len(self.results):
                            await others.pop(0)[1]()
                finally:
                    if time_out.expired():
                        missing = {task.id for task in self._tasks} - {result.id for result in self.results}
                        print(f"{len(missing)} results are missing, of {sorted(missing)[:9]} …; workers: {pool.pids}")
                    await pool.close()
                    for process in answering:
                        process.kill()
                        await process.communicate()
                    await asyncio.to_thread(queue.close)

    async def _answer(self) -> list[asyncio.subprocess.Process]:
        """Start three processes that answer each question."""
        command = [sys.executable, "-m", "tests.batches.answerer", self._log]
        started = [
            await asyncio.create_subprocess_exec(*command, name, str(self._answers), stdout=asyncio.subprocess.PIPE)
            for name in ANSWERERS
        ]
        for process in started:
            assert process.stdout
            assert await process.stdout.readline() == b"ready\n"
        return started

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills += 1

    def judge(self) -> None:
        """Check that each task has one result, and that each effect happened once or is reported as unknown."""
        ids = {task.id for task in self._tasks}
        assert Counter(result.id for result in self.results) == Counter(ids)
        assert {result.status for result in self.results} == {"done"}, [
            result for result in self.results if not result.is_done
        ][:3]
        lines = Counter(self.ledger.read_text().split())
        assert [name for name, times in lines.items() if times > 1] == []
        unknown = {result.id for result in self.results if result.unknown_calls}
        lost = ids - set(lines) - unknown
        assert not lost, [result for result in self.results if result.id in lost]
        assert max(result.attempts for result in self.results) <= self.kills + 1  # waiting is no attempt
        if self._asking:
            self._judge_answers({name for name in ids if asks(name)})

    def _judge_answers(self, asked: set[str]) -> None:
        """Check that each question was asked once and answered once, by the one that the log names."""
        answers = [line.split() for line in self._answers.read_text().splitlines()]
        first = {question: name for question, name in answers if name != "-"}
        assert len(first) == sum(name != "-" for _, name in answers) == len(asked)
        assert len(answers) > len(first), "the answers never came at the same moment"
        with Log(self._log) as log:
            assert log.questions() == []
            for task in asked:
                entries = [record.entry for record in log.records(session_of(self._batch, task))]
                decided = [each for each in entries if isinstance(each, Decided) and each.question]
                assert [(each.by, each.allowed) for each in decided] == [(first.pop(decided[0].question), True)]
