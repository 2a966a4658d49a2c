"""The worker processes of a batch on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from outrider.errors import LogError, OutriderError
from outrider.processes.starting import start

QUICK_SECONDS = 10.0
"""A worker that ends before has probably not started at all."""
MAX_QUICK = 5
"""Workers in a row that may end so quickly."""
DRAIN = b"drain\n"
"""What a worker reads when it is to finish its tasks and end."""
CANCEL = b"cancel\n"
"""What it reads after that when it is to put its tasks back and end."""
WRONG_USAGE = 2
"""The exit code of a worker that would fail again in the same way."""


class WorkerFailedError(OutriderError):
    """Workers cannot be started; the message says why."""


class WorkerPool:
    """Keeps a number of worker processes running until they are told to stop.

    Each is in a session of its own, so that Ctrl-C reaches only this process. Its standard input is a lifeline: there
    it reads DRAIN and CANCEL, which come in order, as signals would not. If it ends, this process was killed, and the
    worker has a few seconds to finish its tasks before it puts them back.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        note: Callable[[str], None],
        release: Callable[[int], None] = lambda pid: None,
    ) -> None:
        """`note` is called with each line that a worker prints, `release` in a thread with the id of one that died."""
        self._command, self._count, self._note, self._release = command, count, note, release
        self._processes: dict[asyncio.subprocess.Process, float] = {}
        """When each process was started."""
        self._readers: set[asyncio.Task[None]] = set()
        self._quick = 0
        self._last_words = ""
        self._stopping = False
        self._said: list[bytes] = []
        """The words that were said to all processes."""
        self._is_killed = False

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        return [process.pid for process in self._processes]

    @property
    def has_ended(self) -> bool:
        """Whether the pool was told to stop and all processes have ended."""
        return self._stopping and not self._processes

    async def tend(self) -> None:
        """Start the processes that are missing. Raises WorkerFailedError if they end at once, again and again."""
        for process, started in list(self._processes.items()):
            if process.returncode is not None:
                del self._processes[process]
                if process.returncode:
                    await self._free_tasks_of(process.pid)
                self._judge(process.returncode, time.monotonic() - started)
        while not self._stopping and len(self._processes) < self._count:
            await self._start()

    async def _free_tasks_of(self, pid: int) -> None:
        with suppress(LogError):  # the database is away: the lease expires later
            await asyncio.to_thread(self._release, pid)

    def _judge(self, code: int, seconds: float) -> None:
        if self._stopping:
            return
        if code == WRONG_USAGE:
            raise WorkerFailedError(self._last_words or "a worker cannot start")
        self._quick = self._quick + 1 if seconds < QUICK_SECONDS and code >= 0 else 0
        if self._quick >= MAX_QUICK * max(1, self._count):
            raise WorkerFailedError(f"workers end as soon as they start: {self._last_words or f'exit code {code}'}")

    async def _start(self) -> None:
        try:
            process = await start(
                self._command,
                environment=None,
                input=asyncio.subprocess.PIPE,
                output=asyncio.subprocess.DEVNULL,
                errors=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise WorkerFailedError(f"a worker cannot be started: {error.strerror}") from None
        self._processes[process] = time.monotonic()
        if self._is_killed:
            self.kill()
        for word in self._said:  # while it was being started
            self._tell(word, process)
        reader = asyncio.ensure_future(self._relay(process))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)

    async def _relay(self, process: asyncio.subprocess.Process) -> None:
        """Pass on what a worker prints, line by line."""
        assert process.stderr
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # a line without end
                continue
            if not line:
                await process.wait()
                return
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self._last_words = text
                self._note(text)

    def drain(self) -> None:
        """Let the processes finish the tasks that they run, and end."""
        self._stopping = True
        self._tell_all(DRAIN)

    def cancel(self) -> None:
        """Let the processes put the tasks that they run back, and end."""
        self.drain()
        self._tell_all(CANCEL)

    def kill(self) -> None:
        """Kill the processes and what they started. Their tasks are taken again."""
        self._stopping = self._is_killed = True
        for process in self._processes:
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Kill what is still running, and wait for its end."""
        self.kill()
        for process in self._processes:
            await process.wait()
        for reader in self._readers:
            reader.cancel()
        if self._readers:
            await asyncio.wait(self._readers)
        self._processes.clear()

    def _tell_all(self, word: bytes) -> None:
        if word not in self._said:
            self._said.append(word)
            for process in self._processes:
                self._tell(word, process)

    def _tell(self, word: bytes, process: asyncio.subprocess.Process) -> None:
        if process.stdin and not process.stdin.is_closing():
            process.stdin.write(word)
