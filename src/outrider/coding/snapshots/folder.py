"""`FolderSnapshots`: the working folder of a session, which can be rewound."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import Protocol, TypeAlias

from outrider.coding.placeholder_keeper import MARKER, is_placeholder
from outrider.coding.protected_paths import SECRETS, is_secret
from outrider.coding.snapshots.ignoring import NAME as IGNORE_FILE
from outrider.coding.snapshots.ignoring import IgnoreFile, Ignoring
from outrider.coding.snapshots.scanning import TEMPORARY, Limits, Scanner, TooLargeError
from outrider.coding.toolbox.files.diffs import diff_of
from outrider.coding.toolbox.no_follow import opened_folder
from outrider.errors import LogError
from outrider.log.entries import Record, SnapshotEntry
from outrider.log.snapshot_store import Changes, FileState, SnapshotStore
from outrider.log.working_folder import FileChange, Timeline
from outrider.text import counted, human_size

DIFF_BYTES = 1024 * 1024
"""The size of a file from which a preview has no diff of it."""
NAMED = 5
"""How many files a notice names."""


class SnapshotLog(Protocol):
    """What snapshots need of a log."""

    @property
    def folder(self) -> Path:
        """Where it is: no snapshot has files of it."""

    @property
    def snapshot_store(self) -> SnapshotStore:
        """What keeps the contents of files."""

    def snapshots(self, id: str, /) -> Sequence[Record]:
        """Return the snapshots and rewinds of a session, in order."""


class FolderSnapshots:
    """The snapshots of a folder in one session. Safe to use from several threads."""

    def __init__(
        self,
        folder: Path,
        log: SnapshotLog,
        session: str,
        limits: Limits | None = None,
        *,
        secrets: tuple[str, ...] = SECRETS,
    ) -> None:
        """`secrets` are patterns of files that are neither stored nor restored."""
        self._folder = folder.resolve()
        self._log = log
        self._session = session
        self._notices: list[str] = []
        self._limits = limits or Limits()
        self._secrets = secrets
        self._store = log.snapshot_store
        self._scanner: Scanner | None = None
        self._off = ""
        """Why there are no snapshots."""
        self._is_stale = False
        """Whether the last snapshot was not stored in the log."""
        self._lock = threading.Lock()

    def snapshot(self, *, opens: bool = False) -> SnapshotEntry | None:
        with self._lock:
            if self._off:
                return None
            if self._is_stale:
                self._scanner, self._is_stale = None, False
            try:
                return self._recorded(opens)
            except (TooLargeError, LogError, OSError) as error:
                self._off = str(error)
                self._notices.append(f"Rewinding cannot restore the files of {self._folder}: {error}.")
                return None

    def forget(self) -> None:
        self._is_stale = True

    def take_notices(self) -> list[str]:
        taken, self._notices = self._notices, []
        return taken

    def _recorded(self, opens: bool) -> SnapshotEntry:
        is_whole = False
        if self._scanner is None:
            if Path.home().resolve().is_relative_to(self._folder):
                raise TooLargeError("it has your home folder in it")
            known = self._last_state()
            is_whole = known is None
            self._scanner = Scanner(
                self._folder,
                self._store,
                known or {},
                self._limits,
                self._left_out(),
                self._secrets,
                self._former_rules(),
            )
        changes = self._scanner.scan()
        if not_kept := self._scanner.not_kept:
            names = ", ".join(not_kept[:NAMED]) + (" …" if len(not_kept) > NAMED else "")
            self._notices.append(
                f"{counted(len(not_kept), 'file')} cannot be restored by rewinding, for the size "
                f"(over {human_size(self._limits.file_bytes)} each, or too much together): {names}"
            )
        name = self._store.put_changes(changes) if changes else ""
        return SnapshotEntry(str(self._folder), name, len(changes), is_whole, opens)

    def _last_state(self) -> dict[str, FileState] | None:
        """Return the files at the newest snapshot in the log; None if there is none, or it cannot be read."""
        timeline = self.timeline()
        try:
            return _state(timeline) if timeline.has_snapshots else None
        except LogError:
            return None

    def _former_rules(self) -> list[Ignoring]:
        """Return the ignore rules at earlier snapshots, as far as their files were stored."""
        try:
            versions = list(self.timeline().versions(IGNORE_FILE))
            texts = [{path: self._text(state) or "" for path, state in files.items()} for files in versions]
        except LogError:
            return []
        return [
            Ignoring(self._folder, {path.rpartition("/")[0]: IgnoreFile(text) for path, text in files.items()})
            for files in texts
        ]

    def _left_out(self) -> frozenset[str]:
        """Return the log's own folder, if it is in this one."""
        own = self._log.folder.resolve()
        is_inside = own != self._folder and own.is_relative_to(self._folder)
        return frozenset([own.relative_to(self._folder).as_posix()] if is_inside else [])

    def timeline(self) -> Timeline:
        return Timeline(self._log.snapshots(self._session), str(self._folder), self._store)

    def changes(self, timeline: Timeline, point: int, *, diffs: bool = False) -> Sequence[FileChange]:
        others = timeline.changed_by_others(point)
        current = _state(timeline)
        wanted = self._wanted(timeline, point, current)
        return [
            FileChange(
                path,
                _action(current.get(path), state),
                path in others or (path not in current and self._is_taken(path)),
                _is_kept(current.get(path), state),
                self._diff(path, current.get(path), state) if diffs else "",
            )
            for path, state in sorted(wanted.items())
        ]

    def restore(self, timeline: Timeline, point: int, paths: Sequence[str]) -> dict[str, str]:
        current = _state(timeline)
        wanted = self._wanted(timeline, point, current)
        restorer = Restorer(self._folder, self._store)
        if self._scanner:
            restorer.remove_leftovers(self._scanner.leftovers)
        return restorer.restore({path: wanted[path] for path in paths if path in wanted}, current)

    def _wanted(self, timeline: Timeline, point: int, current: dict[str, FileState]) -> Changes:
        """Return the files that differ, as they were at a point."""
        target = _state(timeline, point)
        wanted: Changes = {
            path: state
            for path, state in target.items()
            if not state.equals(current.get(path)) and not (path not in current and self._is_there(path, state))
        }
        wanted |= dict.fromkeys(path for path in current if path not in target)
        # Older versions stored secrets; a rewind leaves those alone.
        top = str(self._folder)
        return {path: state for path, state in wanted.items() if not is_secret(f"{top}/{path}", self._secrets, top)}

    def _is_taken(self, path: str) -> bool:
        place = str(self._folder / path)
        return os.path.lexists(place) and not is_placeholder(place)

    def _is_there(self, path: str, state: FileState) -> bool:
        """Return whether a file that is ignored by now still has its former content."""
        place = self._folder / path
        try:
            if state.is_folder:
                return place.is_dir() and not place.is_symlink()
            with opened_folder(place.parent) as folder:
                if not state.is_file:
                    return os.fsencode(folder.link_target(place.name)) == state.content
                with os.fdopen(folder.open(place.name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
                    return hashlib.file_digest(file, "sha256").digest() == state.content
        except OSError:
            return False

    def _diff(self, path: str, current: FileState | None, wanted: FileState | None) -> str:
        old, new = self._text(current), self._text(wanted)
        return "" if old is None or new is None else diff_of(old, new, path).text

    def _text(self, state: FileState | None) -> str | None:
        """Return the text of a file: "" for one that is not there, None for one that is no text."""
        if state is None or not S_ISREG(state.mode):
            return ""
        if not state.content or state.stamp[1] > DIFF_BYTES:
            return None
        try:
            return self._store.read(state.content).decode()
        except (LogError, UnicodeDecodeError):
            return None


def _state(timeline: Timeline, point: int | None = None) -> dict[str, FileState]:
    """Return the files at a point, without the placeholders of the sandbox, which older versions recorded."""
    files = timeline.state(point)
    markers = {path for path in files if path.rpartition("/")[2].startswith(MARKER)}
    if not markers:
        return files
    used = {path.rpartition("/")[0] for path in files.keys() - markers}
    left_out = markers | {path.rpartition("/")[0] for path in markers} - used
    return {path: state for path, state in files.items() if path not in left_out}


def _action(current: FileState | None, wanted: FileState | None) -> str:
    if wanted is None:
        return "delete"
    return "create" if current is None else "change"


def _is_kept(current: FileState | None, wanted: FileState | None) -> bool:
    """Return whether the change can be made, and taken back."""
    return all(state is None or state.is_kept for state in (current, wanted))


_Action: TypeAlias = Callable[[str, FileState], None]


class Restorer:
    """Restores files in a folder."""

    def __init__(self, folder: Path, store: SnapshotStore) -> None:
        self._folder = folder
        self._store = store

    def remove_leftovers(self, paths: Sequence[str]) -> None:
        """Remove temporary files of a restoration that was killed."""
        for path in paths:
            with suppress(OSError), opened_folder((self._folder / path).parent) as folder:
                folder.remove(os.path.basename(path))

    def restore(self, changes: Changes, current: dict[str, FileState]) -> dict[str, str]:
        """Make the changes. Return the paths that could not be restored, with the reasons."""
        failed: dict[str, str] = {}
        gone = [path for path in changes if _must_go(current.get(path), changes[path])]
        folders = [path for path, state in changes.items() if state and state.is_folder]
        files = [path for path, state in changes.items() if state and not state.is_folder]
        for path in sorted(gone, key=_depth, reverse=True):
            self._try(failed, path, self._remove, current[path])
        for path in sorted(folders, key=_depth):
            self._try(failed, path, self._make_folder, changes[path])
        for path in files:
            self._try(failed, path, self._write, changes[path])
        for path in sorted(folders, key=_depth, reverse=True):  # last: a folder may be read-only
            self._try(failed, path, self._set_mode, changes[path])
        return failed

    def _try(self, failed: dict[str, str], path: str, action: _Action, state: FileState | None) -> None:
        if path in failed or state is None:
            return
        try:
            action(path, state)
        except OSError as error:
            failed[path] = error.strerror or str(error)
        except LogError as error:
            failed[path] = str(error)

    def _remove(self, path: str, state: FileState) -> None:
        with suppress(FileNotFoundError), opened_folder((self._folder / path).parent) as folder:
            if state.is_folder:
                folder.remove_folder(os.path.basename(path))
            else:
                folder.remove(os.path.basename(path))

    def _make_folder(self, path: str, _: FileState) -> None:
        with suppress(FileExistsError), opened_folder((self._folder / path).parent, create=True) as folder:
            folder.make_folder(os.path.basename(path))

    def _set_mode(self, path: str, state: FileState) -> None:
        with opened_folder((self._folder / path).parent) as folder:
            folder.set_folder_mode(os.path.basename(path), S_IMODE(state.mode))

    def _write(self, path: str, state: FileState) -> None:
        temporary, name = f"{TEMPORARY}{os.urandom(8).hex()}", os.path.basename(path)
        data = self._store.read(state.content) if state.is_file else b""
        with opened_folder((self._folder / path).parent, create=True) as folder:
            try:
                if state.is_file:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                    with os.fdopen(folder.open(temporary, flags, 0o600), "wb") as file:
                        file.write(data)
                        file.flush()
                        if os.name == "posix":
                            os.fchmod(file.fileno(), S_IMODE(state.mode))
                else:
                    folder.make_link(temporary, os.fsdecode(state.content))
                folder.replace(temporary, name)
            finally:
                folder.remove(temporary)


def _must_go(current: FileState | None, wanted: FileState | None) -> bool:
    """Return whether what is there must be removed first. A file or a link is replaced by another one in one step."""
    if current is None:
        return False
    return wanted is None or current.is_folder != wanted.is_folder


def _depth(path: str) -> int:
    return path.count("/")
