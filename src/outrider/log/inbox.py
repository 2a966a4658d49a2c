"""The inbox: questions of sessions, answered from any process of the owner, and messages to those that are open.

A message belongs to one holder of a session, known by its fence, and so does a question of a server or of a dialogue.
They end with it, and are removed when the session is closed or opened again. A question for which a session waits
without a process is in `open_questions.py`.

Answers and messages are signed with the user's key, which is not in the log. An answer covers the question as it was
shown. What is not signed was written by another, such as a command that reaches the database: it does not count.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from outrider.errors import LogError
from outrider.log.backend import Backend
from outrider.log.entries import Asked
from outrider.log.inbox_tables import DELIVERED, InboxTables, InboxView, QuestionRow, Watcher
from outrider.log.key import LogKey
from outrider.log.pending_write import deliver_cancel
from outrider.log.questions import Answer, Question, Signal, check_answer, check_signal, shown_text
from outrider.log.session_id import shown_id
from outrider.log.signer import Signer
from outrider.log.summary import SessionRow
from outrider.text import clean

if TYPE_CHECKING:
    from asyncio import Future, Task

    from outrider.log.open_questions import OpenQuestions

Deliver: TypeAlias = "Callable[[Signal], Future[None] | None]"
"""Delivers a message. It is taken at once, or when the future ends; one that is cancelled leaves it to its sender."""

UNSIGNED_ANSWER = (
    "An answer to this question was ignored: it was not signed with your key. Something else writes to the log, or "
    "another machine answers without the same OUTRIDER_LOG_KEY"
)
UNSIGNED_MESSAGE = (
    "A message to this session was ignored: it was not signed with your key. Something else writes to the log, or "
    "another machine sends without the same OUTRIDER_LOG_KEY"
)


class Inbox:
    """The questions of all sessions of a log that wait for a person.

    >>> import tempfile
    >>> from outrider.log.log import Log
    >>> Log(tempfile.mkdtemp()).inbox.questions()
    []
    """

    def __init__(
        self, backend: Backend, find_session: Callable[[str], SessionRow], held: Mapping[int, int], key: LogKey
    ) -> None:
        self._tables = backend.inbox_tables()
        self._find_session = find_session
        self._signer = Signer(key)
        self._held = held
        """The fence of each session that is open here, by session number."""
        self._watcher = self._tables.watcher()

    # From any process

    def questions(self, session: str | None = None) -> list[Question]:
        """Return the questions that wait, of all sessions or one, oldest first, unless their holder has ended."""
        if not self._tables.exists():
            return []
        number = None if session is None else self._find_session(session).number
        rows = [row for row in self._tables.waiting() if number in (None, row.number)]
        alive = {each for each in {row.number for row in rows if not row.is_lasting} if self._lives(each)}
        found = (self._signer.question(row) for row in rows if row.is_lasting or row.number in alive)
        return [each for each in found if each]

    def _lives(self, number: int) -> bool:
        row = self._tables.numbered(number)
        return row is not None and self._tables.is_alive(row)

    def answered_sessions(self) -> list[str]:
        """Return the sessions that can go on: a question is answered, and no process has them open."""
        rows = self._tables.answered() if self._tables.exists() else []
        ready = (row.session for row in rows if self._signer.answer(row) and not self._lives(row.number))
        return list(dict.fromkeys(self.root_of(session) for session in ready))

    def root_of(self, session: str) -> str:
        """Return the session that a sub-agent's session belongs to, or the session itself."""
        while parent := self._find_session(session).summary.parent:
            session = parent
        return session

    def unanswered(self, ids: Sequence[str]) -> set[str]:
        """Return those of these questions for which sessions wait, with or without a process."""
        return self._tables.unanswered(ids) if self._tables.exists() else set()

    def question(self, id: str) -> Question | None:
        """Return a question, also one that was answered; None if it is not known any more."""
        found = self._tables.question(id) if self._tables.exists() else None
        return self._signer.question(found) if found else None

    def answer(self, id: str, answer: Answer, by: str, files: Sequence[str] = ()) -> bool:
        """Answer a question. Return False if it was answered before, or its session waits no more.

        The first answer wins; `question(id)` says who gave it. Raises ValidationError if the question does not offer
        the answer. `files` are those of a result, which are stored already.
        """
        row = self._tables.question(id) if self._tables.exists() else None
        found = self._signer.question(row) if row else None
        if row is None or found is None or (found.deadline is not None and found.deadline <= time.time()):
            return False
        if not row.is_lasting and not self._tables.is_alive(self._find_session(found.session)):
            return False
        check_answer(found.body, answer)
        by = _name(by)
        return self._tables.settle(id, self._signer.signed_answer(id, row.body, answer, by), by, files)

    def send(self, session: str, signal: Signal) -> int:
        """Send a message, or the wish to stop, to the process that has a session open. Return its number.

        Raises LogError if no process has it open that takes messages, and ValidationError for an empty message.
        """
        check_signal(signal)
        row = self._find_session(session)
        if not self.is_listening(session):
            lives = self._tables.is_alive(row)
            holder = f"{row.summary.holder} does not take messages" if lives else "no process has it open"
            raise LogError(f"the session {shown_id(row.summary.id)} cannot be reached: {holder}")
        return self._tables.send(row.number, row.fence, self._signer.signed_signal(row.summary.id, row.fence, signal))

    def is_taken(self, number: int) -> bool | None:
        """Return whether the session has taken a message; None if it was closed, or its process ended, before that."""
        found = self._tables.signal(number)
        if found is None or found.taken:
            return True if found else None
        row = self._tables.numbered(found.session)
        if row is not None and row.fence == found.fence and self._tables.is_alive(row):
            return False
        # The holder is gone. It may have taken the message after the first look.
        found = self._tables.signal(number)
        return True if found and found.taken else None

    def is_delivered(self, number: int) -> bool:
        """Return whether the process that has the session open has a message, taken or not."""
        found = self._tables.signal(number)
        return found is not None and found.taken is not None

    def is_open(self, session: str) -> bool:
        """Return whether a live process has the session open."""
        return self._tables.is_alive(self._find_session(session))

    def is_listening(self, session: str) -> bool:
        """Return whether a live process has the session open, and takes messages and answers from others."""
        row = self._find_session(session)
        return self._tables.is_alive(row) and self._tables.is_listening(row.number, row.fence)

    async def changes(self) -> AsyncIterator[None]:
        """Yield once now, and then whenever any process has changed the log."""
        import asyncio

        changed = asyncio.Event()
        changed.set()
        stop = self._watcher.watch(lambda _: changed.set(), lambda: True)
        try:
            while True:
                await changed.wait()
                changed.clear()
                yield
        finally:
            stop()

    # For the holder

    def listen(self, session: str) -> HeldInbox:
        """Return the inbox of a session that is open here, and let other processes know that it takes messages."""
        return HeldInbox(*self._holding(session), self._tables, self._watcher, self._signer)

    def open_questions(self, session: str) -> OpenQuestions:
        """Return the questions of a session that is open here, which stay when it is closed."""
        from outrider.log.open_questions import OpenQuestions  # few sessions wait

        return OpenQuestions(*self._holding(session)[1:], self._tables, self._signer)

    def _holding(self, session: str) -> tuple[str, int, int]:
        row = self._find_session(session)
        if (fence := self._held.get(row.number)) is None:
            raise LogError(f"the session {shown_id(row.summary.id)} is not open here")
        return row.summary.id, row.number, fence

    def close(self) -> None:
        """Stop watching the file."""
        self._watcher.close()


class HeldInbox:
    """The inbox of one session, for its holder: asks, and takes answers and messages. Used in one event loop."""

    def __init__(
        self, session: str, number: int, fence: int, tables: InboxTables, watcher: Watcher, signer: Signer
    ) -> None:
        self._session, self._number, self._fence = session, number, fence
        self._tables = tables
        self.watch, self.look_soon = watcher.watch, watcher.look_soon
        self._signer = signer
        self.on_unsigned: Callable[[str], None] = lambda sentence: None
        """Called with a sentence for the user when something in the log is not signed with the user's key."""
        self._asked: dict[str, str] = {}
        """The questions that wait, as they were asked: what the log has of them may have been changed."""
        self._seen: set[str] = set()
        """The names of the messages that were taken."""
        self._delivered: set[int] = set()
        """Messages that were delivered, or are about to be."""
        self._taken: set[int] = set()
        """Messages that were taken, which is not stored yet."""
        self._marking: set[Task[None]] = set()
        tables.announce(number, fence)

    async def ask(self, asked: Asked) -> str:
        """Store a question, and return its id. One that waits without a process stays when this holder ends.

        If this is cancelled or fails, the question may be there: withdraw it, or leave it.
        """
        text, is_lasting = shown_text(asked.question), bool(asked.waits)
        call_id = clean(asked.call_id)
        await self._tables.ask(self._number, self._fence, asked.id, call_id, text, lasting=is_lasting)
        await deliver_cancel()
        self._asked[asked.id] = text
        return asked.id

    async def answer(self, id: str, answer: Answer, by: str) -> Question | None:
        """Answer an own question. Return None if this answer counts, else the question with the one before it."""
        by = _name(by)
        signed = self._signer.signed_answer(id, self._asked.get(id, ""), answer, by)
        for _ in range(2):  # again if the one before it was not signed: it is removed
            earlier = await self._tables.settle_own(id, signed, by)
            if earlier is None:
                return None
            if found := self._checked(earlier):
                return found
        return None

    def signature(self, asked: Asked, answer: Answer, by: str) -> str:
        """Return the signature of an answer that was given here."""
        return self._signer.signature(asked.id, shown_text(asked.question), answer, by)

    def forget(self, id: str) -> None:
        """Forget an own question that was answered or withdrawn: it ends with this holder now."""
        if self._asked.pop(id, None) is not None:
            self._tables.end_with_holder(self._fence, id)

    def withdraw(self, id: str) -> None:
        """Remove a question that waits, soon. One that was answered stays, so that others can see by whom."""
        self._tables.withdraw(id)

    def answered(self, view: InboxView, id: str) -> Question | None:
        """Return an own question if it was answered. An answer that is not signed is removed, and the user told."""
        row = view.question(id)
        return self._checked(row) if row else None

    def _checked(self, row: QuestionRow) -> Question | None:
        if row.answer is None or row.id not in self._asked:
            return None
        found = self._signer.question(row._replace(body=self._asked[row.id]))
        if found and found.answer:
            return found
        if row.answer not in self._seen:
            self._seen.add(row.answer)
            self.on_unsigned(UNSIGNED_ANSWER)
        self._tables.reject(row.id, row.answer)
        return None

    def has_signals(self, view: InboxView) -> bool:
        """Return whether there are messages to take."""
        return view.has_signals(self._number, self._fence)

    async def take_signals(self, deliver: Deliver = lambda signal: None) -> Sequence[Signal]:
        """Deliver the messages that wait, in order, each once. Let their senders know that they are here, then taken.

        If this process ends before a message is taken, its sender knows that it was not.
        """
        waiting = await self._tables.signals(self._number, self._fence)
        found = {number: body for number, body in waiting if number not in self._delivered}
        self._delivered.update(found)
        if found:
            try:
                await self._tables.mark(list(found), DELIVERED)
            except BaseException:
                self._delivered.difference_update(found)
                raise
        new = {number: signal for number, body in found.items() if (signal := self._signed(body))}
        for number, signal in new.items():
            if taken := deliver(signal):
                taken.add_done_callback(partial(self._when_taken, number))
            else:
                self._taken.add(number)
        await self._mark_taken()
        return list(new.values())

    def _signed(self, body: str) -> Signal | None:
        """Return the message if the user's key has signed it for this holder, and it was not taken before."""
        found = self._signer.sent(self._session, self._fence, body)
        if found is None or found.id in self._seen:
            self.on_unsigned(UNSIGNED_MESSAGE)
            return None
        self._seen.add(found.id)
        return found.signal

    def _when_taken(self, number: int, taken: Future[None]) -> None:
        if not taken.cancelled():
            self._taken.add(number)
            marking = taken.get_loop().create_task(self._mark_taken())
            self._marking.add(marking)
            marking.add_done_callback(self._marking.discard)

    async def _mark_taken(self) -> None:
        if taken := list(self._taken):
            with suppress(LogError):  # the session was lost, or the next look stores it
                await self._tables.mark(taken, time.time())
                self._taken.difference_update(taken)


def _name(by: str) -> str:
    return clean(by).replace("\0", "")  # Postgres cannot store it
