"""Where Glob and Grep search, and the path patterns that select files."""

from __future__ import annotations

import heapq
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.wildcards import GLOB, alternatives
from outrider.tools.context import ToolContext

Hidden: TypeAlias = Callable[[str], bool]
"""Returns True for a path, absolute and with links resolved, that no search may show."""


def hide_nothing(path: str) -> bool:
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


MAGIC = frozenset("*?[{\\")
LONGEST = 2000


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches whole relative paths, hidden names included. Raises ToolCallError.

    >>> matches = matcher("src/**/*.{py,pyi}")
    >>> matches("src/a/b.py"), matches("src/b.pyi"), matches("b.py")
    (True, True, False)
    """
    if len(pattern) > LONGEST:
        raise ToolCallError(f"The pattern has {len(pattern):,} characters; the limit is {LONGEST:,}.")
    try:
        choices = "|".join(GLOB.to_regex(re.sub("/+", "/", each)) for each in alternatives(pattern))
        fullmatch = re.compile(choices, re.DOTALL).fullmatch
    except (ValueError, re.error) as error:
        raise ToolCallError(f"The pattern cannot be used: {error}.") from None
    return lambda path: fullmatch(path) is not None


def split(pattern: str) -> tuple[str, str]:
    """Split a pattern into the folder that contains every match and the pattern for the rest.

    >>> split("src/web/**/*.ts"), split("*.md"), split("/etc/hosts")
    (('src/web', '**/*.ts'), ('', '*.md'), ('/etc', 'hosts'))
    """
    pattern = re.sub("/+", "/", pattern)
    segments = f"{pattern}**".split("/") if pattern.endswith("/") else pattern.split("/")
    plain = 0
    while plain < len(segments) - 1 and not MAGIC.intersection(segments[plain]):
        plain += 1
    folder = "/".join(segments[:plain])
    return folder or ("/" if plain else ""), "/".join(segments[plain:])


class Selection:
    """Files that match a glob: by name if it has no slash, else by path from the searched place or the project.

    rg's own --glob would include files that git ignores (`src/**` matches ignored folders too). So the glob becomes a
    file type, which does not, and paths are compared here.
    """

    def __init__(self, glob: str, place: Path, folder: Path) -> None:
        self.options: list[str] = []
        """The options for rg."""
        self._matches = None
        self._bases = [os.path.join(each, "") for each in (place, folder)]
        if not glob or place.is_file():
            return
        if glob.startswith("!"):
            self.options = [f"--glob={each}" for each in _negated(glob, place, folder)]
            return
        pattern = f"{glob}**" if glob.endswith("/") else glob
        path, _, name = pattern.rpartition("/")
        if name != "**" and ":" not in name and name.count("{") == name.count("}"):
            self.options = [f"--type-add=wanted:{name}", "--type=wanted"]
        if path or not self.options:
            anchored = pattern.removeprefix("./").lstrip("/")
            self._matches = matcher(anchored if path else f"**/{anchored}")

    def accepts(self, path: str) -> bool:
        matches = self._matches
        return not matches or any(matches(path[len(base) :]) for base in self._bases if path.startswith(base))


def _negated(glob: str, place: Path, folder: Path) -> list[str]:
    """Return a negated glob as rg needs it: relative to the searched place, also if it is written from the project."""
    above = f"{place.relative_to(folder)}/" if place != folder and place.is_relative_to(folder) else ""
    inner = glob.removeprefix("!").removeprefix("/")
    return [glob, f"!/{inner.removeprefix(above)}"] if above and inner.startswith(above) else [glob]
