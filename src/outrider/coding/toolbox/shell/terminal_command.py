"""A command in a terminal of the editor: start it, wait for it, and end it like a process of our own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from outrider.coding.toolbox.editor import EditorTerminal, Terminals
from outrider.coding.toolbox.shell.outcomes import to_result
from outrider.coding.toolbox.shell.output import DRAIN_SECONDS, Cause, Outcome, Output
from outrider.coding.toolbox.shell.shell import VARIABLES, CommandCall, NamedFolderReport, Shell
from outrider.coding.toolbox.tool_errors import ToolCallError
from outrider.processes.process_tree import ProcessKey, can_list_processes, find_processes
from outrider.processes.processes import Process, end
from outrider.text import clean
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

T = TypeVar("T")

OUTPUT_BYTES = 10 * 1024 * 1024
"""Bytes of output that the editor is asked to keep."""
EDITOR_TIMEOUT = 10.0
"""Seconds that the editor has for a response."""
CANCEL_SECONDS = 0.9
"""Seconds within which a cancelled call returns: the session waits one second."""
OUTPUT_SECONDS = 0.3
"""Seconds of these that are reserved for reading the output."""
ABORT_SECONDS = 0.4
"""Seconds during which a command is looked for that may be starting."""

_UNKNOWN = (
    "The editor did not say whether it started the command. Any processes found were stopped: "
    "check what the command has done before you run it again."
)


class TerminalCommand:
    """A command that runs in the editor while the call waits."""

    def __init__(self, shell: Shell, terminals: Terminals, call: CommandCall) -> None:
        self._shell, self._terminals, self._call = shell, terminals, call
        self._began = time.monotonic()
        self._marked = MarkedProcesses(mark := shell.workspace.processes.next_mark())
        self._mark = mark
        self._stop: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        """The deadline for the result; set when the call is cancelled."""
        self.notes: list[str] = []
        """Notes for the model."""

    async def run(self, threads: Threads) -> ToolResult | None:
        """Return the result, or None if the editor cannot start the command. If cancelled, return the result so far.

        A separate task does the work, so that the command ends even if the caller is gone.
        """
        work = _background_task(self._work(threads))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stop.set_result(time.monotonic() + CANCEL_SECONDS)
            if result := await asyncio.shield(work):
                return result
            raise

    async def _work(self, threads: Threads) -> ToolResult | None:
        shell = self._shell
        self.notes.append(await threads.run(shell.enter_folder))
        with contextlib.closing(NamedFolderReport(shell.shared_tmp())) as report:
            argv = shell.editor_argv(self._call, self._mark, report)
            if not arguments_fit(argv):
                return None  # starting a process of our own reports the error
            with launcher(argv, shell.workspace.temporary) as short:
                terminal = await self._start(short, threads)
                if terminal is None:
                    return None
                try:
                    self._call.progress({"terminal": terminal.id})
                    return await self._result(terminal, report, threads)
                finally:
                    await self._ask(terminal.release())

    # The start

    async def _start(self, argv: list[str], threads: Threads) -> EditorTerminal | None:
        """Return the terminal, or None if the editor did not start it. Raises ToolCallError if that is unknown."""
        folder = self._shell.folder
        starting = _background_task(
            self._terminals.start(argv, cwd=folder, environment=VARIABLES, output_bytes=OUTPUT_BYTES)
        )
        await self._wait_for(starting)
        if not starting.done():  # it takes too long, or the call was cancelled while the editor starts it
            await asyncio.wait({starting}, timeout=OUTPUT_SECONDS)
        if not starting.done():
            starting.add_done_callback(_discard)
        elif not _failed(starting):
            return starting.result()
        elif not starting.cancelled() and not isinstance(starting.exception(), TimeoutError | ConnectionError):
            return None
        await threads.run(self._abort_start, argv[-1])
        raise ToolCallError(_UNKNOWN)

    def _abort_start(self, launcher: str) -> None:
        """End a command that may be starting."""
        Path(launcher).unlink(missing_ok=True)  # a shell that has not read it yet has nothing to run
        self._marked.end_repeatedly(ABORT_SECONDS)

    # The end

    async def _result(self, terminal: EditorTerminal, report: NamedFolderReport, threads: Threads) -> ToolResult:
        outcome = await self._follow(terminal, threads)
        output = Output(self._shell.new_spool())
        await self._collect(terminal, output, threads)
        if outcome.cause == "ended":
            self.notes.append(await threads.run(self._shell.leave_folder, self._call.command, report))
            text = output.text()[0]
            access, code = self._call.access, outcome.exit_code
            self.notes.append(await threads.run(self._shell.missing_access, access, code, text))
        result = to_result(outcome, output, self._call.seconds, self._shell.folder, self.notes)
        if result.whole is None:
            output.spool.unlink(missing_ok=True)
        return replace(result, details={**result.details, "terminal": terminal.id})

    async def _follow(self, terminal: EditorTerminal, threads: Threads) -> Outcome:
        """Wait until the command has ended or must end; then end the remaining processes."""
        waiting = _background_task(terminal.wait())
        await self._wait_for(waiting)
        if waiting.done() and not _failed(waiting):
            exit_code = waiting.result()
            if exit_code is None:
                self.notes.append("The shell was killed by a signal.")
            left_running, unkillable = await threads.run(self._marked.finish)
            return self._outcome("ended", exit_code, left_running, unkillable)
        cause: Cause = "stopped" if self._stop.done() or waiting.done() else "timed out"
        if waiting.done():
            self.notes.append("The editor stopped reporting on the command, so the call did not wait any longer.")
        _, unkillable = await threads.run(self._marked.end)
        await self._kill(terminal, waiting)
        return self._outcome(cause, None, 0, unkillable)

    def _outcome(self, cause: Cause, exit_code: int | None, left_running: int, unkillable: int) -> Outcome:
        return Outcome(cause, exit_code, time.monotonic() - self._began, left_running, unkillable)

    async def _kill(self, terminal: EditorTerminal, waiting: asyncio.Task[int | None]) -> None:
        """Let the editor kill the command, including processes on another machine."""

        async def kill() -> bool:
            await terminal.kill()
            await asyncio.wait({waiting})
            return True

        if not await self._ask(kill(), spare=OUTPUT_SECONDS):
            self.notes.append("The editor did not confirm that the command has ended: it may still run.")

    async def _collect(self, terminal: EditorTerminal, output: Output, threads: Threads) -> None:
        """Read the output of the command as if it came from a pipe."""
        answer = await self._ask(terminal.output())
        if answer is None:
            self.notes.append("The editor did not return the output of the command.")
            return
        text, cut_off = answer
        if cut_off:
            self.notes.append("The editor kept only the end of the output: the beginning is missing.")
        await threads.run(self._feed, text, output)

    def _feed(self, text: str, output: Output) -> None:
        data = clean(text).replace("\r\n", "\n").encode()  # a terminal puts a carriage return before each line feed
        with tempfile.TemporaryFile(dir=self._shell.workspace.temporary) as file:
            file.write(data)
            file.seek(0)
            while output.read_from(file.fileno()):
                pass
        output.close()

    # Waiting

    async def _wait_for(self, task: asyncio.Task[Any]) -> None:
        """Wait for a task, but not past the timeout of the command or its cancellation."""
        remaining = self._began + self._call.seconds - time.monotonic()
        await asyncio.wait({task, self._stop}, timeout=max(0.0, remaining), return_when=asyncio.FIRST_COMPLETED)

    async def _ask(self, request: Coroutine[Any, Any, T], spare: float = 0.0) -> T | None:
        """Return the editor's response, or None if it fails or takes too long."""
        task = _background_task(request)
        if not self._stop.done():
            either: set[asyncio.Future[Any]] = {task, self._stop}
            await asyncio.wait(either, timeout=EDITOR_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.done():
            await asyncio.wait({task}, timeout=max(0.0, self._stop.result() - spare - time.monotonic()))
        return task.result() if task.done() and not _failed(task) else None


def _background_task(request: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task whose exception is not reported if the caller no longer waits."""
    task = asyncio.ensure_future(request)
    task.add_done_callback(_failed)
    return task


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


def _discard(starting: asyncio.Task[EditorTerminal]) -> None:
    """Kill a command that the editor started too late."""

    async def discard(terminal: EditorTerminal) -> None:
        try:
            await terminal.kill()
        finally:
            await terminal.release()

    if not _failed(starting):
        _background_task(discard(starting.result()))


class MarkedProcesses(Process):
    """All processes on this machine that carry a mark. There is no shell of ours to wait for."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._reaped = True  # there is no process id to signal
        self.exit_handle = None

    def running(self, known: Iterable[ProcessKey] = ()) -> set[ProcessKey]:
        """Return the live processes; empty if the system has no process table."""
        return find_processes(None, self._mark, known) if can_list_processes() else set()

    def signal(self, members: Iterable[ProcessKey], number: signal.Signals) -> None:
        """Send a signal, to parents first, so that they report less about their children's end."""
        super().signal(sorted(members), number)

    def finish(self) -> tuple[int, int]:
        """Wait briefly for the processes, then end them. Return how many there were and how many still live."""
        until, moment = time.monotonic() + DRAIN_SECONDS, 0.005
        while self.running() and (remaining := until - time.monotonic()) > 0:
            time.sleep(min(moment, remaining))
            moment *= 2
        return self.end()

    def end(self) -> tuple[int, int]:
        return end([self])

    def end_repeatedly(self, seconds: float) -> None:
        """End the processes again and again for `seconds`, because a starting process may not carry its mark yet."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.end()
            time.sleep(0.02)


LONGEST_ARGUMENT = 128 * 1024
"""Bytes at which Linux rejects an argument."""


def arguments_fit(argv: Sequence[str]) -> bool:
    """Return whether a program can be started with these arguments."""
    return all(len(os.fsencode(argument)) < LONGEST_ARGUMENT for argument in argv)


@contextmanager
def launcher(argv: Sequence[str], folder: Path) -> Iterator[list[str]]:
    """Yield a short command that runs `argv` with empty input while the context is open.

    Editors take a program and its arguments. Some join them into a line for the user's shell, which may be any shell,
    with or without quoting. Two plain words survive this.
    """
    path = folder / f"command-{os.urandom(8).hex()}.sh"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(os.fsencode(f"exec {shlex.join(argv)} </dev/null\n"))
    try:
        yield ["/bin/sh", str(path)]
    finally:
        path.unlink(missing_ok=True)
