"""The journal of a session: on a log, or one that keeps nothing. No other code asks whether there is a log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from typing import TYPE_CHECKING

from outrider.conversation.messages import Usage
from outrider.conversation.store import AttachmentStore
from outrider.errors import ConversationError, LogError
from outrider.log.pending_write import PendingWrite
from outrider.log.state import SessionState

if TYPE_CHECKING:
    from outrider.log.entries import Entry, Requested, SessionSettings
    from outrider.log.journal import Journal as HeldSession
    from outrider.log.log import Log
    from outrider.log.requests import RequestLedger
    from outrider.log.rewinding import Rewinder
    from outrider.log.working_folder import WorkingFolder
    from outrider.providers.base import Request
    from outrider.runtime.recall import Past


SUSPENDED = "the session was suspended; open it again to continue"


class Journal:
    """Where the entries of a session go: nowhere, in a session without a log. `LogJournal` keeps them."""

    def __init__(self, id: str, store: AttachmentStore) -> None:
        self.id = id
        """The id of the session."""
        self.store = store
        """Holds the files of the conversation."""

    def write(self, *entries: Entry) -> PendingWrite:
        """Queue entries, all or none. The write is done when they are kept, and fails only with a LogError."""
        return _KEPT

    def write_now(self, *entries: Entry) -> int:
        """Write entries without an event loop. Return the seq of the last one, 0 without a log, when they are kept."""
        return 0

    def requested(self, request: Request, known: Requested | None) -> Requested | None:
        """Return what is to be written about a request, given what is known about those before it."""
        return None

    def resume(self, *, whole: bool = False) -> SessionState:
        """Return the state of the session as it was kept; `whole` reads all of it. Blocks."""
        return SessionState()

    async def child(self, id: str, settings: SessionSettings, call_id: str) -> Journal:
        """Return the journal of a sub-agent that a call starts."""
        return Journal(new_id(), self.store)

    def children_usage(self) -> Usage:
        """Return the usage of all sub-agents of earlier processes. Blocks."""
        return Usage()

    def past(self, state: SessionState) -> Past:
        """Return the whole conversation, for reading."""
        from outrider.runtime.recall import RememberedPast

        return RememberedPast(self.id, lambda: state.messages, self.store)

    def rewinder(self, folder: WorkingFolder | None) -> Rewinder:
        """Return what rewinds the session. Raises ConversationError if it cannot be."""
        raise ConversationError("only a session in a log can be rewound; open it with Session.open(log, …)")

    def suspend(self) -> None:
        """Keep nothing from now on: what is kept is what a kill would leave. Raises ConversationError without a log."""
        raise ConversationError("only a session in a log can be suspended; use cancel(), or open it in a log")

    is_suspended: bool = False
    """Whether nothing is kept any more."""

    def close(self) -> None:
        """Release the session. Later writes fail."""

    async def aclose(self) -> None:
        """Release the session without blocking the loop."""


class LogJournal(Journal):
    """The journal of a session that a log holds open."""

    def __init__(self, log: Log, held: HeldSession) -> None:
        super().__init__(held.id, held.files)
        self._log = log
        self._held = held
        self._ledger: RequestLedger | None = None
        self._opening: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._children: weakref.WeakSet[LogJournal] = weakref.WeakSet()

    def write(self, *entries: Entry) -> PendingWrite:
        """Queue entries for the log."""
        return PendingWrite.failed(LogError(SUSPENDED)) if self.is_suspended else self._held.write(*entries)

    def write_now(self, *entries: Entry) -> int:
        """Write entries to the log."""
        if self.is_suspended:
            raise LogError(SUSPENDED)
        return self._held.write_now(*entries)

    def suspend(self) -> None:
        """Write nothing from now on, here and in the sessions of sub-agents. What is being written is still written."""
        self.is_suspended = True
        for child in self._children:
            child.suspend()

    def close(self) -> None:
        """Release the session, so that others can open it."""
        self._held.close()

    def requested(self, request: Request, known: Requested | None) -> Requested | None:
        """Return what the request has that the log does not know."""
        if self._ledger is None:
            from outrider.log.requests import RequestLedger  # needed with the first reply

            self._ledger = RequestLedger()
        return self._ledger.new_in(request, known)

    def resume(self, *, whole: bool = False) -> SessionState:
        """Fold the entries of the log."""
        from outrider.log.resume import resume  # imports SQLite

        return resume(self._log, self._held, whole=whole)

    async def child(self, id: str, settings: SessionSettings, call_id: str) -> Journal:
        """Open the session that this task had before, or create it. If the caller is cancelled, close it at once."""
        async with self._one_at_a_time():  # the log keeps them in call order
            opening = asyncio.ensure_future(asyncio.to_thread(self._log.open_child, id, settings, self._held, call_id))
            try:
                child = LogJournal(self._log, await asyncio.shield(opening))
                self._children.add(child)
                child.is_suspended = self.is_suspended
                return child
            except asyncio.CancelledError:
                with contextlib.suppress(LogError):
                    (await opening).close()
                raise

    def _one_at_a_time(self) -> asyncio.Lock:
        """Return the lock of the current event loop: a lock belongs to one, and a session may run in several."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening[0] is not loop:
            self._opening = loop, asyncio.Lock()
        return self._opening[1]

    def children_usage(self) -> Usage:
        """Sum it in the log."""
        return self._log.usage_of_children(self.id)

    def past(self, state: SessionState) -> Past:
        """Read the log."""
        from outrider.runtime.recall import LoggedPast

        return LoggedPast(self._log, self.id)

    def rewinder(self, folder: WorkingFolder | None) -> Rewinder:
        """Rewind in the log."""
        from outrider.log.rewinding import Rewinder  # few sessions are rewound

        return Rewinder(self._log, self._held, folder)

    async def aclose(self) -> None:
        """Release the session in a thread."""
        await asyncio.to_thread(self.close)


def new_id() -> str:
    """Return the id of a new session."""
    return os.urandom(16).hex()


def _kept() -> PendingWrite:
    write = PendingWrite()
    write.done = True
    return write


_KEPT = _kept()
"""A write that is done."""
