"""The Bash tool: run a shell command, stream its output, and end its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence

from outrider.coding.access import Access
from outrider.coding.toolbox.shell.following import Follower, Outcome, Reader, make_pipe
from outrider.coding.toolbox.shell.outcomes import details, to_result
from outrider.coding.toolbox.shell.output import Output
from outrider.coding.toolbox.shell.shell import FolderReport, Shell
from outrider.coding.toolbox.tool_errors import ToolCallError
from outrider.processes.processes import Process
from outrider.text import clean
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, make_tool

DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 120_000, 600_000
"""Milliseconds, the unit that models know."""
_LOOK_SECONDS = 10.0
"""How long a call waits for a program in a terminal, unless it gives a timeout."""
_TOOL_TIMEOUT = 630.0
"""Seconds: more than the longest timeout, which the tool enforces itself."""


def bash(shell: Shell) -> Tool:
    return make_tool(_Commands(shell).run, name="Bash", timeout=_TOOL_TIMEOUT, concurrent=False, effect="write")


class _Commands:
    """Runs commands in a shell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._threads = Threads()

    async def run(
        self,
        command: str,
        description: str = "",
        timeout: float = DEFAULT_TIMEOUT,
        run_in_background: bool = False,
        access: Access = "read",
        terminal: bool = False,
        session: int = 0,
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Run a shell command. Returns its output, standard error included, and its exit code if that is not 0.

        The working directory is kept from call to call while it is inside the workspace; variables are not. Standard
        input is empty, so a command cannot ask questions, unless it has a terminal. Processes that it leaves behind are
        stopped when it ends. Of a long output, the beginning and the end are returned and the whole is stored.

        Args:
            command: The command, in bash syntax.
            description: What it does, in a few words, for the person who watches.
            timeout: Milliseconds after which it is stopped; 120000 if not given, 600000 at most.
            run_in_background: Whether it should go on while you do something else, such as a server. The result says
                where its output goes; it ends with the session at the latest.
            access: What it may touch. `read` changes nothing and has no network; `write` may change files in the
                workspace, but not `.git`; `network` may also reach the network; `full` has no limits. Ask for the
                least that works: the person may be asked about the others.
            terminal: Whether it needs a terminal: it asks something, or is interactive. The result is its screen, once
                it waits for input or after 10 seconds, the number of its session, and how to type into that.
            session: A session to type `command` into, instead of running it.
        """
        command = clean(command)
        try:
            _check(command, timeout, may_be_empty=bool(session))
            unasked = self._is_unasked(context.call_id)
            access = "read" if unasked else access
            if session or terminal:
                from outrider.coding.toolbox.shell.terminal_session import start_in_terminal, type_into

                seconds = _LOOK_SECONDS if timeout == DEFAULT_TIMEOUT else min(timeout, LONGEST_TIMEOUT) / 1000
                if session:
                    return await type_into(self._shell, session, command, seconds, self._threads)
                return await start_in_terminal(self._shell, command, access, seconds, self._threads, unasked=unasked)
            if run_in_background:
                from outrider.coding.toolbox.shell.background import start_in_background  # few commands need it

                return await start_in_background(self._shell, command, access, self._threads, unasked=unasked)
            seconds = min(timeout, LONGEST_TIMEOUT) / 1000
            return await self._run_here(command, access, seconds, context.progress, unasked=unasked)
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)

    async def _run_here(
        self, command: str, access: Access, seconds: float, progress: Callable[[object], None], *, unasked: bool
    ) -> ToolResult:
        """Run a command to its end, in a terminal of the editor if it has some."""
        notes: Sequence[str] = []
        if terminals := self._shell.workspace.terminals:
            from outrider.coding.toolbox.shell.terminal_command import TerminalCommand  # for some editors

            shown = TerminalCommand(self._shell, terminals, command, access, seconds, progress, unasked=unasked)
            if result := await shown.run(self._threads):
                return result
            notes = shown.notes
        return await ForegroundCommand(self._shell, command, access, seconds, progress, notes, unasked=unasked).run(
            self._threads
        )

    def _is_unasked(self, call_id: str) -> bool:
        """Return whether only the names of its programs allow a command. Raises ToolCallError if nothing does now."""
        grounds = self._shell.workspace.grounds(call_id)
        if grounds == "changed":
            raise ToolCallError("The command was not run: a file that it names has changed since it was checked.")
        return grounds == "unasked"


def _check(command: str, timeout: float, *, may_be_empty: bool) -> None:
    if not command.strip() and not may_be_empty:
        raise ToolCallError("There is no command to run: give one.")
    if "\0" in command:
        raise ToolCallError("The command was not run: it has a NUL character, which no shell accepts.")
    if not timeout > 0:
        raise ToolCallError(f"The command was not run: its timeout is {timeout:g}; it must be over 0 milliseconds.")


class ForegroundCommand:
    """A command that the call waits for."""

    def __init__(
        self,
        shell: Shell,
        command: str,
        access: Access,
        seconds: float,
        progress: Callable[[object], None],
        notes: Sequence[str],
        *,
        unasked: bool,
    ) -> None:
        self._unasked = unasked
        self._shell = shell
        self._command = command
        self._access = access
        self._notes = notes
        self._seconds = seconds
        self._progress = progress
        self._follower = Follower(seconds)

    async def run(self, threads: Threads) -> ToolResult:
        """Return the result. If the call is cancelled, stop the command and return its result so far.

        A thread does all the work, so that the command ends even if the caller is gone. It goes on after the result if
        the user has moved the command to the background: bwrap ends with the thread that started it.
        """
        self._loop = asyncio.get_running_loop()
        self._moved: asyncio.Future[ToolResult] = self._loop.create_future()
        work = asyncio.ensure_future(threads.run(self._run_in_thread))
        work.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark the exception as retrieved
        either = {work, self._moved}
        with self._shell.workspace.background.movable(self._follower.move):
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                self._follower.stop()
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._follower.stop()
        return self._moved.result() if self._moved.done() else work.result()

    def _run_in_thread(self) -> ToolResult:
        shell, workspace = self._shell, self._shell.workspace
        if self._follower.stopped:
            raise ToolCallError("The command was not run.")
        notes = [*self._notes, shell.enter_folder()]
        output = Output(shell.new_spool())
        with contextlib.closing(FolderReport(workspace.temporary)) as report:
            outcome = self._follow(output, report)
            if outcome.cause == "moved":
                return ToolResult("")  # the call has its result
            if outcome.cause == "ended":
                notes.append(shell.leave_folder(self._command, report))
                notes.append(shell.missing_access(self._access, outcome.exit_code, output.text()[0]))
        result = to_result(outcome, output, self._seconds, workspace.shell_cwd, notes)
        if result.whole is None:
            output.spool.unlink(missing_ok=True)
        return result

    def _follow(self, output: Output, report: FolderReport) -> Outcome:
        source, sink = make_pipe()
        try:
            try:
                process = self._shell.start(self._command, sink, report, access=self._access, unasked=self._unasked)
            finally:
                os.close(sink)
            outcome = None
            try:
                outcome = self._follower.follow(process, Reader(source, output, self._progress))
            finally:
                if not outcome or outcome.cause != "moved":
                    self._shell.workspace.processes.forget(process)
            if outcome.cause == "moved":
                self._go_on(process, os.dup(source), output, outcome.seconds)
            return outcome
        finally:
            os.close(source)

    def _go_on(self, process: Process, source: int, output: Output, seconds: float) -> None:
        """Return the call's result, then follow the command in the background to its end."""
        from outrider.coding.toolbox.shell.background import Following, NewestOutput, started_text

        shell, kept = self._shell, NewestOutput.new(self._shell)
        for data in output.so_far():
            kept.append(data)
        output.close()
        started = shell.workspace.background.add(self._command, process, kept.path, self._access)
        sandboxed = shell.sandbox is not None and self._access != "full"
        text = started_text(
            started, sandboxed, "The user has moved the command, with its output so far, to the background"
        )
        figures = details(None, seconds, output.total, shell.folder, started)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._moved.set_result, ToolResult(text, details=figures))
        Following(shell, started, source, kept).run()
