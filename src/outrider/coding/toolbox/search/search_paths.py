"""The place that a search looks in, and how found paths are shown."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.tools.context import ToolContext

Hidden: TypeAlias = Callable[[str], bool]
"""Returns True for a path, absolute and with links resolved, that no search may show."""


def hide_nothing(path: str) -> bool:
    """Hide no path."""
    return False


def locate(workspace: Workspace, name: str, hidden: Hidden, tool: str, context: ToolContext) -> Path:
    """Return the file or folder to search. Raises ToolCallError, also for special files, which might never end."""
    try:
        place = Path(os.path.realpath(workspace.path(name)))
        mode = place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ToolCallError(f"{printable(name)} does not exist. Paths are relative to {workspace.folder}.") from None
    except OSError as error:
        raise os_error(error, name, "searched") from None
    except (RuntimeError, ValueError):  # `~` of an unknown user, a NUL, a lone surrogate
        raise ToolCallError(f"{printable(name)} is not a path that can be used here.") from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ToolCallError(f"{printable(name)} is neither a folder nor a regular file, and was not searched.")
    if hidden(str(place)):
        raise ToolCallError(f"{printable(name)} is excluded from searches: it may hold secrets, or a rule denies it.")
    if reason := workspace.confirm(context.call_id, tool, str(place)):
        raise ToolCallError(f"{printable(name)} was not searched: {reason}.")
    return place


def shown_path(path: str, folder: Path) -> str:
    """Return a found path in one line, relative to the folder if it is inside. Control characters are escaped."""
    name = path.removeprefix(os.path.join(folder, ""))
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)


def newest(paths: Iterable[str], most: int) -> list[str]:
    """Return the files that were modified last, newest first."""
    return heapq.nsmallest(most, paths, key=lambda path: (-_modified(path), path))


def _modified(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:  # gone meanwhile
        return 0.0
