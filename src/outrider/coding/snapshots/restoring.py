"""Bringing the files of a folder back to an earlier state.

Each file is replaced in one step, so that a kill leaves every file in its old or its new state. Doing it again
completes it. Folders are opened one below the other without following links, so that a swapped link leads nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from typing import TypeAlias

from outrider.coding.snapshots.scanning import TEMPORARY
from outrider.coding.toolbox.no_follow import opened_folder
from outrider.errors import LogError
from outrider.log.snapshot_store import Changes, FileState, SnapshotStore

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
