"""The journal of a session: on a log, or one that keeps nothing. No other code asks whether there is a log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import weakref
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from outrider.conversation.store import AttachmentStore
from outrider.conversation.usage import Usage
from outrider.errors import AnsweredError, ConversationError, LogError
from outrider.log.pending_write import PendingWrite
from outrider.log.state import SessionState

if TYPE_CHECKING:
    from outrider.log.entries import Asked, Decided, Entry, Requested, SessionSettings
    from outrider.log.journal import Journal as HeldSession
    from outrider.log.log import Log
    from outrider.log.open_questions import OpenQuestions
    from outrider.log.questions import Answer
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
        self._answers: dict[str, tuple[Answer, str, float]] = {}
        """Answers that were not taken yet, with who gave them and when, by question."""
        self.shown: set[str] = set()
        """The ids of the questions that others may answer, also those of sub-agents."""

    @cached_property
    def _state(self) -> SessionState:
        """The state of a session that is opened again: only sub-agents are."""
        return SessionState()

    @cached_property
    def _forgetful(self) -> weakref.WeakValueDictionary[str, Journal]:
        """The journals of sub-agents, while something needs them."""
        return weakref.WeakValueDictionary()

    def write(self, *entries: Entry) -> PendingWrite:
        """Queue entries, all or none. The write is done when they are kept, and fails only with a LogError."""
        return KEPT

    def write_now(self, *entries: Entry) -> int:
        """Write entries without an event loop. Return the seq of the last one, 0 without a log, when they are kept."""
        return 0

    def requested(self, request: Request, known: Requested | None) -> Requested | None:
        """Return what is to be written about a request, given what is known about those before it."""
        return None

    def resume(self, *, whole: bool = False, at_work: Collection[str] = ()) -> SessionState:
        """Return the state of the session as it was kept; `whole` reads all of it. Blocks.

        Sub-agents in the background were interrupted, except for those that are `at_work` in this process.
        """
        return self._state

    async def child(self, id: str, settings: SessionSettings, call_id: str) -> Journal:
        """Return the journal of a sub-agent that a call starts."""
        found = self._forgetful[id] = self._forgetful.get(id) or Journal(id, self.store)
        return found

    async def child_state(self, id: str) -> SessionState | None:
        """Return the state of a sub-agent of this session, if it is known."""
        return found.resume() if (found := self._forgetful.get(id)) else None

    def children_usage(self) -> Usage:
        """Return the usage of all sub-agents of earlier processes. Blocks."""
        return Usage()

    async def spent(self, start: float, end: float, folder: str, owner: str) -> float | None:
        """Return what all sessions have cost between two times, in a folder or of an owner. None without a log."""
        return None

    def past(self, state: SessionState) -> Past:
        """Return the whole conversation, for reading."""
        from outrider.runtime.recall import RememberedPast

        return RememberedPast(self.id, lambda: state.messages, self.store)

    async def ask(self, asked: Asked) -> None:
        """Let others answer a question, which the session has stored."""

    async def answer(self, asked: Asked, given: Any, by: str) -> None:
        """Answer a question: the first answer counts. Raises AnsweredError, and ValidationError if it cannot be it."""
        from outrider.log.answers import answer_from
        from outrider.log.questions import body_of, check_answer

        body = body_of(asked.question)
        if asked.id in self._answers or body is None:
            raise AnsweredError(f"the question {asked.id[:8]} was answered before")
        check_answer(body, answer := answer_from(body, given, self.store.put))
        self._answers[asked.id] = answer, by, time.time()

    async def decisions(self, questions: Iterable[Asked]) -> list[Decided]:
        """Return how those of the questions were decided that were answered, or whose deadline has passed."""
        from outrider.log.open_questions import decided, is_late, too_late

        asked, now = list(questions), time.time()
        given = [decided(each, *self._answers[each.id]) for each in asked if each.id in self._answers]
        return given + [too_late(each) for each in asked if each.id not in self._answers and is_late(each, now)]

    def proves(self, asked: Asked, decided: Decided) -> bool:
        """Return whether this is an answer of the user."""
        return True

    async def give_up(self, ids: Sequence[str]) -> None:
        """Let nobody answer these questions any more."""

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

    def resume(self, *, whole: bool = False, at_work: Collection[str] = ()) -> SessionState:
        """Fold the entries of the log."""
        from outrider.log.resume import resume  # imports SQLite

        return resume(self._log, self._held, whole=whole, at_work=at_work)

    async def child(self, id: str, settings: SessionSettings, call_id: str) -> Journal:
        """Open the session that this task had before, or create it. If the caller is cancelled, close it at once."""
        async with self._one_at_a_time():  # the log keeps them in call order
            opening = asyncio.ensure_future(asyncio.to_thread(self._log.open_child, id, settings, self._held, call_id))
            try:
                child = LogJournal(self._log, await asyncio.shield(opening))
                self._children.add(child)
                child.is_suspended, child.shown = self.is_suspended, self.shown
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

    @cached_property
    def _open_questions(self) -> OpenQuestions:
        return self._log.inbox.open_questions(self.id)

    async def ask(self, asked: Asked) -> None:
        """Put it into the inbox, where it stays when this process ends."""
        self.shown.add(asked.id)  # first: the process may be told to end as soon as others see the question
        await (await asyncio.to_thread(lambda: self._open_questions)).ask(asked)

    async def answer(self, asked: Asked, given: Any, by: str) -> None:
        """Answer it in the inbox, as others do."""
        await asyncio.to_thread(self._log.answer, asked.id, given, by=by)

    async def decisions(self, questions: Iterable[Asked]) -> list[Decided]:
        """Read them in the inbox."""
        return await (await asyncio.to_thread(lambda: self._open_questions)).decisions(questions)

    def proves(self, asked: Asked, decided: Decided) -> bool:
        """Check the signature: who can write to the log could have written the entry."""
        return self._open_questions.proves(asked, decided)

    async def give_up(self, ids: Sequence[str]) -> None:
        """Take them out of the inbox. After a failure they stay there, answered by no one who waits."""
        if not self.is_suspended:
            self.shown.difference_update(ids)
            with contextlib.suppress(LogError):
                await (await asyncio.to_thread(lambda: self._open_questions)).give_up(ids)

    async def child_state(self, id: str) -> SessionState | None:
        """Fold the entries of its session, if that is a sub-agent of this one."""
        known = await asyncio.to_thread(self._log.summaries, [id])
        return await asyncio.to_thread(self._log.state, id) if id in known and known[id].parent == self.id else None

    def children_usage(self) -> Usage:
        """Sum it in the log."""
        return self._log.usage_of_children(self.id)

    async def spent(self, start: float, end: float, folder: str, owner: str) -> float | None:
        """Sum it in the log."""
        return await asyncio.to_thread(self._log.spent, start, end, folder=folder, owner=owner)

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


KEPT = PendingWrite()
"""A write that is done."""
KEPT.done = True
