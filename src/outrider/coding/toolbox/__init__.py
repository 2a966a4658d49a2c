"""The outside world: files, search, shell, web and the plan, as tools with the names and arguments that models know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.coding.sandbox import Sandbox
    from outrider.coding.toolbox.workspace import Workspace
    from outrider.tools.tool import Tool

TOOL_NAMES = ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "Todo")
ALL_NAMES = (*TOOL_NAMES, "Task")
"""With the one that sends out sub-agents, which is made elsewhere."""


def standard(
    workspace: Workspace,
    names: Iterable[str] = TOOL_NAMES,
    *,
    sandbox: Sandbox | None = None,
    environment: Mapping[str, str] | None = None,
    private_addresses: bool = False,
    hidden: Callable[[str], bool] | None = None,
    unwanted: Sequence[str] = (),
) -> list[Tool]:
    """Those that are named, for one session.

    `hidden` says of a path whether a search must leave it out; `unwanted` variables do not reach commands.
    """
    from outrider.coding.toolbox.files.edit import edit
    from outrider.coding.toolbox.files.read import read
    from outrider.coding.toolbox.files.write import write
    from outrider.coding.toolbox.search.glob import glob
    from outrider.coding.toolbox.search.grep import grep
    from outrider.coding.toolbox.search.searched import nothing
    from outrider.coding.toolbox.shell.bash import bash
    from outrider.coding.toolbox.todo import todo
    from outrider.coding.toolbox.web.webfetch import web_fetch

    makers: dict[str, Callable[[], Tool]] = {
        "Read": lambda: read(workspace),
        "Write": lambda: write(workspace),
        "Edit": lambda: edit(workspace),
        "Glob": lambda: glob(workspace, hidden=hidden or nothing),
        "Grep": lambda: grep(workspace, hidden=hidden or nothing),
        "Bash": lambda: bash(workspace, sandbox, environment=environment, unwanted=unwanted),
        "WebFetch": lambda: web_fetch(private_addresses=private_addresses),
        "Todo": lambda: todo(workspace),
    }
    return [makers[name]() for name in TOOL_NAMES if name in names]
