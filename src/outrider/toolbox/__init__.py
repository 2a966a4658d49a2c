"""The outside world: files, search, shell, web and the plan, as tools with the names and arguments that models know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.toolbox.shell.sandbox import Sandbox
    from outrider.toolbox.workspace import Workspace
    from outrider.tools import Tool

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
    from outrider.toolbox.files.edit import edit
    from outrider.toolbox.files.read import read
    from outrider.toolbox.files.write import write
    from outrider.toolbox.search.glob import glob
    from outrider.toolbox.search.grep import grep
    from outrider.toolbox.search.searched import nothing
    from outrider.toolbox.shell.bash import bash
    from outrider.toolbox.todo import todo
    from outrider.toolbox.web.webfetch import web_fetch

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
