"""The Bash tool: run a shell command, stream its output, and end its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence

from outrider.coding.access import Access
from outrider.coding.toolbox.shell.following import Follower, Outcome, Reader, make_pipe
from outrider.coding.toolbox.shell.outcomes import to_result
from outrider.coding.toolbox.shell.output import Output
from outrider.coding.toolbox.shell.shell import FolderReport, Shell
from outrider.coding.toolbox.tool_errors import ToolCallError
from outrider.text import clean
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, make_tool

DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 120_000, 600_000
"""Milliseconds, the unit that models know."""
_TOOL_TIMEOUT = 630.0
"""Seconds: more than the longest timeout, which the tool enforces itself."""


def bash(shell: Shell) -> Tool:
    """Return the tool that runs shell commands."""
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
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Run a shell command. Returns its output, standard error included, and its exit code if that is not 0.

        The working directory is kept from call to call while it is inside the workspace; variables are not. Standard
        input is empty, so a command cannot ask questions. Processes that it leaves behind are stopped when it ends. Of
        a long output, the beginning and the end are returned and the whole is stored.

        Args:
            command: The command, in bash syntax.
            description: What it does, in a few words, for the person who watches.
            timeout: Milliseconds after which it is stopped; 120000 if not given, 600000 at most.
            run_in_background: Whether it should go on while you do something else, such as a server. The result says
                where its output goes; it ends with the session at the latest.
            access: What it may touch. `read` changes nothing and has no network; `write` may change files in the
                workspace, but not `.git`; `network` may also reach the network; `full` has no limits. Ask for the
                least that works: the person may be asked about the others.
        """
        command = clean(command)
        try:
            _check(command, timeout)
            unasked = self._is_unasked(context.call_id)
            access = "read" if unasked else access
            if run_in_background:
                from outrider.coding.toolbox.shell.background import start_in_background  # few commands need it

                return await start_in_background(self._shell, command, access, self._threads, unasked=unasked)
            seconds, notes = min(timeout, LONGEST_TIMEOUT) / 1000, []
            if terminals := self._shell.workspace.terminals:
                from outrider.coding.toolbox.shell.terminal_command import TerminalCommand  # for some editors

                in_terminal = TerminalCommand(
                    self._shell, terminals, command, access, seconds, context.progress, unasked=unasked
                )
                if result := await in_terminal.run(self._threads):
                    return result
                notes = in_terminal.notes
            foreground = _Foreground(self._shell, command, access, seconds, context.progress, notes, unasked=unasked)
            return await foreground.run(self._threads)
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)

    def _is_unasked(self, call_id: str) -> bool:
        """Return whether only the names of its programs allow a command. Raises ToolCallError if nothing does now."""
        grounds = self._shell.workspace.grounds(call_id)
        if grounds == "changed":
            raise ToolCallError("The command was not run: a file that it names has changed since it was checked.")
        return grounds == "unasked"


def _check(command: str, timeout: float) -> None:
    if not command.strip():
        raise ToolCallError("There is no command to run: give one.")
    if "\0" in command:
        raise ToolCallError("The command was not run: it has a NUL character, which no shell accepts.")
    if not timeout > 0:
        raise ToolCallError(f"The command was not run: its timeout is {timeout:g}; it must be over 0 milliseconds.")


class _Foreground:
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

        A thread does all the work, so that the command ends even if the caller is gone.
        """
        work = asyncio.ensure_future(threads.run(self._run_in_thread))
        work.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark the exception as retrieved
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._follower.stop()
            return await asyncio.shield(work)
        finally:
            self._follower.stop()

    def _run_in_thread(self) -> ToolResult:
        shell, workspace = self._shell, self._shell.workspace
        if self._follower.stopped:
            raise ToolCallError("The command was not run.")
        notes = [*self._notes, shell.enter_folder()]
        output = Output(shell.new_spool())
        with contextlib.closing(FolderReport(workspace.temporary)) as report:
            outcome = self._follow(output, report)
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
            try:
                return self._follower.follow(process, Reader(source, output, self._progress))
            finally:
                self._shell.workspace.processes.forget(process)
        finally:
            os.close(source)
