"""Where a search looks: the place that the model names, at the end of all links; and how paths are shown."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from outrider.coding.toolbox.refusals import RefusalError, refusal, shown
from outrider.coding.toolbox.workspace import Workspace

Hidden: TypeAlias = Callable[[str], bool]
"""Says of a path, absolute and at the end of all links, whether no search may show it."""


def nothing(path: str) -> bool:
    """Hides nothing."""
    return False


def locate(workspace: Workspace, name: str, hidden: Hidden) -> Path:
    """The file or folder to search. Raises RefusalError; nothing special is opened, for reading it might never end."""
    try:
        place = Path(os.path.realpath(workspace.path(name)))
        mode = place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise RefusalError(f"{shown(name)} does not exist. Paths are relative to {workspace.folder}.") from None
    except OSError as error:
        raise refusal(error, name, "searched") from None
    except (RuntimeError, ValueError):  # the home of nobody, a NUL, a lone surrogate
        raise RefusalError(f"{shown(name)} is not a path that can be used here.") from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise RefusalError(f"{shown(name)} is neither a folder nor a regular file, and was not searched.")
    if hidden(str(place)):
        raise RefusalError(f"{shown(name)} is kept from searches: it may hold secrets, or a rule denies it.")
    return place


def shown_path(path: str, folder: Path) -> str:
    """A path from a search, relative to the folder if it is inside; in one line, so control characters are escaped."""
    name = path.removeprefix(os.path.join(folder, ""))
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)


def newest(paths: Iterable[str], most: int) -> list[str]:
    """The files that were changed last, the last one first."""
    return heapq.nsmallest(most, paths, key=lambda path: (-_modified(path), path))


def _modified(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:  # gone meanwhile
        return 0.0
