"""The files of sessions: stored once each, and readable only through a session that they came into."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import FolderStore
from outrider.errors import AttachmentError, LogError
from outrider.log.entries import AttachmentStored

UNREFERENCED_SECONDS = 3600.0
"""How old a file must be to count as forgotten: a session stores a file first and refers to it a moment later."""


class SessionFiles:
    """The attachment store as one session sees it. Used by several threads."""

    def __init__(self, store: FolderStore, referenced: Callable[[], Set[str]]) -> None:
        self._store = store
        self._referenced = referenced
        """What the log says that the session may read."""
        self._known: set[str] = set()
        self._new: deque[AttachmentStored] = deque()

    def put(self, attachment: Attachment, max_bytes: int = MAX_BYTES) -> AttachmentBlock:
        """Store the bytes; the session may read them from now on."""
        stored = self._store.put(attachment, max_bytes)
        if not self._knows(stored.sha256):
            self._known.add(stored.sha256)
            self._new.append(AttachmentStored(stored))
        return stored

    def read(self, reference: AttachmentBlock) -> bytes:
        """The bytes, if the file came into this session."""
        self._check(reference)
        return self._store.read(reference)

    def chunks(self, reference: AttachmentBlock) -> Iterator[bytes]:
        """The bytes piece by piece, verified before the first is given."""
        self._check(reference)
        return self._store.chunks(reference)

    def take_new(self) -> list[AttachmentStored]:
        """The files that came in since the last time, to be written to the log before what mentions them."""
        return [self._new.popleft() for _ in range(len(self._new))]

    def give_back(self, files: list[AttachmentStored]) -> None:
        """They could not be written: the next time has them again."""
        self._new.extendleft(reversed(files))

    def _check(self, reference: AttachmentBlock) -> None:
        if not self._knows(reference.sha256):
            raise AttachmentError(f"{reference.label} did not come into this session, which may therefore not read it")

    def _knows(self, name: str) -> bool:
        if name not in self._known:
            try:
                self._known |= self._referenced()
            except LogError as error:
                raise AttachmentError(f"the log cannot be asked for the session's files: {error}") from None
        return name in self._known


def remove_forgotten(store: FolderStore, referenced: Set[str]) -> tuple[int, int]:
    """Remove the files that no session refers to, and what broken-off copies left; how many, and their bytes."""
    count = size = 0
    for path in store.folder.glob("??/*"):
        if len(path.name) == 64 and path.name not in referenced and (found := _remove_if_old(path)) is not None:
            count += 1
            size += found
    for path in store.folder.glob("**/incoming-*"):
        _remove_if_old(path)
    return count, size


def _remove_if_old(path: Path) -> int | None:
    """Remove a file that has not been wanted for long; its size if it is gone."""
    with contextlib.suppress(OSError):
        if not _is_old(path):
            return None
        # Out of reach first: whoever wants it from now on stores it again. Whoever wanted it just before made it young.
        doomed = path.with_name(f"incoming-doomed-{path.name}")
        path.rename(doomed)
        if _is_old(doomed):
            size = doomed.stat().st_size
            doomed.unlink()
            return size
        doomed.rename(path)
    return None


def _is_old(path: Path) -> bool:
    return abs(time.time() - path.stat().st_mtime) > UNREFERENCED_SECONDS  # also after a clock that was set back
