"""A command in a terminal of the editor: started there, waited for, and ended as one of our own would be."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from outrider.coding.toolbox.editor import EditorTerminal, Terminals
from outrider.coding.toolbox.refusals import RefusalError
from outrider.coding.toolbox.shell.following import Cause, Ending
from outrider.coding.toolbox.shell.launcher import fits, launcher
from outrider.coding.toolbox.shell.marked import Marked
from outrider.coding.toolbox.shell.outcomes import as_result
from outrider.coding.toolbox.shell.output import Output
from outrider.coding.toolbox.shell.shell import SETTINGS, NamedFolderReport, Shell
from outrider.text import clean
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

T = TypeVar("T")

KEPT = 10 * 1024 * 1024
"""Bytes of the output that the editor is asked to keep."""
PATIENCE = 10.0
"""Seconds that the editor has for an answer."""
STOPPED_WITHIN = 0.9
"""Seconds in which a call that was cancelled has its result: it has only one."""
FOR_OUTPUT = 0.3
"""Seconds of them that are left for what the command has printed."""
CHASED = 0.4
"""Seconds in which a command is looked for that may be just being started."""

_UNKNOWN = (
    "The editor did not say whether it started the command. What was found of it was stopped: "
    "look at what it has done before you run it again."
)


class InTerminal:
    """One command that the call waits for while it runs in the editor."""

    def __init__(
        self, shell: Shell, terminals: Terminals, command: str, seconds: float, progress: Callable[[object], None]
    ) -> None:
        self._shell = shell
        self._terminals = terminals
        self._command = command
        self._seconds = seconds
        self._progress = progress
        self._began = time.monotonic()
        self._marked = Marked(mark := shell.workspace.processes.next_mark())
        self._mark = mark
        self._stop: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        """Until when the result must be there, once somebody wants the command to end."""
        self.notes: list[str] = []
        """What the model should know."""

    async def run(self, threads: Threads) -> ToolResult | None:
        """The result; None if the editor cannot start it. When it is cancelled, that of the command as far as it came.

        The work is done by a task of its own, which ends the command whether or not anybody waits any more.
        """
        work = _heard(self._work(threads))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stop.set_result(time.monotonic() + STOPPED_WITHIN)
            if result := await asyncio.shield(work):
                return result
            raise

    async def _work(self, threads: Threads) -> ToolResult | None:
        shell = self._shell
        self.notes.append(await threads.run(shell.enter_folder))
        with contextlib.closing(NamedFolderReport(shell.reachable_folder())) as report:
            argv = shell.for_another(self._command, self._mark, report)
            if not fits(argv):
                return None  # a process of our own says what is wrong
            with launcher(argv, shell.workspace.temporary) as short:
                terminal = await self._start(short, threads)
                if terminal is None:
                    return None
                try:
                    self._progress({"terminal": terminal.id})
                    return await self._result(terminal, report, threads)
                finally:
                    await self._answer(terminal.release())

    # The start

    async def _start(self, argv: list[str], threads: Threads) -> EditorTerminal | None:
        """The terminal; None if the editor did not start it. Raises RefusalError if that is not known."""
        folder = self._shell.folder
        starting = _heard(self._terminals.start(argv, cwd=folder, environment=SETTINGS, output_bytes=KEPT))
        await self._until(starting)
        if not starting.done():  # it takes too long, or was cancelled and may be there any moment
            await asyncio.wait({starting}, timeout=FOR_OUTPUT)
        if not starting.done():
            starting.add_done_callback(_dismiss)
        elif not _failed(starting):
            return starting.result()
        elif not starting.cancelled() and not isinstance(starting.exception(), TimeoutError | ConnectionError):
            return None
        await threads.run(self._call_off, argv[-1])
        raise RefusalError(_UNKNOWN)

    def _call_off(self, launcher: str) -> None:
        """End a command that may be just being started."""
        Path(launcher).unlink(missing_ok=True)  # what has not read it by now has nothing to run
        self._marked.end_as_it_comes(CHASED)

    # The end

    async def _result(self, terminal: EditorTerminal, report: NamedFolderReport, threads: Threads) -> ToolResult:
        ending = await self._follow(terminal, threads)
        output = Output(self._shell.new_spool())
        await self._collect(terminal, output, threads)
        if ending.cause == "ended":
            self.notes.append(await threads.run(self._shell.leave_folder, self._command, report))
        result = as_result(ending, output, self._seconds, self._shell.folder, self.notes)
        if result.whole is None:
            output.spool.unlink(missing_ok=True)
        return replace(result, details={**result.details, "terminal": terminal.id})

    async def _follow(self, terminal: EditorTerminal, threads: Threads) -> Ending:
        """Wait until the command has ended or must end; then end what is left of it."""
        waiting = _heard(terminal.wait())
        await self._until(waiting)
        if waiting.done() and not _failed(waiting):
            exit_code = waiting.result()
            if exit_code is None:
                self.notes.append("The shell was killed by a signal.")
            left, immortal = await threads.run(self._marked.finish)
            return self._ending("ended", exit_code, left, immortal)
        cause: Cause = "stopped" if self._stop.done() or waiting.done() else "timed out"
        if waiting.done():
            self.notes.append("The editor does not say how the command goes on, so it was not waited for any longer.")
        _, immortal = await threads.run(self._marked.end)
        await self._kill(terminal, waiting)
        return self._ending(cause, None, 0, immortal)

    def _ending(self, cause: Cause, exit_code: int | None, left: int, immortal: int) -> Ending:
        return Ending(cause, exit_code, time.monotonic() - self._began, left, immortal)

    async def _kill(self, terminal: EditorTerminal, waiting: asyncio.Task[int | None]) -> None:
        """Have the editor end what it started around the command, and what is not on this machine."""

        async def kill() -> bool:
            await terminal.kill()
            await asyncio.wait({waiting})
            return True

        if not await self._answer(kill(), spare=FOR_OUTPUT):
            self.notes.append("The editor did not say that the command has ended: it may still run.")

    async def _collect(self, terminal: EditorTerminal, output: Output, threads: Threads) -> None:
        """What the command has printed, as if it had been read from a pipe."""
        answer = await self._answer(terminal.output())
        if answer is None:
            self.notes.append("The editor did not say what the command has printed.")
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
            while output.take(file.fileno()):
                pass
        output.close()

    # Waiting

    async def _until(self, task: asyncio.Task[Any]) -> None:
        """Wait for it, but not longer than the command may take, nor when somebody wants it to end."""
        remaining = self._began + self._seconds - time.monotonic()
        await asyncio.wait({task, self._stop}, timeout=max(0.0, remaining), return_when=asyncio.FIRST_COMPLETED)

    async def _answer(self, asking: Coroutine[Any, Any, T], spare: float = 0.0) -> T | None:
        """What the editor says; None if it fails or takes too long, and is then no longer waited for."""
        task = _heard(asking)
        if not self._stop.done():
            either: set[asyncio.Future[Any]] = {task, self._stop}
            await asyncio.wait(either, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.done():
            await asyncio.wait({task}, timeout=max(0.0, self._stop.result() - spare - time.monotonic()))
        return task.result() if task.done() and not _failed(task) else None


def _heard(asking: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task whose failure is no news, even if nobody waits for it any more."""
    task = asyncio.ensure_future(asking)
    task.add_done_callback(_failed)
    return task


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


def _dismiss(starting: asyncio.Task[EditorTerminal]) -> None:
    """End a command that was started when nobody waited for it any more."""

    async def dismiss(terminal: EditorTerminal) -> None:
        try:
            await terminal.kill()
        finally:
            await terminal.release()

    if not _failed(starting):
        _heard(dismiss(starting.result()))
