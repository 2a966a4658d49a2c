"""Takes snapshots of the working folder around the calls of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from outrider.errors import LogError
from outrider.log.entries import SnapshotEntry
from outrider.log.working_folder import WorkingFolder
from outrider.runtime.events import Event, Notice
from outrider.text import counted
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.log.entries import Entry

PATIENCE = 2.0
"""Seconds until the user learns that files are being recorded. The first snapshot of a large folder takes long."""
RECORDING = "recording the files of the folder, so that a rewind can restore them …"


class FolderWatch:
    """One snapshot before calls that may write, and one after them, which is taken while the model works on."""

    def __init__(
        self,
        folder: WorkingFolder,
        append: Callable[[Entry], Awaitable[None]],
        threads: Threads,
        emit: Callable[[Event], None],
    ) -> None:
        self.folder = folder
        self._emit = emit
        self._append = append
        self._threads = threads
        self._is_open = False
        """Whether calls that may write are running."""
        self._closing: asyncio.Task[None] | None = None

    async def begin(self) -> SnapshotEntry | None:
        """Return the snapshot to store before a call that may write; None if one was stored for a call beside it."""
        if self._is_open:
            return None
        await self.settle()
        self._is_open = True
        try:
            return await self._snapshot(opens=True)
        except asyncio.CancelledError:
            self.folder.forget()  # the snapshot is taken, but not stored
            raise

    def forget(self) -> None:
        """Forget what could not be stored: the next snapshot starts from what the log has."""
        self.folder.forget()

    def end(self) -> None:
        """Take the snapshot after the calls, in the background."""
        if self._is_open:
            self._is_open = False
            self._closing = asyncio.ensure_future(self._close())

    async def settle(self) -> None:
        """Wait for the snapshot after the last calls. It is taken even if the caller is cancelled meanwhile."""
        closing, self._closing = self._closing, None
        if closing:
            await asyncio.shield(closing)

    async def _close(self) -> None:
        try:
            if snapshot := await self._snapshot(opens=False):
                await self._append(snapshot)
        except LogError:
            self.folder.forget()

    async def _snapshot(self, *, opens: bool) -> SnapshotEntry | None:
        loop = asyncio.get_running_loop()
        began, late = loop.time(), loop.call_later(PATIENCE, self._emit, Notice(RECORDING))
        try:
            snapshot = await self._threads.run(self.folder.snapshot, opens=opens)
        finally:
            late.cancel()
        if snapshot and snapshot.is_whole and (seconds := loop.time() - began) > PATIENCE:
            self._emit(Notice(f"recorded {counted(snapshot.count, 'file')} in {seconds:.0f} s"))
        for notice in self.folder.take_notices():
            self._emit(Notice(notice))
        return snapshot
