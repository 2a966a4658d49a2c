"""Append entries to a held session. A write is done once it is on disk."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

from outrider.conversation.usage import Usage
from outrider.errors import LogError
from outrider.log.append import Append
from outrider.log.backend import Backend
from outrider.log.chain import Chain
from outrider.log.entries import Entry, SessionSettings
from outrider.log.key import Seal
from outrider.log.pending_write import PendingWrite
from outrider.log.rows import Extent
from outrider.log.session_files import SessionFiles


class Holding(NamedTuple):
    """A session at the time of opening."""

    id: str
    extent: Extent
    """Its rows."""
    fence: int
    """The number of its holder: writes of an earlier one fail."""
    settings: SessionSettings
    usage: Usage
    """The usage of its requests."""
    chain: Chain
    """Links its entries."""


class Journal:
    """The writing side of a held session. Writes fail once another process has taken the session over."""

    def __init__(
        self, holding: Holding, files: SessionFiles, backend: Backend, seal: Seal, release: Callable[..., None]
    ) -> None:
        self.id, extent, fence, settings, usage, self._chain = holding
        self.files = files
        self.settings = settings
        """The newest value of each setting."""
        self.usage = usage
        """The usage of its requests up to the time of opening."""
        self.extent = extent
        """Its rows at the time of opening."""
        self.is_new = False
        """Whether this holder has created the session and written nothing yet: then there is nothing to resume."""
        self.note = ""
        """A sentence for the user, if another wrote the session."""
        self._stored = settings
        """The settings on disk, without those of writes that are under way."""
        self._fence = fence
        self._backend = backend
        self._seal = seal
        self._release = release
        self._finalizer = weakref.finalize(self, release, wait=False)  # for callers that do not close it
        self._finalizer.atexit = False  # not needed: other processes detect that the holder has ended

    def write(self, *entries: Entry) -> PendingWrite:
        """Queue entries, all or none. The write is done when they are on disk, and fails only with a LogError."""
        new = self.files.pop_new()
        try:
            append = self.appending(*new, *entries)
            write = self._backend.submit(append)
        except LogError as error:
            write = PendingWrite.failed(error)
        else:
            write.appended = append
            if append.update.settings_changed:  # at once: another write may follow before this one is on disk
                self.settings = append.update.settings
                write.then(lambda: self._settle(append, write))
        if new:
            write.then(lambda: self.files.restore_new(new) if write.error else None)
        return write

    def write_now(self, *entries: Entry) -> int:
        """Write entries without an event loop. Return the seq of the last one when they are on disk."""
        new = self.files.pop_new()
        try:
            append = self.appending(*new, *entries)
            self._backend.append(append)
        except BaseException:
            self.files.restore_new(new)
            raise
        if append.update.settings_changed:
            self.settings = self._stored = append.update.settings
        return append.last

    def close(self) -> None:
        """Release the session, so that others can open it. Later writes fail."""
        if self._finalizer.detach():
            self._release(wait=True)

    def appending(self, *entries: Entry) -> Append:
        """Return entries to append, also with others in one commit."""
        if not self._finalizer.alive:
            raise LogError("the session was closed; open it again to continue")
        self.is_new = False
        return Append(self.extent.session, self._fence, self._sealed(entries), self.settings, self._chain)

    def _sealed(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries with those signed that change settings."""
        if not any(isinstance(entry, SessionSettings) for entry in entries):
            return entries
        settings, signed = self.settings, list(entries)
        for index, entry in enumerate(entries):
            if isinstance(entry, SessionSettings):
                signed[index] = entry = self._seal.entry(self.id, settings, entry)
                settings = settings.merged(entry)
        return signed

    def _settle(self, append: Append, write: PendingWrite) -> None:
        if write.error is None:
            self._stored = append.update.settings
        elif self.settings is append.update.settings:
            self.settings = self._stored
