"""The files of sessions. Each is stored once, and a session can read only the files that were added to it."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Protocol

from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError, LogError
from outrider.log.entries import AttachmentStored

UNREFERENCED_SECONDS = 3600.0
"""The age from which an unreferenced file is removed: a session stores a file first and refers to it later."""


class FileStore(AttachmentStore, Protocol):
    """Keeps files under their SHA-256, which may be larger than the memory."""

    def chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        """Return the bytes in chunks, after verifying all of them."""


class SessionFiles:
    """The attachment store of one session. Safe to use from several threads."""

    def __init__(self, store: FileStore, referenced: Callable[[], Set[str]]) -> None:
        self._store = store
        self._referenced = referenced
        """Returns the hashes that the session may read, according to the log."""
        self._known: set[str] = set()
        self._new: deque[AttachmentStored] = deque()

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Store the bytes and allow the session to read them."""
        stored = self._store.put(attachment, max_bytes)
        if not self._may_read(stored.sha256):
            self._known.add(stored.sha256)
            self._new.append(AttachmentStored(stored))
        return stored

    def read(self, reference: AttachmentBlock) -> bytes:
        """Return the bytes of a file of this session."""
        self._check(reference)
        return self._store.read(reference)

    def chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        self._check(reference)
        return self._store.chunks(reference)

    def pop_new(self) -> list[AttachmentStored]:
        """Return the files added since the last call, to write to the log before the entries that mention them."""
        return [self._new.popleft() for _ in range(len(self._new))]

    def restore_new(self, files: list[AttachmentStored]) -> None:
        """Put files back after a failed write, for the next `pop_new`."""
        self._new.extendleft(reversed(files))

    def _check(self, reference: AttachmentBlock) -> None:
        if not self._may_read(reference.sha256):
            raise AttachmentError(f"{reference.label} was never added to this session, so the session may not read it")

    def _may_read(self, name: str) -> bool:
        if name not in self._known:
            try:
                self._known |= self._referenced()
            except LogError as error:
                raise AttachmentError(f"cannot read the list of the session's files: {error}") from None
        return name in self._known


def remove_unreferenced(folder: Path, referenced: Set[str]) -> tuple[int, int]:
    """Remove unreferenced files and the leftovers of interrupted copies. Return how many files, and their bytes."""
    count = size = 0
    for path in folder.glob("??/*"):
        if len(path.name) == 64 and path.name not in referenced and (found := _remove_if_old(path)) is not None:
            count += 1
            size += found
    for path in folder.glob("**/incoming-*"):
        _remove_if_old(path)
    return count, size


def _remove_if_old(path: Path) -> int | None:
    """Remove a file that was not touched for long. Return its size, or None if it stays."""
    with contextlib.suppress(OSError):
        if not _is_old(path):
            return None
        # Rename first, so that a process that needs the file from now on stores it again. A process that needed it just
        # before has updated its time, which the second check sees.
        doomed = path.with_name(f"incoming-doomed-{path.name}")
        path.rename(doomed)
        if _is_old(doomed):
            size = doomed.stat().st_size
            doomed.unlink()
            return size
        doomed.rename(path)
    return None


def _is_old(path: Path) -> bool:
    return abs(time.time() - path.stat().st_mtime) > UNREFERENCED_SECONDS  # abs: the clock may have been set back
