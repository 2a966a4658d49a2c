"""The Bash tool: run a shell command, stream its output, and end its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence

from outrider.coding.access import Access
from outrider.coding.toolbox.shell.outcomes import details, to_result
from outrider.coding.toolbox.shell.output import Follower, Outcome, Output, Reader, make_pipe
from outrider.coding.toolbox.shell.shell import CommandCall, FolderReport, Shell
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
            seconds = min(timeout, LONGEST_TIMEOUT) / 1000
            if (session or terminal) and timeout == DEFAULT_TIMEOUT:
                seconds = _LOOK_SECONDS
            call = CommandCall(command, "read" if unasked else access, seconds, context.progress, unasked)
            if session or terminal:
                return await self._run_in_terminal(call, session)
            if run_in_background:
                from outrider.coding.toolbox.shell.background import start_in_background

                return await start_in_background(self._shell, call, self._threads)
            return await self._run_here(call)
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)

    async def _run_in_terminal(self, call: CommandCall, session: int) -> ToolResult:
        """Start a command in a terminal of its own, or type it into the one of a session."""
        from outrider.coding.toolbox.shell.background import start_in_terminal, type_into  # few commands need it

        if session:
            return await type_into(self._shell, session, call, self._threads)
        return await start_in_terminal(self._shell, call, self._threads)

    async def _run_here(self, call: CommandCall) -> ToolResult:
        """Run a command to its end, in a terminal of the editor if it has some."""
        notes: Sequence[str] = []
        if terminals := self._shell.workspace.terminals:
            from outrider.coding.toolbox.shell.terminal_command import TerminalCommand  # for some editors

            shown = TerminalCommand(self._shell, terminals, call)
            if result := await shown.run(self._threads):
                return result
            notes = shown.notes
        return await ForegroundCommand(self._shell, call, notes).run(self._threads)

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

    def __init__(self, shell: Shell, call: CommandCall, notes: Sequence[str] = ()) -> None:
        self._shell, self._call, self._notes = shell, call, notes
        self._follower = Follower(call.seconds)

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
                notes.append(shell.leave_folder(self._call.command, report))
                notes.append(shell.missing_access(self._call.access, outcome.exit_code, output.text()[0]))
        result = to_result(outcome, output, self._call.seconds, workspace.shell_cwd, notes)
        if result.whole is None:
            output.spool.unlink(missing_ok=True)
        return result

    def _follow(self, output: Output, report: FolderReport) -> Outcome:
        source, sink = make_pipe()
        try:
            try:
                process = self._shell.start(self._call, sink, report)
            finally:
                os.close(sink)
            outcome = None
            try:
                outcome = self._follower.follow(process, Reader(source, output, self._call.progress))
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
        started = shell.workspace.background.add(self._call.command, process, kept.path, self._call.access)
        sandboxed = shell.sandbox is not None and self._call.access != "full"
        text = started_text(
            started, sandboxed, "The user has moved the command, with its output so far, to the background"
        )
        figures = details(None, seconds, output.total, shell.folder, started)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._moved.set_result, ToolResult(text, details=figures))
        Following(shell, started, source, kept).run()
