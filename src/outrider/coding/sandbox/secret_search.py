"""Find the secrets that a sandbox masks: in the home folder, in system folders, and in the working folders."""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from outrider.coding.protected_paths import is_secret

FOLDERS, ENTRIES = 2_000, 50_000
"""The search of a working folder ends after this many folders or entries, the nearest first."""
MASKS = 200
"""More secrets than these are not masked."""
SKIPPED = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", "target"}
)
"""Folders of installed or derived files, which the search does not enter."""
_SETTLED = 2_000_000_000
"""Nanoseconds after which an unchanged time of change means an unchanged folder: clocks of file systems are coarse."""
_KERNEL = ("/proc", "/sys", "/dev")


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """A folder as it was read."""

    changed: int
    read: int
    entries: int
    secrets: tuple[tuple[str, int], ...]
    """Paths and inode numbers."""
    folders: tuple[str, ...]


class SecretSearch:
    """Finds secrets again before each command, reading only the folders that have changed.

    A secret that was found once stays masked: if its path is gone, it is looked for by its inode everywhere in the
    working folder, because a command may have moved the folder around it.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, tuple[str, ...]], dict[str, _Seen]] = {}
        self._known: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}

    def find(self, folders: Sequence[str], patterns: tuple[str, ...], home: str) -> tuple[str, ...]:
        """Return the real paths of the secrets that exist, the nearest to the top first."""
        found = dict.fromkeys(_named_secrets(patterns, home))
        for folder in folders:
            found.update(dict.fromkeys(self._in_folder(folder, patterns)))
        real = dict.fromkeys(os.path.realpath(path) for path in found)
        return tuple(path for path in real if os.path.exists(path))[:MASKS]

    def _in_folder(self, folder: str, patterns: tuple[str, ...]) -> Iterable[str]:
        place = (folder, patterns)
        known = self._known.setdefault(place, {})
        found = dict(self._search(folder, patterns, self._seen.setdefault(place, {})))
        gone = {inode for path, inode in known.items() if path not in found and _inode(path) != inode}
        gone -= set(found.values())
        for path in [path for path, inode in known.items() if inode in gone]:
            del known[path]
        known.update(found)
        if gone:
            known.update(_moved(folder, gone))
        return known

    def _search(self, folder: str, patterns: tuple[str, ...], seen: dict[str, _Seen]) -> Iterator[tuple[str, int]]:
        waiting, entries, visited = deque([folder]), 0, set[str]()
        while waiting and len(visited) < FOLDERS and entries < ENTRIES:
            path = waiting.popleft()
            look = _look(path, seen.get(path), folder, patterns)
            if look is None:
                continue
            visited.add(path)
            seen[path] = look
            entries += look.entries
            waiting.extend(look.folders)
            yield from look.secrets
        for path in seen.keys() - visited:
            del seen[path]


def _look(path: str, seen: _Seen | None, top: str, patterns: tuple[str, ...]) -> _Seen | None:
    try:
        changed = os.stat(path).st_mtime_ns
        if seen and seen.changed == changed and seen.read - changed > _SETTLED:
            return seen
        now = time.time_ns()
        with os.scandir(path) as listing:
            entries = list(listing)
    except OSError:
        return None
    secrets, folders = [], []
    for entry in entries:
        if entry.name in SKIPPED:
            continue
        if is_secret(entry.path, patterns, top):
            secrets.append((entry.path, entry.inode()))
        elif entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
    return _Seen(changed, now, len(entries), tuple(secrets), tuple(folders))


def _moved(folder: str, inodes: set[int]) -> Iterator[tuple[str, int]]:
    """Look for files by inode in all of a folder, without a bound."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    if entry.inode() in inodes:
                        yield entry.path, entry.inode()
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def _named_secrets(patterns: tuple[str, ...], home: str) -> Iterator[str]:
    """Look for each pattern where it stands: from the root if it begins with `/`, else directly in the home folder."""
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        written = pattern.rstrip("/")
        if written.startswith("/"):
            candidates = _expand("/", written.lstrip("/").split("/"))
        elif home:
            candidates = _expand(home, written.split("/"))
        else:
            continue
        yield from (path for path in candidates if is_secret(path, patterns, home or "/"))


def _expand(folder: str, names: list[str]) -> Iterator[str]:
    """Return the existing paths that match these names, one pattern a level."""
    if folder.rstrip("/").startswith(_KERNEL):
        return
    path = f"{folder.rstrip('/')}/{names[0]}"
    if not any(character in names[0] for character in "*?[{"):
        matches = [path] if _exists(path) else []
    else:
        matches = _listed(folder, names[0])
    for match in matches:
        if names[1:]:
            yield from _expand(match, names[1:])
        elif os.path.basename(match) != ".git":
            yield match


def _listed(folder: str, pattern: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [f"{folder.rstrip('/')}/{name}" for name in fnmatch.filter(names, pattern)]


def _exists(path: str) -> bool:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode) != 0
    except OSError:
        return False
