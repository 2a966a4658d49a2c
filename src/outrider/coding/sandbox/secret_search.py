"""Find the secrets that a sandbox masks: in the home folder, in system folders, and in the working folders."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from outrider.coding.placeholder_keeper import is_placeholder
from outrider.coding.protected_paths import is_secret
from outrider.filesystem import real_path

FOLDERS, ENTRIES = 50_000, 500_000
"""The search of a working folder ends after this many folders or entries, the nearest first."""
SKIPPED = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", "target"}
)
"""Folders of installed or derived files, which the search does not enter."""
_TICK, _SECONDS = 100_000_000, 3_000_000_000
"""Nanoseconds after which an unchanged time of change means an unchanged folder: file systems count in ticks of the
kernel, a few in seconds."""
_SPECIAL = re.compile(r"[*?\[{\\]")
_KERNEL = ("/proc", "/sys", "/dev")


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """A folder as it was read."""

    changed: int
    settled: bool
    """Whether it would have another time of change if it had changed since."""
    entries: int
    secrets: tuple[tuple[str, int], ...]
    """Paths and inode numbers."""
    folders: tuple[str, ...]


class FoundSecrets(msgspec.Struct, frozen=True):
    """The secrets that commands must not read."""

    paths: tuple[str, ...]
    """Their real paths, the nearest to the top first."""
    incomplete: str = ""
    """Why there may be more of them, or ""."""


class SecretSearch:
    """Finds secrets again before each command, reading only the folders that have changed. Threads may share it.

    A secret that was found once stays masked: if its path is gone, it is looked for by its inode everywhere in the
    working folder, because someone may have moved the folder around it. What a link led to once stays masked as well.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._last: tuple[object, FoundSecrets] | None = None
        self._targets: dict[str, int] = {}
        self._seen: dict[tuple[str, tuple[str, ...]], dict[str, _Seen]] = {}
        self._known: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}
        self._named: dict[tuple[str, tuple[str, ...]], tuple[dict[str, int], int, list[str]]] = {}

    def find(self, folders: Sequence[str], patterns: tuple[str, ...], home: str) -> FoundSecrets:
        with self._mutex:
            found = dict.fromkeys(self._in_their_places(patterns, home))
            incomplete = ""
            for folder in folders:
                secrets, is_whole = self._in_folder(folder, patterns)
                found.update(dict.fromkeys(secrets))
                incomplete = incomplete or ("" if is_whole else _too_large(folder))
            real = self._real_paths(found)
            result = FoundSecrets(tuple(path for path in real if os.path.exists(path)), incomplete)
            self._last = (folders, patterns, home), result
            return result

    def last(self, folders: Sequence[str], patterns: tuple[str, ...], home: str) -> FoundSecrets:
        """Return what the last search found, and search only if it was another one."""
        last = self._last
        return last[1] if last and last[0] == (folders, patterns, home) else self.find(folders, patterns, home)

    def _real_paths(self, paths: Iterable[str]) -> dict[str, None]:
        """Return where paths lead, and where links led before: a command may have moved a link away."""
        real: dict[str, None] = {}
        for path in paths:
            target = _real(path)
            real[target] = None
            if target != path and (inode := _inode(target)) is not None:
                self._targets[target] = inode
        for target, inode in list(self._targets.items()):
            if _inode(target) == inode:
                real[target] = None
            else:
                del self._targets[target]
        return real

    def _in_their_places(self, patterns: tuple[str, ...], home: str) -> list[str]:
        """Return the secrets that patterns name from the root or the home folder, looking again where that changed."""
        now = time.time_ns()
        # A folder that was not there cannot appear without a change of the folder around it.
        existing, read, paths = self._named.get((home, patterns), ({}, 0, []))
        if not existing or not all(_changed(path) == at and _is_settled(at, read) for path, at in existing.items()):
            existing = {path: changed for path in _parents(patterns, home) if (changed := _changed(path))}
            paths = list(_named_secrets(patterns, home))
            self._named[home, patterns] = (existing, now, paths)
        return paths

    def _in_folder(self, folder: str, patterns: tuple[str, ...]) -> tuple[Iterable[str], bool]:
        """Return the secrets in a folder, and whether these are all."""
        place = (folder, patterns)
        known = self._known.setdefault(place, {})
        listed, is_whole = self._search(folder, patterns, self._seen.setdefault(place, {}))
        found = dict(listed)
        gone = {inode for path, inode in known.items() if path not in found and _inode(path) != inode}
        gone -= set(found.values())
        for path in [path for path, inode in known.items() if inode in gone]:
            del known[path]
        known.update(found)
        if gone:
            known.update(_moved(folder, gone))
        return known, is_whole

    def _search(
        self, folder: str, patterns: tuple[str, ...], seen: dict[str, _Seen]
    ) -> tuple[list[tuple[str, int]], bool]:
        """Return the secrets in a folder. This runs before each command, so it does little for an unchanged folder."""
        found: list[tuple[str, int]] = []
        waiting, visited, entries, is_whole = [folder], 0, 0, True
        for path in waiting:
            if visited == FOLDERS or entries >= ENTRIES:
                is_whole = False
                break
            try:  # `_changed`, without the call
                changed = os.stat(path).st_ctime_ns
            except OSError:
                changed = 0
            look = seen.get(path)
            if look is None or look.changed != changed or not look.settled:
                look = _look(path, changed, folder, patterns)
                if look is None:
                    seen.pop(path, None)
                    continue
                seen[path] = look
            visited += 1
            entries += look.entries
            waiting += look.folders
            found += look.secrets
        if len(seen) > visited:
            for path in seen.keys() - set(waiting):
                del seen[path]
        return found, is_whole


def _too_large(folder: str) -> str:
    return (
        f"{folder} has more than {FOLDERS:,} folders or {ENTRIES:,} files to search for secrets, so the command may be "
        "able to read one; open a smaller folder to avoid this"
    )


def _changed(path: str) -> int:
    """Return when a folder was changed, or 0 if there is none. A command can set the time of modification, not this."""
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return 0


def _is_settled(changed: int, read: int) -> bool:
    """Return whether a folder that was read at a time cannot have changed since without a new time of change."""
    return read - changed > (_TICK if changed % 1_000_000_000 else _SECONDS)


def _look(path: str, changed: int, top: str, patterns: tuple[str, ...]) -> _Seen | None:
    try:
        now = time.time_ns()
        with os.scandir(path) as listing:
            entries = list(listing)
    except OSError:
        return None
    secrets, folders, candidate = [], [], _candidates(patterns)
    for entry in entries:
        if entry.name in SKIPPED:
            continue
        if candidate.has(entry.name) and is_secret(entry.path, patterns, top):
            # A placeholder comes and goes; as a secret, it would be looked for everywhere when it is gone.
            if not is_placeholder(entry.path):
                secrets.append((entry.path, entry.inode()))
        elif entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
    return _Seen(changed, _is_settled(changed, now), len(entries), tuple(secrets), tuple(folders))


class _Candidates(msgspec.Struct, frozen=True):
    """What the name of every secret matches: quicker than the patterns themselves."""

    names: frozenset[str]
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    others: re.Pattern[str]

    def has(self, name: str) -> bool:
        """Return whether a file with this name may be a secret."""
        lower = name.lower()
        if lower in self.names or lower.startswith(self.starts) or lower.endswith(self.ends):
            return True
        return bool(self.others.match(lower)) or not name.isascii()


@functools.lru_cache(maxsize=16)
def _candidates(patterns: tuple[str, ...]) -> _Candidates:
    names, starts, others = set(), [], []
    ends = [" ", "."]  # a lenient file system ignores them
    for name in {each.rstrip("/").rpartition("/")[2].lower() for each in patterns if not each.startswith("!")}:
        if not _SPECIAL.search(name):
            names.add(name)
        elif name.endswith("*") and not _SPECIAL.search(name[:-1]):
            starts.append(name[:-1])
        elif name.startswith("*") and not _SPECIAL.search(name[1:]):
            ends.append(name[1:])
        else:
            others.append("(?:)" if re.search(r"[\[{\\\\]|\*\*", name) else fnmatch.translate(name))
    return _Candidates(frozenset(names), tuple(starts), tuple(ends), re.compile("|".join(others) or "(?!)"))


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


def _real(path: str) -> str:
    try:
        return real_path(path)
    except OSError:  # a link became a folder in the meantime
        return path


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def _named_secrets(patterns: tuple[str, ...], home: str) -> Iterator[str]:
    """Look for each pattern where it stands: from the root if it begins with `/`, else directly in the home folder."""
    listed = functools.cache(_names)
    for pattern in patterns:
        top = "/" if pattern.startswith("/") else home
        if pattern.startswith("!") or not top:
            continue
        candidates = _expand(top, pattern.strip("/").split("/"), listed)
        yield from (path for path in candidates if is_secret(path, patterns, home or "/"))


@functools.lru_cache(maxsize=16)
def _parents(patterns: tuple[str, ...], home: str) -> tuple[str, ...]:
    """Return the folders whose entries decide what `_named_secrets` finds; nothing if they cannot be listed."""
    found: dict[str, None] = {}
    for pattern in patterns:
        top = "" if pattern.startswith("/") else home.rstrip("/")
        if pattern.startswith(("!", *_KERNEL)) or not (home or pattern.startswith("/")):
            continue
        names = pattern.strip("/").split("/")[:-1]
        if any(character in name for name in names for character in "*?[{"):
            return ()
        found.update(dict.fromkeys("/".join([top, *names[:count]]) or "/" for count in range(len(names) + 1)))
    return tuple(found)


def _expand(folder: str, names: list[str], listed: Callable[[str], list[str]]) -> Iterator[str]:
    """Return the existing paths that match these names, one pattern a level."""
    folder = folder.rstrip("/")
    if folder.startswith(_KERNEL) or (not names[1:] and names[0] == ".git"):
        return
    if any(character in names[0] for character in "*?[{"):
        matches = fnmatch.filter(listed(folder or "/"), names[0])
    else:
        matches = names[:1] if os.path.lexists(f"{folder}/{names[0]}") else []
    for match in matches:
        if names[1:]:
            yield from _expand(f"{folder}/{match}", names[1:], listed)
        else:
            yield f"{folder}/{match}"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
