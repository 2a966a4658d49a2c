"""The command of a goal, run as Bash runs commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from outrider.coding.access import Access
from outrider.coding.session_tools import SessionTools
from outrider.coding.toolbox.shell.bash import ForegroundCommand
from outrider.coding.toolbox.shell.outcomes import PRINTED
from outrider.coding.toolbox.tool_errors import ToolCallError
from outrider.coding.toolbox.workspace import Workspace
from outrider.runtime.goal import CheckResult
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

ACCESS: Access = "write"
"""The user named the command, so it runs without a question. It may run code that the model wrote, so it has no more
than the commands of the model have without one."""
MOST_SECONDS = 600.0
"""How long one check may take, if no limit says less."""


class GoalChecks:
    """Checks goals in the folder of a session: in the sandbox at `write`, where there is one."""

    def __init__(
        self, workspace: Workspace, tools: SessionTools, seconds: float | None, is_planning: Callable[[], bool]
    ) -> None:
        """`seconds` bounds one check. While the mode is `plan`, nothing is checked: the model can change nothing."""
        self._workspace, self._tools = workspace, tools
        self._seconds = min(seconds or MOST_SECONDS, MOST_SECONDS)
        self._is_planning = is_planning
        self._threads = Threads()

    async def __call__(self, command: str) -> CheckResult | None:
        """Run a command in the project folder, wherever the shell of the agent is."""
        if self._is_planning():
            return None
        workspace = self._workspace.for_subagent()
        try:
            result = await (self._elsewhere if workspace.forwarded else self._here)(workspace, command)
        except ToolCallError as failure:
            return CheckResult(False, str(failure))
        finally:
            workspace.close()
        if (task := asyncio.current_task()) and task.cancelling():
            raise asyncio.CancelledError  # the command has ended with its result so far
        figures = result.details if isinstance(result.details, dict) else {}
        shown = figures.get(PRINTED)
        printed = result.text[: shown if isinstance(shown, int) else 0].strip()  # the exit code follows it
        return CheckResult(figures.get("exit_code") == 0, result.text, printed.rpartition("\n")[2])

    async def _here(self, workspace: Workspace, command: str) -> ToolResult:
        shell = self._tools.shell(workspace, trusted=True)
        running = ForegroundCommand(shell, command, ACCESS, self._seconds, lambda _: None, (), unasked=False)
        return await running.run(self._threads)

    async def _elsewhere(self, workspace: Workspace, command: str) -> ToolResult:
        """Run it where the files are, as a call that the user has allowed."""
        (bash,) = self._tools.in_workspace(workspace, ["Bash"])
        given = {"command": command, "access": ACCESS, "timeout": self._seconds * 1000}
        context = ToolContext(CallRef(os.urandom(8).hex()), workspace.folder, self._threads, lambda _: None)
        return await bash.invoke(given, context)
