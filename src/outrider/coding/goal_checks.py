"""The command of a goal, run as Bash runs commands."""

from __future__ import annotations

import asyncio
import os

from outrider.coding.access import Access
from outrider.coding.session_tools import SessionTools
from outrider.coding.toolbox.shell.bash import ForegroundCommand
from outrider.coding.toolbox.shell.outcomes import PRINTED
from outrider.coding.toolbox.shell.shell import CommandCall
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


async def check_goal(
    command: str, workspace: Workspace, tools: SessionTools, seconds: float | None = None
) -> CheckResult:
    """Run a command in the project folder, wherever the shell of the agent is: in the sandbox, where there is one.

    `seconds` bounds the check.
    """
    seconds, own = min(seconds or MOST_SECONDS, MOST_SECONDS), workspace.for_subagent()
    try:
        result = await (_elsewhere if own.forwarded else _here)(command, own, tools, seconds)
    except ToolCallError as failure:
        return CheckResult(False, str(failure))
    finally:
        own.close()
    if (task := asyncio.current_task()) and task.cancelling():
        raise asyncio.CancelledError  # the command has ended with its result so far
    figures = result.details if isinstance(result.details, dict) else {}
    shown = figures.get(PRINTED)
    printed = result.text[: shown if isinstance(shown, int) else 0].strip()  # the exit code follows it
    return CheckResult(figures.get("exit_code") == 0, result.text, printed.rpartition("\n")[2])


async def _here(command: str, workspace: Workspace, tools: SessionTools, seconds: float) -> ToolResult:
    call = CommandCall(command, ACCESS, seconds, lambda _: None)
    return await ForegroundCommand(tools.shell(workspace, trusted=True), call).run(Threads())


async def _elsewhere(command: str, workspace: Workspace, tools: SessionTools, seconds: float) -> ToolResult:
    """Run it where the files are, as a call that the user has allowed."""
    (bash,) = tools.in_workspace(workspace, ["Bash"])
    given = {"command": command, "access": ACCESS, "timeout": seconds * 1000}
    context = ToolContext(CallRef(os.urandom(8).hex()), workspace.folder, Threads(), lambda _: None)
    return await bash.invoke(given, context)
