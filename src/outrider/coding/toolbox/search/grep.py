"""`Grep`: what stands in files, by a regular expression."""

from __future__ import annotations

import re

from outrider.coding.toolbox.pace import Pace
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.search.matches import Matches, OutputMode
from outrider.coding.toolbox.search.searched import Hidden, locate, nothing
from outrider.coding.toolbox.search.selection import Selection
from outrider.coding.toolbox.workspace import Workspace
from outrider.tools.context import ToolContext
from outrider.tools.decorator import tool
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

LONGEST_PATTERN = 20_000
LONGEST_LINE = 500
_MODES: dict[OutputMode, tuple[str, ...]] = {
    "files_with_matches": ("--files-with-matches",),
    "content": ("--line-number", f"--max-columns={LONGEST_LINE}", "--max-columns-preview"),
    "count": ("--count",),
}


def grep(workspace: Workspace, *, hidden: Hidden = nothing) -> Tool:
    """The tool that searches in files; `hidden` says which it may not show."""
    threads = Threads()

    @tool(name="Grep", effect="read")
    async def search(
        pattern: str,
        context: ToolContext,
        path: str | None = None,
        glob: str | None = None,
        output_mode: OutputMode = "files_with_matches",
    ) -> ToolResult:
        """Search in files for a regular expression (ripgrep). Binary files and those that git ignores are left out.

        A match is within one line. `(?i)` at the beginning ignores case; `(`, `[`, `{`, `.`, `+` and the like stand for
        themselves after a backslash.

        Args:
            pattern: The regular expression.
            path: The file or folder to search; the project's folder if left out.
            glob: Which files to search: `*.py`, `*.{ts,tsx}`, `src/**/*.md`; `!*.min.js` leaves files out.
            output_mode: files_with_matches lists the files, newest first; content shows each line as path:line:text;
                count shows how many lines of each file match.
        """
        try:
            place = locate(workspace, path or ".", hidden)
            selection = Selection(glob or "", place, workspace.folder)
            matches = Matches(
                output_mode,
                lambda found: selection.accepts(found) and not hidden(found),
                Pace(context.progress),
            )
            options = [*_MODES[output_mode], "--null", "--with-filename", *selection.options, *_expression(pattern)]
            ended = await ripgrep.run(options, place, workspace.folder, matches.take)
            if _needs_another_engine(ended):
                ended = await ripgrep.run(["--pcre2", *options], place, workspace.folder, matches.take)
        except RefusalError as refusal:
            return ToolResult(str(refusal), is_error=True)
        if not matches.files:
            return _nothing(pattern, path, glob, ended, matches.saw_binary)
        note = "\n[The search was stopped: it finds too much. There are more.]" if ended.cut else ""
        return ToolResult(await threads.run(matches.told, workspace.folder) + note)

    return search


def _expression(pattern: str) -> list[str]:
    if len(pattern) > LONGEST_PATTERN:
        raise RefusalError(f"The pattern has {len(pattern):,} characters; the limit is {LONGEST_PATTERN:,}.")
    if not pattern:
        raise RefusalError("The pattern is empty. Glob lists files.")
    return [f"--regexp={pattern}"]


def _needs_another_engine(ended: ripgrep.Ended) -> bool:
    """Whether the pattern has what only the slower engine knows."""
    return ended.code == 2 and any(words in ended.said for words in ("look-around", "backreferences"))


def _nothing(pattern: str, path: str | None, glob: str | None, ended: ripgrep.Ended, saw_binary: bool) -> ToolResult:
    if ended.code == 2 and ended.said:
        return ToolResult(_complaint(pattern, ended.said), is_error=True)
    where = f" in {shown(path)}" if path else ""
    among = f" among the files that match {shown(glob)}" if glob else ""
    said = [f"No line matches {shown(pattern)}{where}{among}."]
    if saw_binary:
        said.append("A binary file matches; it is not shown.")
    if ended.code == 2:
        said.append("Some of the files could not be read.")
    return ToolResult(" ".join(said))


def _complaint(pattern: str, said: str) -> str:
    """What rg has against the arguments, and what to do."""
    said = said.removeprefix("rg: ")
    if "error parsing glob" in said:
        return f"The glob cannot be used: {said}"
    if "not allowed in a regex" in said:
        return "A match is within one line, so the pattern cannot have a line break in it. Search for a part of it."
    literal = re.sub(r"([\\.+*?()|\[\]{}^$#&~-])", r"\\\1", pattern)
    return f"The pattern is not a regular expression: {said}\nTo find these characters themselves, write: {literal}"
