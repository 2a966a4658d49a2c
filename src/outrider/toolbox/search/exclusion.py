"""What no search may show, by patterns for paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from outrider.errors import ToolDefinitionError
from outrider.toolbox.search.wildcards import matcher

MOST_REMEMBERED = 10_000


class _Pattern(msgspec.Struct, frozen=True):
    glob: str
    names: int
    """With how many names at the end of a path it is compared; 0 is the whole path."""
    takes_back: bool
    matches: Callable[[str], bool]


class Exclusion:
    """Patterns as in a .gitignore: `.env` and `.ssh/` hold at any depth, `/etc/shadow` there alone, `!` takes back.

    The last pattern that matches counts. A folder is excluded with all that is in it. Case makes no difference.
    """

    def __init__(self, patterns: Sequence[str], folder: Path) -> None:
        if isinstance(patterns, str):
            raise ToolDefinitionError(f"exclude is a list of patterns for paths: write exclude=[{patterns!r}]")
        self._written = tuple(patterns)
        self._top = str(folder)
        self._folders: dict[str, bool] = {}

    @cached_property
    def _patterns(self) -> list[_Pattern]:
        # Made when they are first needed: dozens of them would hold up the start of a session.
        return [_pattern(each) for each in self._written]

    @cached_property
    def _hints(self) -> dict[int, Callable[[str], bool]]:
        return _hints(self._patterns)

    def covers(self, path: str) -> bool:
        """Whether an absolute, resolved path is excluded, by its own name or by that of a folder above it.

        The names above the project's folder do not count for what is in it.
        """
        return self._is_excluded(path) or self._is_folder_excluded(path.rpartition("/")[0] or "/")

    def _is_folder_excluded(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            known = any(self._is_excluded(each) for each in self._with_those_above(folder))
            if len(self._folders) > MOST_REMEMBERED:
                self._folders.clear()
            self._folders[folder] = known
        return known

    def _with_those_above(self, folder: str) -> Iterator[str]:
        while folder not in (self._top, os.path.dirname(folder)):
            yield folder
            folder = os.path.dirname(folder)

    def _is_excluded(self, path: str) -> bool:
        names = path.split("/")
        # Nearly every path is cleared by the few hints; only what matches one of them is judged by each pattern.
        for count, matches in self._hints.items():
            if matches(_end(names, count)):
                break
        else:
            return False
        verdict = False
        for pattern in self._patterns:
            if verdict is pattern.takes_back:
                verdict ^= pattern.matches(_end(names, pattern.names))
        return verdict


def _pattern(written: str) -> _Pattern:
    takes_back = written.startswith("!")
    glob = written.removeprefix("!").rstrip("/")
    names = glob.count("/") + 1
    if glob.startswith("/"):
        glob, names = glob[1:], 0
    elif "**" in glob or "{" in glob:
        glob, names = f"**/{glob}", 0
    return _Pattern(glob, names, takes_back, matcher(glob, ignore_case=True))


def _hints(patterns: Sequence[_Pattern]) -> dict[int, Callable[[str], bool]]:
    """For each number of names, what matches if any of the patterns does that exclude."""
    globs: dict[int, list[str]] = {}
    for each in patterns:
        if not each.takes_back:
            globs.setdefault(each.names, []).append(each.glob)
    return {names: matcher(*together, ignore_case=True) for names, together in globs.items()}


def _end(names: Sequence[str], count: int) -> str:
    return names[-1] if count == 1 else "/".join(names[-count:] if count else names[1:])
