"""The tools of the coding agent: files, search, shell, web and the plan, with names and arguments that models know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.coding.toolbox.shell.shell import Shell
    from outrider.coding.toolbox.workspace import Workspace
    from outrider.tools.tool import Tool

TOOL_NAMES = ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "Todo")
WEB_SEARCH = "web_search"
EXIT_PLAN = "ExitPlan"
"""The tool of plan mode, which shows a plan and asks whether to carry it out."""
ALL_NAMES = (*TOOL_NAMES, "Task", "AskUser", WEB_SEARCH)
"""The toolbox; Task, which starts sub-agents and is built elsewhere; AskUser, which sub-agents do not have; and the
search that the model's API runs."""


def standard_tools(
    workspace: Workspace,
    names: Iterable[str] = TOOL_NAMES,
    *,
    shell: Shell | None = None,
    hidden: Callable[[str], bool] | None = None,
    private_addresses: bool = False,
) -> list[Tool]:
    """Return the named tools for one session.

    `shell` runs the commands; without one, they have no sandbox and the environment of this process. `hidden` returns
    True for a path that searches must leave out. Both are for a folder here, not for one elsewhere. `private_addresses`
    lets WebFetch reach them.
    """
    if isinstance(workspace, str):
        raise TypeError(
            "standard_tools() takes a workspace: write Workspace(…) for a folder, workspace_at(…) for a place"
        )
    if shell and workspace.forwarded:
        raise TypeError("a workspace elsewhere has a shell of its own: leave shell= out")
    from msgspec.structs import replace

    from outrider.coding.toolbox.files.edit import edit
    from outrider.coding.toolbox.files.read import read
    from outrider.coding.toolbox.files.write import write
    from outrider.coding.toolbox.search.glob import glob
    from outrider.coding.toolbox.search.grep import grep
    from outrider.coding.toolbox.search.search_paths import hide_nothing
    from outrider.coding.toolbox.shell.bash import bash
    from outrider.coding.toolbox.shell.shell import Shell
    from outrider.coding.toolbox.todo import todo
    from outrider.coding.toolbox.webfetch import web_fetch

    makers: dict[str, Callable[[], Tool]] = {
        "Read": lambda: read(workspace),
        "Write": lambda: write(workspace),
        "Edit": lambda: edit(workspace, hidden=hidden or hide_nothing),
        "Glob": lambda: glob(workspace, hidden=hidden or hide_nothing),
        "Grep": lambda: grep(workspace, hidden=hidden or hide_nothing),
        "Bash": lambda: bash(shell or Shell(workspace)),
        "WebFetch": lambda: web_fetch(private_addresses=private_addresses),
        "Todo": lambda: todo(workspace),
    }
    made = [replace(makers[name](), built_in=True) for name in TOOL_NAMES if name in names]
    return [workspace.forwarded(tool) for tool in made] if workspace.forwarded else made


def tools_of_programs(names: Iterable[str]) -> list[str]:
    """Return those of a session's tools that neither the coding agent nor an MCP server has: a program brings them."""
    from outrider.runtime.structured_output import TOOL  # few programs ask this

    return [name for name in names if name not in (*ALL_NAMES, TOOL, "Recall") and "__" not in name]
