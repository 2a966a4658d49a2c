"""The Grep tool: search file contents with a regular expression."""

from __future__ import annotations

import re
from pathlib import Path

from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.search.matches import Matches, OutputMode
from outrider.coding.toolbox.search.search_paths import Hidden, hide_nothing, locate
from outrider.coding.toolbox.search.selection import Selection
from outrider.coding.toolbox.throttle import ProgressThrottle
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.processes.programs import Programs
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


def grep(workspace: Workspace, *, hidden: Hidden = hide_nothing) -> Tool:
    """Return the tool that searches file contents; `hidden` returns True for paths that it must not show."""
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

        A match is within one line. `(?i)` at the beginning ignores case; `(`, `[`, `{`, `.`, `+` and the like must be
        escaped with a backslash to be matched literally.

        Args:
            pattern: The regular expression.
            path: The file or folder to search; the project's folder if left out.
            glob: Which files to search, by a pattern for their paths as Glob takes it; `!` before it leaves files out.
            output_mode: files_with_matches lists the files, newest first; content shows each line as path:line:text;
                count shows how many lines of each file match.
        """
        try:
            place = locate(workspace, path or ".", hidden, "Grep", context)
            selection = Selection(glob or "", place, workspace.folder)
            matches = Matches(
                output_mode,
                place,
                lambda found: selection.accepts(found) and not hidden(found),
                ProgressThrottle(context.progress),
            )
            options = [*_MODES[output_mode], *selection.options]
            ended = await _run_ripgrep(workspace.programs, options, pattern, matches, place)
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)
        if not matches.files:
            return _no_match(pattern, path, glob, ended, matches.saw_binary)
        note = "\n[The search was stopped: there is too much output. More lines match.]" if ended.truncated else ""
        return ToolResult(await threads.run(matches.text, workspace.folder) + note)

    return search


async def _run_ripgrep(
    programs: Programs, options: list[str], pattern: str, matches: Matches, place: Path
) -> ripgrep.SearchEnd:
    """Search, with PCRE2 if the pattern needs it."""
    options = ["--null", "--with-filename", *options, *_expression(pattern)]
    ended = await ripgrep.run(programs, options, place, matches.take)
    if _needs_pcre2(ended):
        ended = await ripgrep.run(programs, ["--pcre2", *options], place, matches.take)
    return ended


def _expression(pattern: str) -> list[str]:
    if len(pattern) > LONGEST_PATTERN:
        raise ToolCallError(f"The pattern has {len(pattern):,} characters; the limit is {LONGEST_PATTERN:,}.")
    if not pattern:
        raise ToolCallError("The pattern is empty. Glob lists files.")
    return [f"--regexp={pattern}"]


def _needs_pcre2(ended: ripgrep.SearchEnd) -> bool:
    """Return whether the pattern needs the slower PCRE2 engine."""
    return ended.code == 2 and any(words in ended.stderr for words in ("look-around", "backreferences"))


def _no_match(
    pattern: str, path: str | None, glob: str | None, ended: ripgrep.SearchEnd, saw_binary: bool
) -> ToolResult:
    if ended.code == 2 and ended.stderr:
        return ToolResult(_explain(pattern, ended.stderr), is_error=True)
    where = f" in {printable(path)}" if path else ""
    among = f" among the files that match {printable(glob)}" if glob else ""
    sentences = [f"No line matches {printable(pattern)}{where}{among}."]
    if saw_binary:
        sentences.append("A binary file matches; it is not shown.")
    if ended.code == 2:
        sentences.append("Some of the files could not be read.")
    return ToolResult(" ".join(sentences))


def _explain(pattern: str, stderr: str) -> str:
    """Return rg's error message, with advice."""
    stderr = stderr.removeprefix("rg: ")
    if "error parsing glob" in stderr:
        return f"The glob cannot be used: {stderr}"
    if "not allowed in a regex" in stderr:
        return "A match is within one line, so the pattern cannot have a line break in it. Search for a part of it."
    literal = re.sub(r"([\\.+*?()|\[\]{}^$#&~-])", r"\\\1", pattern)
    return f"The pattern is not a regular expression: {stderr}\nTo find these characters themselves, write: {literal}"
