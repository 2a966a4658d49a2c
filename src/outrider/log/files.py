"""The files of sessions: stored once each, and readable only through a session that they came into."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from outrider.attachments import MAX_BYTES, Attachment
from outrider.errors import AttachmentError
from outrider.log.entries import Stored
from outrider.messages import AttachmentBlock
from outrider.store import FolderStore

UNREFERENCED_SECONDS = 3600.0
"""How old a file must be to count as forgotten: a session stores a file first and refers to it a moment later."""


class SessionFiles:
    """The attachment store as one session sees it."""

    def __init__(self, store: FolderStore, known: Callable[[], Set[str]]) -> None:
        self._store = store
        self._find_known = known
        self._known: set[str] | None = None
        self._own: set[str] = set()
        self._new: list[AttachmentBlock] = []

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Store the bytes; the session may read them from now on."""
        stored = self._store.put(attachment, max_bytes)
        if stored.sha256 not in self._own:
            self._own.add(stored.sha256)
            self._new.append(stored)
        return stored

    def read(self, reference: AttachmentBlock) -> bytes:
        """The bytes, if the file came into this session."""
        self._check(reference)
        return self._store.read(reference)

    def chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        """The bytes piece by piece, verified before the first is given."""
        self._check(reference)
        return self._store.chunks(reference)

    def take_new(self) -> list[Stored]:
        """The files that came in since the last time, to be written to the log before what mentions them."""
        new, self._new = self._new, []
        return [Stored(file) for file in new]

    def give_back(self, files: list[Stored]) -> None:
        """They could not be written: the next time has them again."""
        self._new = [*(stored.attachment for stored in files), *self._new]

    def _check(self, reference: AttachmentBlock) -> None:
        if reference.sha256 in self._own:
            return
        if self._known is None:
            self._known = set(self._find_known())
        if reference.sha256 not in self._known:
            raise AttachmentError(f"{reference.label} did not come into this session, which may therefore not read it")


def remove_forgotten(store: FolderStore, referenced: Set[str]) -> tuple[int, int]:
    """Remove the files that no session refers to, and what broken-off copies left; how many, and their bytes."""
    count = size = 0
    for path in store.folder.glob("*/*"):
        if path.name not in referenced and (found := _remove_if_old(path)) is not None:
            count += 1
            size += found
    for path in store.folder.glob("incoming-*"):
        _remove_if_old(path)
    return count, size


def _remove_if_old(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        if abs(time.time() - found.st_mtime) > UNREFERENCED_SECONDS:  # also after a clock that was set back
            path.unlink()
            return found.st_size
    return None
