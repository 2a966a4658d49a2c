"""The user's own command for the status line: its first line of output is shown."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from outrider.coding.command_environment import command_environment
from outrider.processes.process_tree import MARK
from outrider.processes.processes import DEVNULL, Processes, end
from outrider.processes.programs import Programs
from outrider.processes.starting import SHELL
from outrider.text.terminal import command_output_lines
from outrider.tools.threads import Threads

SECONDS = 5.0
"""How long the command may take."""
PAUSE_SECONDS = 1.0
"""The least time between two runs, and the time after which it runs again although nothing has changed."""
LONGEST_PAUSE_SECONDS = 30.0
_MOST_BYTES = 4096


class StatusCommand:
    """Runs a command when the status changes, in the background, and keeps the first line of its output."""

    def __init__(self, command: str, folder: Path, programs: Programs, refresh: Callable[[], None]) -> None:
        self.line = ""
        """The newest line; "" before the first one, and after a run that failed or printed nothing."""
        self._command = command
        self._folder = folder
        self._programs = programs
        self._refresh = refresh
        self._given: Mapping[str, str] = {}
        self._began = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._threads = Threads()

    def update(self, fields: Mapping[str, str]) -> None:
        """Run the command if that is due. Does not wait for it."""
        age = time.monotonic() - self._began
        due = age >= (PAUSE_SECONDS if fields != self._given else LONGEST_PAUSE_SECONDS)
        if due and (self._task is None or self._task.done()):
            with suppress(RuntimeError):  # before the event loop runs
                loop = asyncio.get_running_loop()
                self._given, self._began = fields, time.monotonic()
                self._task = loop.create_task(self._run(msgspec.json.encode(fields)))

    async def _run(self, given: bytes) -> None:
        before, self.line = (
            self.line,
            await self._threads.run(first_line, self._command, self._folder, self._programs, given),
        )
        if self.line != before:
            self._refresh()


def first_line(command: str, folder: Path, programs: Programs, given: bytes) -> str:
    """Return the first line that a shell command prints; "" if it fails. It ends with everything that it started.

    It runs again and again, so its PATH has no entry in the project, where a model can write. Blocks for some seconds
    at most.
    """
    processes, (source, sink) = Processes(), os.pipe()
    mark = processes.next_mark()
    try:
        with TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            process = processes.start(
                [SHELL, "-c", command],
                mark,
                folder=folder,
                environment={**command_environment(os.environ), "PATH": programs.path, MARK: mark},
                output=sink,
                errors=DEVNULL,
                input=file.fileno(),
            )
        os.close(sink)
        sink = -1
        printed = _beginning(source, time.monotonic() + SECONDS)
        end([process])
        lines = command_output_lines(printed.decode(errors="replace"))
        return "" if process.reap() or not lines else lines[0].strip()
    except OSError:
        return ""
    finally:
        processes.close()
        for handle in (source, sink):
            if handle >= 0:
                os.close(handle)


def _beginning(source: int, deadline: float) -> bytes:
    """Return the beginning of what is printed until the deadline. The rest is read and dropped."""
    poll, printed = select.poll(), b""
    poll.register(source, select.POLLIN)
    while (remaining := deadline - time.monotonic()) > 0 and poll.poll(remaining * 1000):
        data = os.read(source, 65536)
        if not data:
            break
        printed = (printed + data)[:_MOST_BYTES]
    return printed
