"""What git ignores in a folder, read from its files.

Git itself is not run: its settings in an untrusted repository can start programs (`core.fsmonitor`), and a process for
each call would cost as much as the walk. The user's global ignore file is not read, and a file that is tracked although
a pattern matches it counts as ignored. `coding/wildcards.py` says how the patterns differ from those of rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from outrider.coding.placeholder_keeper import is_placeholder
from outrider.coding.wildcards import GLOB

NAME = ".gitignore"
LARGEST = 256 * 1024
"""The size of an ignore file, in bytes, from which it is not read."""

_NEVER = re.compile(r"\[\](?![^\]/]*\])")
"""Git: `[` and `]` that no other `]` closes match nothing."""

Stamp: TypeAlias = tuple[int, int, int, int]


class IgnoreFile:
    """The patterns of one ignore file. The last pattern that matches decides."""

    def __init__(self, text: str, stamp: Stamp | None = None) -> None:
        self.stamp = stamp
        patterns = [found for line in text.split("\n") if (found := _pattern(line))]
        self._for_files = _Patterns([pattern for pattern in patterns if not pattern.folders_only])
        self._for_folders = _Patterns(patterns)

    def decision(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return whether a path from the folder of this file is ignored; None if no pattern matches."""
        return (self._for_folders if is_folder else self._for_files).decision(path, name)


class _Pattern(NamedTuple):
    regex: str
    negated: bool
    folders_only: bool
    anchored: bool


class _Patterns:
    """Patterns as two regular expressions: for names, and for paths. The alternatives of each begin with the last."""

    def __init__(self, patterns: Sequence[_Pattern]) -> None:
        self._patterns = patterns
        self._names, self._paths = (self._joined(anchored) for anchored in (False, True))

    def _joined(self, anchored: bool) -> tuple[list[int], re.Pattern[str] | None]:
        indexes = [index for index, each in enumerate(self._patterns) if each.anchored == anchored][::-1]
        choices = "|".join(f"({self._patterns[index].regex})" for index in indexes)
        return indexes, re.compile(choices, re.S) if indexes else None

    def decision(self, path: str, name: str) -> bool | None:
        last = max(_last(self._names, name), _last(self._paths, path))
        return None if last < 0 else not self._patterns[last].negated


def _last(joined: tuple[list[int], re.Pattern[str] | None], text: str) -> int:
    """Return the index of the last pattern that matches, or -1."""
    indexes, regex = joined
    found = regex.fullmatch(text) if regex else None
    return indexes[found.lastindex - 1] if found and found.lastindex else -1


def _pattern(line: str) -> _Pattern | None:
    line = line.removesuffix("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[negated:]
    folders_only = line.endswith("/")
    line = line.rstrip("/") if folders_only else line
    anchored = "/" in line
    if _NEVER.search(line):
        return None
    regex = GLOB.to_regex(line.removeprefix("/"))
    try:
        re.compile(regex)
    except re.error:
        return None
    return _Pattern(regex, negated, folders_only, anchored) if line else None


class Ignoring:
    """The ignore files that apply to a folder: its own, those in it, and those above it in the same repository."""

    def __init__(self, folder: Path, inside: Mapping[str, IgnoreFile] | None = None) -> None:
        self._folder = folder
        self._above = _files_above(folder)
        """The files above with the path from each to the folder."""
        self._inside: dict[str, IgnoreFile] = dict(inside or {})
        """The ignore files in the folder, by the path of their folders: "" for the folder itself."""

    @property
    def stamps(self) -> dict[str, Stamp | None]:
        """The stamps of the files in the folder, which tell whether they changed."""
        return {place: file.stamp for place, file in self._inside.items()}

    def read(self, place: str) -> None:
        """Read the ignore file of a folder inside, if it has one."""
        path = self._folder / place / NAME
        if (file := _read(path)) is not None:
            self._inside[place] = file

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Return whether a path is ignored, if the folders above it are not."""
        name = path.rpartition("/")[2]
        place = path
        while place:
            place = place.rpartition("/")[0]
            if file := self._inside.get(place):
                decided = file.decision(path[len(place) + 1 :] if place else path, name, is_folder)
                if decided is not None:
                    return decided
        for prefix, file in self._above:
            decided = file.decision(f"{prefix}{path}", name, is_folder)
            if decided is not None:
                return decided
        return False


def stamp_of(path: Path | str) -> Stamp | None:
    """Return what tells whether a file changed; None if there is no regular file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists() and not is_placeholder(f"{folder}/.git")


def _files_above(folder: Path) -> list[tuple[str, IgnoreFile]]:
    """Return the ignore files of the repository that are not inside the folder, the nearest first."""
    root = next((each for each in (folder, *folder.parents) if _is_repository(each)), None)
    if root is None:
        return []
    found: list[tuple[str, IgnoreFile]] = []
    for each in folder.parents:
        if not each.is_relative_to(root):
            break
        if file := _read(each / NAME):
            found.append((f"{folder.relative_to(each).as_posix()}/", file))
    if file := _read(root / ".git" / "info" / "exclude"):
        prefix = "" if root == folder else f"{folder.relative_to(root).as_posix()}/"
        found.append((prefix, file))
    return found


def _read(path: Path) -> IgnoreFile | None:
    """Return a file's patterns; None without a regular file. A link is not followed: git does not follow it either."""
    stamp = stamp_of(path)
    if stamp is None or stamp[1] > LARGEST or not path.is_file() or path.is_symlink():
        return None
    try:
        return IgnoreFile(path.read_text("utf-8", errors="surrogateescape"), stamp)
    except OSError:
        return None
