"""The matches of a content search, parsed from rg's output and shown within limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from outrider.coding.toolbox.search.ripgrep import absolute
from outrider.coding.toolbox.search.search_paths import newest, shown_path
from outrider.coding.toolbox.throttle import ProgressThrottle
from outrider.text import counted

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
        self._place = place
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
            path = absolute(raw, self._place)
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
        return notice is not None and self._accepts(absolute(notice[1], self._place))

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
        return "\n".join([*lines, *_more(sum(self.files.values()) - len(lines), "line")])

    def _counts_text(self, folder: Path) -> str:
        files = sorted(self.files.items())
        lines = [f"{shown_path(path, folder)}:{number}" for path, number in files[:MOST_FILES]]
        total = f"[{counted(sum(self.files.values()), 'line')} in {counted(len(files), 'file')}]"
        return "\n".join([*lines, *_more(len(files) - len(lines), "file"), total])


def _more(number: int, noun: str) -> list[str]:
    if not number:
        return []
    return [f"[{counted(number, f'more {noun}')} not shown. A narrower pattern, path or glob shows fewer.]"]
