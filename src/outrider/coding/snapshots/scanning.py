"""Finding what changed in a folder since it was last looked at.

A file is read only if its size, times, inode or mode differ from what is known. Links are never followed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

import msgspec

from outrider.coding.placeholder_keeper import MARKER, is_being_changed, is_placeholder
from outrider.coding.protected_paths import is_secret
from outrider.coding.snapshots.ignoring import NAME as IGNORE_FILE
from outrider.coding.snapshots.ignoring import Ignoring, stamp_of
from outrider.coding.toolbox.no_follow import Folder, opened_folder
from outrider.log.snapshot_store import Changes, FileState, SnapshotStore

TEMPORARY = ".outrider-restore-"
"""How the names of files begin that are being restored."""
RACY_NS = 50_000_000
"""A file that changed so shortly before it was read may change again with the same times."""

Stamp = tuple[int, int, int, int, int]


class Limits(msgspec.Struct, frozen=True):
    """How much of a folder is kept."""

    files: int = 60_000
    """Files, links and folders. A folder with more has no snapshots."""
    walk_seconds: float = 5.0
    file_bytes: int = 20 * 1024 * 1024
    """A larger file is not kept."""
    bytes: int = 1024 * 1024 * 1024
    """New bytes in one snapshot. Files beyond are not kept."""
    seconds: float = 15.0
    """The time for reading files in one snapshot. Files beyond are not kept."""


class TooLargeError(Exception):
    """The folder is too large for snapshots; the message says why."""


class Scanner:
    """Knows the files of a folder and finds out what changed."""

    def __init__(
        self,
        folder: Path,
        store: SnapshotStore,
        known: dict[str, FileState],
        limits: Limits,
        left_out: frozenset[str] = frozenset(),
        secrets: tuple[str, ...] = (),
        former: Sequence[Ignoring] = (),
    ) -> None:
        """`left_out` are paths that are never looked at, `secrets` patterns of files that are never stored.

        What the rules in `former` ignore, those of earlier snapshots, is left out as well.
        """
        self.files = known
        """The files, links and folders by their paths."""
        self.not_kept: list[str] = []
        """The files that the last scan could not keep because of the limits."""
        self.leftovers: list[str] = []
        """Temporary files of a restoration that was killed, found by the last scan."""
        self._folder = folder
        self._root = f"{folder}{'' if str(folder).endswith('/') else '/'}"
        self._store = store
        self._limits = limits
        self._rules: Ignoring | None = None
        self._secrets = secrets
        self._former = list(former)
        self._left_out = left_out
        self._ignored = set(left_out)

    def scan(self) -> Changes:
        """Return what changed since the last scan, with the contents stored. Raises TooLargeError and LogError."""
        former = self._rules
        walk = _Walk(self, self._rules or Ignoring(self._folder), fresh=self._rules is None)
        walk.run()
        if former and (walk.found_new_rules or self._have_rules_changed(former)):
            self._former.append(former)
            self._ignored = set(self._left_out)
            walk = _Walk(self, Ignoring(self._folder), fresh=True)
            walk.run()
        self._rules = walk.rules
        self.leftovers = walk.leftovers
        return self._take(walk.files, walk.folders | dict(self._read(walk.changed)))

    def _take(self, unchanged: dict[str, FileState], read: dict[str, FileState]) -> Changes:
        before, self.files = self.files, unchanged | read
        changes: Changes = {path: state for path, state in read.items() if not state.equals(before.get(path))}
        changes |= dict.fromkeys(path for path in before if path not in self.files)
        return changes

    def _have_rules_changed(self, rules: Ignoring) -> bool:
        places = rules.stamps.items()
        return any(stamp_of(os.path.join(self._root, place, IGNORE_FILE)) != stamp for place, stamp in places)

    def _read(self, changed: dict[str, Stamp]) -> Iterator[tuple[str, FileState]]:
        """Yield the states of changed files, after storing their contents."""
        started, stored = time.monotonic(), 0
        self.not_kept = []
        for place, paths in groupby(sorted(changed, key=_place), _place):
            try:
                with opened_folder(self._folder / place) as folder:
                    for path in paths:
                        is_late = time.monotonic() - started > self._limits.seconds
                        keep = not is_late and stored < self._limits.bytes
                        if state := self._state(folder, path, changed[path], keep):
                            stored += state.stamp[1]
                            yield path, state
            except OSError:
                continue  # the folder has just been removed or replaced

    def _state(self, folder: Folder, path: str, stamp: Stamp, keep: bool) -> FileState | None:
        """Return the state of one file; None if it has just disappeared."""
        name = path.rpartition("/")[2]
        try:
            if S_ISLNK(stamp[0]):
                return FileState(stamp, os.fsencode(folder.link_target(name)))
            if keep and stamp[1] <= self._limits.file_bytes:
                return self._stored(folder, name)
        except FileNotFoundError:
            return None
        except OSError:
            pass  # it cannot be read, so it is not kept
        self.not_kept.append(path)
        return FileState(stamp)

    def _stored(self, folder: Folder, name: str) -> FileState:
        handle = folder.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            status = os.fstat(handle)
            if not S_ISREG(status.st_mode):
                raise IsADirectoryError
            now = time.time_ns()
            data = b"".join(iter(lambda: os.read(handle, status.st_size + 4096), b""))
        finally:
            os.close(handle)
        mode, size, mtime, inode, ctime = _stamp(status)
        if max(mtime, ctime) > now - RACY_NS:
            mtime = -1  # no file has this time, so it is read again
        return FileState((mode, size, mtime, inode, ctime), self._store.put(data))


class _Walk:
    """One walk through the folder."""

    def __init__(self, scanner: Scanner, rules: Ignoring, *, fresh: bool) -> None:
        self.files: dict[str, FileState] = {}
        """The files and folders that did not change."""
        self.folders: dict[str, FileState] = {}
        """The folders that are new, or have another mode."""
        self.changed: dict[str, Stamp] = {}
        """The files and links that may have changed."""
        self.leftovers: list[str] = []
        self.found_new_rules = False
        self.rules = rules
        self._fresh = fresh
        """Whether the rules are new: then nothing is known of which files they ignore."""
        self._known = scanner.files
        self._ignored = scanner._ignored
        self._root = scanner._root
        self._limits = scanner._limits
        self._secrets = scanner._secrets
        self._former = scanner._former
        self._places = [""]

    def run(self) -> None:
        deadline = time.monotonic() + self._limits.walk_seconds
        while self._places:
            self._visit(self._places.pop())
            if len(self.files) + len(self.changed) > self._limits.files:
                raise TooLargeError(f"it has more than {self._limits.files:,} files")
            if time.monotonic() > deadline:
                raise TooLargeError(f"listing its files takes more than {self._limits.walk_seconds:g} seconds")

    def _visit(self, place: str) -> None:
        if self._fresh:
            self.rules.read(place)
        prefix = f"{place}/" if place else ""
        is_empty = True
        try:
            with os.scandir(self._root + prefix) as entries:
                for entry in entries:
                    is_empty = False
                    path = prefix + entry.name
                    known = self._known.get(path)
                    if entry.name.startswith(MARKER) and is_placeholder(self._root + place):
                        self._forget(place)
                        return
                    if (known is None or self._fresh) and self._is_left_out(path, entry):
                        continue
                    try:
                        self._look(path, entry.stat(follow_symlinks=False), known)
                    except FileNotFoundError:
                        continue  # it has just been removed
        except FileNotFoundError:
            self._forget(place)
        except OSError:  # it cannot be listed, so nothing is known about what is in it
            self.files |= {path: state for path, state in self._known.items() if prefix and path.startswith(prefix)}
        if is_empty and place and is_being_changed(self._root + place):
            self._forget(place)

    def _forget(self, place: str) -> None:
        self.files.pop(place, None)
        self.folders.pop(place, None)

    def _look(self, path: str, status: os.stat_result, known: FileState | None) -> None:
        mode = status.st_mode
        stamp = (mode, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)
        if known is not None and known.stamp == stamp:
            self.files[path] = known
        elif S_ISDIR(mode):
            self._places.append(path)
            if known is not None and known.mode == mode:
                self.files[path] = known
            else:
                self.folders[path] = FileState((mode, 0, 0, 0, 0))
        elif S_ISREG(mode) or S_ISLNK(mode):
            self.changed[path] = stamp

    def _is_left_out(self, path: str, entry: os.DirEntry[str]) -> bool:
        name = entry.name
        if name == ".git" or path in self._ignored:
            return True
        if name.startswith(TEMPORARY):
            self.leftovers.append(path)
            return True
        if name == IGNORE_FILE and not self._fresh:
            self.found_new_rules = True
        is_folder = entry.is_dir(follow_symlinks=False)
        if self.rules.ignores(path, is_folder) or self._was_ignored(path, is_folder) or self._is_secret(path):
            self._ignored.add(path)
            return True
        return False

    def _was_ignored(self, path: str, is_folder: bool) -> bool:
        """Return whether earlier rules ignore it: a changed .gitignore must not bring private files into the store.

        A file that was stored at some time stays.
        """
        return path not in self._known and any(each.ignores(path, is_folder) for each in self._former)

    def _is_secret(self, path: str) -> bool:
        return is_secret(self._root + path, self._secrets, self._root)


def _place(path: str) -> str:
    return path.rpartition("/")[0]


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns
