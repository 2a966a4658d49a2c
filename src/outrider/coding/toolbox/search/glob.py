"""The Glob tool: find files by a pattern for their paths."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.search.search_paths import Hidden, hide_nothing, locate, matcher, newest, shown_path, split
from outrider.coding.toolbox.throttle import ProgressThrottle
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.processes.programs import Programs
from outrider.text import counted
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, tool

MOST_FILES = 1000


def glob(workspace: Workspace, *, hidden: Hidden = hide_nothing) -> Tool:
    """Return the tool that finds files by path; `hidden` returns True for paths that it must not show."""
    threads = Threads()

    @tool(name="Glob", effect="read")
    async def find_files(pattern: str, context: ToolContext, path: str | None = None) -> ToolResult:
        """Find files by a pattern for their paths, newest first. Files that git ignores are left out.

        `*` matches any part of a name, `**` any folders, `{a,b}` either. `*` alone finds files in the folder itself,
        `**/*` in all folders below it too.

        Args:
            pattern: The pattern, relative to path.
            path: The folder to search; the project's folder if left out.
        """
        try:
            place = locate(workspace, searched_folder(pattern, path or ""), hidden, "Glob", context)
            listing = _Listing(workspace.programs, pattern, place, hidden, context)
            await listing.fill()
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)
        return ToolResult(await threads.run(listing.text, workspace.folder))

    return find_files


def searched_folder(pattern: str, path: str = "") -> str:
    """Return the folder that a call searches, as the model named it. The pattern may lead to another one than `path`.

    >>> searched_folder("**/*.py", "src"), searched_folder("web/*.ts", "src"), searched_folder("/etc/*.conf", "src")
    ('src', 'src/web', '/etc')
    """
    folder, _ = split(pattern)
    if not folder:
        return path or "."
    return folder if folder.startswith("~") else os.path.join(path, folder)


class _Listing:
    """The matching files of a folder."""

    def __init__(self, programs: Programs, pattern: str, folder: Path, hidden: Hidden, context: ToolContext) -> None:
        if not pattern:
            raise ToolCallError("The pattern is empty. `**` finds all files.")
        if not folder.is_dir():
            raise ToolCallError(f"{printable(str(folder))} is a file, not a folder.")
        self._programs = programs
        self._found: list[str] = []
        self._pattern = pattern
        self._above, self._rest = split(pattern)
        self._matches = matcher(self._rest)
        self._folder = folder
        self._hidden = hidden
        self._throttle = ProgressThrottle(context.progress)
        self._cut = False
        self._deeper = 0
        """The number of files in the folders below that would match with `**`."""

    async def fill(self) -> None:
        """List the folder as deep as the pattern goes, and all of it if nothing was found. Raises ToolCallError."""
        options = ["--files", "--null"]
        if "**" in self._rest:
            self._found = await self._list(options)
            return
        self._found = await self._list([*options, f"--max-depth={self._rest.count('/') + 1}"])
        if not self._found:
            self._matches = matcher(f"**/{self._rest}")
            self._deeper = len(await self._list(options))

    async def _list(self, options: Sequence[str]) -> list[str]:
        found: list[str] = []
        torn = b""
        prefix = len(os.path.join(self._folder, ""))

        def take(chunk: bytes) -> bool:
            nonlocal torn
            *whole, torn = (torn + chunk).split(b"\0")
            paths = (ripgrep.absolute(each, self._folder) for each in whole)
            found.extend(each for each in paths if self._matches(each[prefix:]) and not self._hidden(each))
            self._throttle.show(lambda: f"{counted(len(found), 'file')} so far")
            return True

        ended = await ripgrep.run(self._programs, options, self._folder, take)
        self._cut = self._cut or ended.truncated
        return found

    def text(self, folder: Path) -> str:
        """Return the found paths, relative to the folder. It reads the files' times, so it may take a while."""
        names = newest(self._found, MOST_FILES)
        lines = [shown_path(each, folder) for each in names]
        if not names:
            lines.append(f"No file matches {printable(self._pattern)}.")
        if self._deeper:
            below = printable("/".join(filter(None, (self._above, "**", self._rest))))
            lines.append(f"In the folders below, {counted(self._deeper, 'file')} would: {below} finds them.")
        if more := len(self._found) - len(names):
            lines.append(f"[{counted(more, 'more file')} not shown; these are the newest. A narrower pattern helps.]")
        if self._cut:
            lines.append("[There are too many files here to list them all. Name a folder further down.]")
        return "\n".join(lines)
