"""The Grep tool: search file contents with a regular expression; its matches within limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.search.ripgrep import absolute
from outrider.coding.toolbox.search.search_paths import Hidden, Selection, hide_nothing, locate, newest, shown_path
from outrider.coding.toolbox.throttle import ProgressThrottle
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.processes.programs import Programs
from outrider.text import counted
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, tool

LONGEST_PATTERN = 20_000
LONGEST_LINE = 500
NEAREST = 5
"""Lines that are shown if none matches: those with most of the words."""
NEAR_LINES = 100
"""Lines of a file that are looked at for them."""
COUNTED_LINES = 10
"""Lines from which on a result says how many match."""
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
            throttle = ProgressThrottle(context.progress)

            def accepts(found: str) -> bool:
                return selection.accepts(found) and not hidden(found)

            matches = Matches(output_mode, place, accepts, throttle)
            options = [*_MODES[output_mode], *selection.options]
            ended = await _run_ripgrep(workspace.programs, options, pattern, matches, place)
            if not matches.files:
                result = _no_match(pattern, path, glob, ended, matches.saw_binary)
                near = Matches("content", place, accepts, throttle)
                words = _words(pattern) if ended.code == 1 else []
                return await _with_nearest(workspace, result, words, near, selection) if words else result
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)
        note = "\n[The search was stopped: there is too much output. More lines match.]" if ended.truncated else ""
        return ToolResult(await threads.run(matches.text, workspace.folder) + note)

    return search


async def _with_nearest(
    workspace: Workspace, result: ToolResult, words: list[str], near: Matches, selection: Selection
) -> ToolResult:
    """Return a result without matches, with the lines that have most of the words of the pattern."""
    options = [*_MODES["content"], f"--max-count={NEAR_LINES}", *selection.options]
    await _run_ripgrep(workspace.programs, options, f"(?i){'|'.join(words)}", near, near.place)
    return near.added_to(result, words, workspace.folder)


async def _run_ripgrep(
    programs: Programs, options: list[str], pattern: str, matches: Matches, place: Path
) -> ripgrep.SearchEnd:
    """Search, with PCRE2 if the pattern needs it."""
    options = ["--null", "--with-filename", *options, *_expression(pattern)]
    ended = await ripgrep.run(programs, options, place, matches.take)
    if ended.code == 2 and any(words in ended.stderr for words in ("look-around", "backreferences")):
        ended = await ripgrep.run(programs, ["--pcre2", *options], place, matches.take)
    return ended


def _expression(pattern: str) -> list[str]:
    if len(pattern) > LONGEST_PATTERN:
        raise ToolCallError(f"The pattern has {len(pattern):,} characters; the limit is {LONGEST_PATTERN:,}.")
    if not pattern:
        raise ToolCallError("The pattern is empty. Glob lists files.")
    return [f"--regexp={pattern}"]


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


def _words(pattern: str) -> list[str]:
    """Return the words of a pattern that is a sentence, as expressions, for lines that are nearly what was meant.

    >>> _words("removed the option"), _words("removed"), _words("def run")
    (['removed', 'option'], [], [])
    """
    words = dict.fromkeys(re.findall(r"[\w-]{4,}", re.sub(r"\\\w", " ", pattern)))
    return [re.escape(word) for word in words][:20] if " " in pattern and len(words) > 1 else []


def _explain(pattern: str, stderr: str) -> str:
    """Return rg's error message, with advice."""
    stderr = stderr.removeprefix("rg: ")
    if "error parsing glob" in stderr:
        return f"The glob cannot be used: {stderr}"
    if "not allowed in a regex" in stderr:
        return "A match is within one line, so the pattern cannot have a line break in it. Search for a part of it."
    literal = re.sub(r"([\\.+*?()|\[\]{}^$#&~-])", r"\\\1", pattern)
    return f"The pattern is not a regular expression: {stderr}\nTo find these characters themselves, write: {literal}"


OutputMode: TypeAlias = Literal["files_with_matches", "content", "count"]

MOST_FILES = 1000
MOST_LINES = 1000

# rg prints this notice, without a NUL after the path, when it finds a NUL byte after a match and skips the file.
_NOTICE = re.compile(
    rb"([^\0]*?): (?:WARNING: stopped searching binary file after match|binary file matches) \(found [^\n]*\)\n"
)


class Matches:
    """Files with matches: their names, their number of matching lines, or the lines themselves."""

    def __init__(
        self, mode: OutputMode, place: Path, accepts: Callable[[str], bool], throttle: ProgressThrottle
    ) -> None:
        self.files: dict[str, int] = {}
        """The number of matching lines of each file; 1 in a list of files."""
        self._notices = 0
        self._lines: list[tuple[str, int, str]] = []
        self._mode = mode
        self.place = place
        self._accepts = lru_cache(maxsize=64)(accepts)  # rg prints the lines of a file one after the other
        self._throttle = throttle
        self._rest = b""

    @property
    def saw_binary(self) -> bool:
        """Whether a file was skipped because it is binary."""
        return bool(self._notices or self._may_show(_NOTICE.match(self._rest)))

    def take(self, chunk: bytes) -> bool:
        """Parse output of rg. Always returns True, for more."""
        self._rest += chunk
        for raw, text in self._records():
            path = absolute(raw, self.place)
            if self._accepts(path):
                self._add(path, text)
        self._throttle.show(lambda: f"{counted(len(self.files), 'file')} so far")
        return True

    def text(self, folder: Path) -> str:
        """Return the matches, with paths relative to the folder. It reads the files' times, so it may take a while."""
        match self._mode:
            case "content":
                return self._lines_text(folder)
            case "count":
                return self._counts_text(folder)
        names = newest(self.files, MOST_FILES)
        return "\n".join([*(shown_path(each, folder) for each in names), *_more(len(self.files) - len(names), "file")])

    def added_to(self, result: ToolResult, words: list[str], folder: Path) -> ToolResult:
        """Return a result without matches, with the lines that have most of the words, if they have two or more."""
        found = [(sum(bool(re.search(word, each[2], re.I)) for word in words), *each) for each in self._lines]
        most = max((number for number, *_ in found), default=0)
        if most < 2:
            return result
        lines = [f"{shown_path(path, folder)}:{line}:{text}" for number, path, line, text in found if number == most]
        return ToolResult("\n".join([f"{result.text} These lines have some of its words:", *lines[:NEAREST]]))

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield path and text of each complete record: the path ends with NUL, the text with its line."""
        output, start = self._rest, 0
        while (end := output.find(b"\0", start)) >= 0:
            after = end + 1
            if self._mode != "files_with_matches":
                after = output.find(b"\n", end) + 1
                if not after:
                    break
            while notice := _NOTICE.match(output, start, end):
                self._notices, start = self._notices + self._may_show(notice), notice.end()
            yield output[start:end], output[end + 1 : after - 1]
            start = after
        self._rest = output[start:]

    def _may_show(self, notice: re.Match[bytes] | None) -> bool:
        """Return whether a notice is about a file that may be shown; for others, even the match is a secret."""
        return notice is not None and self._accepts(absolute(notice[1], self.place))

    def _add(self, path: str, text: bytes) -> None:
        if self._mode != "content":
            self.files[path] = int(text or 1)
            return
        self.files[path] = self.files.get(path, 0) + 1
        if len(self._lines) < MOST_LINES:
            number, _, line = text.partition(b":")
            self._lines.append((path, int(number), line.decode(errors="replace").rstrip("\r")))

    def _lines_text(self, folder: Path) -> str:
        lines = [f"{shown_path(path, folder)}:{number}:{text}" for path, number, text in sorted(self._lines)]
        total = sum(self.files.values())
        counts = [f"[{total:,} lines match.]"] if total >= COUNTED_LINES else []  # models cannot count
        return "\n".join([*counts, *lines, *_more(total - len(lines), "line")])

    def _counts_text(self, folder: Path) -> str:
        files = sorted(self.files.items())
        lines = [f"{shown_path(path, folder)}:{number}" for path, number in files[:MOST_FILES]]
        total = f"[{counted(sum(self.files.values()), 'line')} in {counted(len(files), 'file')}]"
        return "\n".join([*lines, *_more(len(files) - len(lines), "file"), total])


def _more(number: int, noun: str) -> list[str]:
    if not number:
        return []
    return [f"[{counted(number, f'more {noun}')} not shown. A narrower pattern, path or glob shows fewer.]"]
