"""`Bash`: a shell command, its output as it comes, and nothing of it left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from outrider.coding.sandbox import Sandbox
from outrider.coding.toolbox.refusals import RefusalError
from outrider.coding.toolbox.shell.background import start_in_background
from outrider.coding.toolbox.shell.following import Ending, Follower, Reader, make_pipe
from outrider.coding.toolbox.shell.in_terminal import InTerminal
from outrider.coding.toolbox.shell.outcomes import as_result
from outrider.coding.toolbox.shell.output import Output
from outrider.coding.toolbox.shell.shell import FolderReport, Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.text import clean
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, make_tool

DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 120_000, 600_000
"""Milliseconds, as models know them."""
_GIVEN_UP_AFTER = 630.0
"""Seconds: over the longest time-out, which is the tool's own to keep."""


def bash(
    workspace: Workspace,
    sandbox: Sandbox | None = None,
    environment: Mapping[str, str] | None = None,
    unwanted: Sequence[str] = (),
) -> Tool:
    """The tool that runs shell commands. Without an `environment` of their own, commands have that of this process.

    In a terminal of an editor they have the editor's, with the PATH of `environment` and without what is `unwanted`.
    """
    shell, threads = Shell(workspace, sandbox, environment, unwanted), Threads()

    async def run(
        command: str,
        description: str = "",
        timeout: float = DEFAULT_TIMEOUT,
        run_in_background: bool = False,
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Run a shell command and return what it prints, both output and errors, and its exit code if that is not 0.

        The working directory is kept from call to call, as long as it is inside the workspace; variables are not.
        A command cannot ask: its input is empty. What it leaves running is stopped when it ends. Of a long output, the
        beginning and the end are returned and the whole is stored.

        Args:
            command: The command, as bash takes it.
            description: What it does, in a few words, for the person who watches.
            timeout: Milliseconds after which it is stopped; 120000 if not given, 600000 at most.
            run_in_background: Whether it should go on while you do something else, such as a server. The result says
                where its output goes; it ends with the session at the latest.
        """
        command = clean(command)
        try:
            _check(command, timeout)
            if run_in_background:
                return await start_in_background(shell, command, threads)
            seconds, notes = min(timeout, LONGEST_TIMEOUT) / 1000, []
            if terminals := workspace.terminals:
                in_terminal = InTerminal(shell, terminals, command, seconds, context.progress)
                if result := await in_terminal.run(threads):
                    return result
                notes = in_terminal.notes
            return await _Foreground(shell, command, seconds, context.progress, notes).run(threads)
        except RefusalError as refusal:
            return ToolResult(str(refusal), is_error=True)

    tool = make_tool(run, name="Bash", timeout=_GIVEN_UP_AFTER, concurrent=False, effect="write")
    return tool if sandbox is None else replace(tool, description=f"{tool.description}\n\n{sandbox}")


def _check(command: str, timeout: float) -> None:
    if not command.strip():
        raise RefusalError("There is no command to run: give one.")
    if "\0" in command:
        raise RefusalError("The command was not run: it has a NUL character in it, which no shell takes.")
    if not timeout > 0:
        raise RefusalError(f"The command was not run: its time-out is {timeout:g}; it must be over 0 milliseconds.")


class _Foreground:
    """One command that the call waits for."""

    def __init__(
        self, shell: Shell, command: str, seconds: float, progress: Callable[[object], None], notes: Sequence[str]
    ) -> None:
        self._shell = shell
        self._command = command
        self._notes = notes
        self._seconds = seconds
        self._progress = progress
        self._follower = Follower(seconds)

    async def run(self, threads: Threads) -> ToolResult:
        """The result; when it is cancelled, that of the command as far as it came.

        All the work is done in a thread, which ends the command whether or not anybody waits any more.
        """
        work = asyncio.ensure_future(threads.run(self._work))
        work.add_done_callback(lambda done: done.cancelled() or done.exception())  # heard, even if nobody waits
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._follower.stop()
            return await asyncio.shield(work)
        finally:
            self._follower.stop()

    def _work(self) -> ToolResult:
        shell, workspace = self._shell, self._shell.workspace
        if self._follower.stopped:
            raise RefusalError("The command was not run.")
        notes = [*self._notes, shell.enter_folder()]
        output = Output(shell.new_spool())
        with contextlib.closing(FolderReport(workspace.temporary)) as report:
            ending = self._follow(output, report)
            if ending.cause == "ended":
                notes.append(shell.leave_folder(self._command, report))
        result = as_result(ending, output, self._seconds, workspace.shell_cwd, notes)
        if result.whole is None:
            output.spool.unlink(missing_ok=True)
        return result

    def _follow(self, output: Output, report: FolderReport) -> Ending:
        source, sink = make_pipe()
        try:
            try:
                process = self._shell.start(self._command, sink, report)
            finally:
                os.close(sink)
            try:
                return self._follower.follow(process, Reader(source, output, self._show))
            finally:
                self._shell.workspace.processes.forget(process)
        finally:
            os.close(source)

    def _show(self, news: str) -> None:
        self._progress({"output": news})
