"""What a search in files has found, gathered as rg prints it and told within limits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from outrider.coding.toolbox.pace import Pace
from outrider.coding.toolbox.search.searched import newest, shown_path
from outrider.text import counted

OutputMode: TypeAlias = Literal["files_with_matches", "content", "count"]

MOST_FILES = 1000
MOST_LINES = 1000

# A file in which rg comes upon a NUL after a match is given up with these words, without a NUL after its path.
_NOTICE = re.compile(
    rb"([^\0]*?): (?:WARNING: stopped searching binary file after match|binary file matches) \(found [^\n]*\)\n"
)


class Matches:
    """Files with matches: which, how many lines of each, or the lines themselves."""

    def __init__(self, mode: OutputMode, accepts: Callable[[str], bool], pace: Pace) -> None:
        self.files: dict[str, int] = {}
        """How many matching lines each file has; in a list of files, 1."""
        self._notices = 0
        self._lines: list[tuple[str, int, str]] = []
        self._mode = mode
        self._accepts = lru_cache(maxsize=64)(accepts)  # many lines of a file come one after the other
        self._pace = pace
        self._rest = b""

    @property
    def saw_binary(self) -> bool:
        """Whether a file was given up because it is binary."""
        return bool(self._notices or self._is_told(_NOTICE.match(self._rest)))

    def take(self, chunk: bytes) -> bool:
        """Gather what rg printed; there is always room for more."""
        self._rest += chunk
        for raw, text in self._records():
            path = os.fsdecode(raw)
            if self._accepts(path):
                self._add(path, text)
        self._pace.show(lambda: f"{counted(len(self.files), 'file')} so far")
        return True

    def told(self, folder: Path) -> str:
        """What was found, with paths relative to the folder. Looks at the files, so it may take a while."""
        match self._mode:
            case "content":
                return self._told_lines(folder)
            case "count":
                return self._told_counts(folder)
        names = newest(self.files, MOST_FILES)
        return "\n".join([*(shown_path(each, folder) for each in names), *_more(len(self.files) - len(names), "file")])

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        """Path and text of each record that is complete: a path ends with NUL, the text after it with its line."""
        output, start = self._rest, 0
        while (end := output.find(b"\0", start)) >= 0:
            after = end + 1
            if self._mode != "files_with_matches":
                after = output.find(b"\n", end) + 1
                if not after:
                    break
            while notice := _NOTICE.match(output, start, end):
                self._notices, start = self._notices + self._is_told(notice), notice.end()
            yield output[start:end], output[end + 1 : after - 1]
            start = after
        self._rest = output[start:]

    def _is_told(self, notice: re.Match[bytes] | None) -> bool:
        """Whether a notice speaks of a file that may be shown; of another one not even that it matches is told."""
        return notice is not None and self._accepts(os.fsdecode(notice[1]))

    def _add(self, path: str, text: bytes) -> None:
        if self._mode != "content":
            self.files[path] = int(text or 1)
            return
        self.files[path] = self.files.get(path, 0) + 1
        if len(self._lines) < MOST_LINES:
            number, _, line = text.partition(b":")
            self._lines.append((path, int(number), line.decode(errors="replace").rstrip("\r")))

    def _told_lines(self, folder: Path) -> str:
        lines = [f"{shown_path(path, folder)}:{number}:{text}" for path, number, text in sorted(self._lines)]
        return "\n".join([*lines, *_more(sum(self.files.values()) - len(lines), "line")])

    def _told_counts(self, folder: Path) -> str:
        files = sorted(self.files.items())
        lines = [f"{shown_path(path, folder)}:{number}" for path, number in files[:MOST_FILES]]
        total = f"[{counted(sum(self.files.values()), 'line')} in {counted(len(files), 'file')}]"
        return "\n".join([*lines, *_more(len(files) - len(lines), "file"), total])


def _more(number: int, noun: str) -> list[str]:
    if not number:
        return []
    return [f"[{counted(number, f'more {noun}')} not shown. A narrower pattern, path or glob shows fewer.]"]
