"""The conversation of a session: in memory, and in its log if it has one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from outrider.conversation.codec import MessageLike, read_conversation, refuse_stray_results
from outrider.conversation.history import History, unanswered
from outrider.conversation.messages import Block, Message, ToolResultBlock, Usage
from outrider.conversation.store import AttachmentStore
from outrider.errors import ConversationError, LogError
from outrider.log.entries import AttemptFailed, CallResult, Entry, Intent, MessageEntry, RunCancelled, SessionSettings
from outrider.log.pending_write import deliver_cancel
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import Reply, Request
from outrider.runtime.calls import Call
from outrider.runtime.events import Event, MessageAdded, ReplyDiscarded
from outrider.runtime.reply_calls import ReplyCalls
from outrider.runtime.run import Progress
from outrider.runtime.steering import QueuedMessage, Steering, entries_of
from outrider.text import clean
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.log.entries import Requested
    from outrider.log.journal import Journal
    from outrider.log.log import Log
    from outrider.log.requests import RequestLedger
    from outrider.runtime.folder_watch import FolderWatch
    from outrider.runtime.past import Past
    from outrider.runtime.working_folder import WorkingFolder

T = TypeVar("T")


class SessionRecord:
    """What a session has said, called, queued and used. A step is on disk before it is in memory."""

    def __init__(
        self,
        messages: Iterable[MessageLike],
        store: AttachmentStore,
        threads: Threads,
        emit: Callable[[Event], None],
    ) -> None:
        self.id = os.urandom(16).hex()
        given = read_conversation(messages)
        refuse_stray_results(given)
        self.history = History(given)
        self.calls = ReplyCalls()
        self.steering = Steering(emit)
        self.usage = Usage()
        """The usage of all requests of the session, without those of its sub-agents."""
        self.request: Request | None = None
        """The request of the newest reply."""
        self.first_token: float | None = None
        """Seconds from it to the first delta of the reply."""
        self._requested: Requested | None = None
        self._ledger: RequestLedger | None = None
        self.progress: Progress | None = None
        """The progress of the current run, if there is one."""
        self.store = store
        self.emit = emit
        self.log: Log | None = None
        self.journal: Journal | None = None
        self.watch: FolderWatch | None = None
        """Takes snapshots of the working folder, in a session that can rewind its files."""
        self._threads = threads

    # The log

    def attach(self, log: Log, journal: Journal, settings: SessionSettings) -> None:
        """Take this journal, and store settings that differ from those in it. `resume` then reads the conversation."""
        self.log, self.journal = log, journal
        self.change_settings(settings)
        self.id, self.usage, self.store = journal.id, journal.usage, journal.files
        self.steering.journal = journal

    def resume(self) -> tuple[Message, Usage] | None:
        """Take the conversation from the log; return the newest reply with its usage, which measures a request."""
        from outrider.log.resume import resume  # imports SQLite, which sessions without a log do not need

        assert self.log is not None
        assert self.journal is not None
        self.history, known, measured, queued, self._requested = resume(self.log, self.journal)
        self._ledger = None
        self.steering.resume(queued)
        self.calls = ReplyCalls(known)
        return measured

    def take_snapshots(self, folder: WorkingFolder) -> None:
        """Take snapshots of a folder before calls that may write, if there is a log."""
        from outrider.runtime.folder_watch import FolderWatch  # sessions without a folder do not need it

        if self.journal:
            self.watch = FolderWatch(folder, self.journal, self._threads, self.emit)

    async def write(self, entry: Entry) -> None:
        """Store an entry, if there is a log. Return when it is on disk."""
        if self.journal:
            await self.journal.write(entry).finished()

    def change_settings(self, settings: SessionSettings) -> None:
        """Store the settings that differ from those in the log. Blocks. Raises LogError."""
        if self.journal is None:
            return
        from outrider.log.replay import changes

        if changed := changes(self.journal.settings, settings):
            self.journal.write_now(changed)

    def rename(self, title: str) -> None:
        """Store a title. Blocks. Raises LogError."""
        title = " ".join(clean(title).split())
        if not title:
            raise LogError("a title must not be empty")
        if self.journal:
            self.journal.write_now(SessionSettings(title=title))

    @property
    def has_own_title(self) -> bool:
        """Whether a person has set the title."""
        return self.journal is not None and self.journal.settings.title is not None

    def close(self) -> None:
        """Release the session, so that others can open it."""
        if self.journal:
            with contextlib.suppress(LogError):  # the lock expires anyway
                self.journal.close()

    async def recording_cancel(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work, wait for its snapshots, and store that it was cancelled, if it was."""
        try:
            try:
                result = await work
            finally:
                if self.watch:
                    await self.watch.settle()
            await deliver_cancel()
            return result
        except asyncio.CancelledError:
            with contextlib.suppress(LogError):
                await self.write(RunCancelled())
            raise

    # Reading

    async def load(self) -> None:
        """Load in a thread what a request sends. A cancel leaves everything unchanged."""
        if not self.history.is_ready:
            tail = self.history.tail
            self.history.replace_with(await self._threads.run(self.history.loaded, tail), len(tail))

    async def all_messages(self) -> Sequence[Message]:
        """Return all messages, or only the newest if the log cannot be read. Of a compacted session they come late."""
        try:
            await self.load()
            return self.history.late_messages
        except LogError:
            return self.history.tail

    def past(self) -> Past:
        """Return the whole conversation, for reading."""
        from outrider.runtime.past import LoggedPast, RememberedPast

        if self.log:
            return LoggedPast(self.log, self.id)
        return RememberedPast(self.id, lambda: self.history.messages, self.store)

    @property
    def is_unfinished(self) -> bool:
        """Whether there are calls to run, or results or queued messages to answer."""
        last = self.history.last
        if self.steering:
            return True
        return last is not None and self.calls.final is None and (last.role == "user" or bool(self.history.pending))

    def final_answer(self) -> Message | None:
        """Return the last message if it is the model's. Raises ConversationError if there is none."""
        last = self.history.last
        if last is None:
            raise ConversationError("there is nothing to answer: the conversation is empty and no prompt was given")
        return last if last.role == "assistant" else None

    def check_answerable(self) -> None:
        """Raise ConversationError unless the model has something to answer."""
        if waiting := self.history.pending:
            names = ", ".join(call.name for call in waiting)
            raise ConversationError(
                f"calls wait for results ({names}); let run() run them (act() in a Session), or pass tool_results"
            )
        if self.final_answer():
            raise ConversationError("the conversation ends with the model's answer; add a prompt")

    # Adding

    async def add(self, said: Sequence[Block], results: Mapping[str, ToolResultBlock]) -> None:
        """Add results, then queued messages, then what is said. A call without a result gets an error result."""
        if not results and not said:
            if not self.history.pending:
                await self.deliver()
            return
        pending = [call.id for call in self.history.pending]
        unknown = [call_id for call_id in results if call_id not in pending]
        if unknown:
            waiting = ", ".join(pending) or "none"
            raise ConversationError(f"no call waits for a result with the id {unknown[0]!r}; waiting: {waiting}")
        known = self.calls.results
        answers = (results.get(call_id) or known.get(call_id) or unanswered(call_id) for call_id in pending)
        await self.deliver(tuple(answers), said)

    async def deliver(self, results: Sequence[Block] = (), said: Sequence[Block] = ()) -> None:
        """Add the queued messages in one commit, between results and what is said now. Both become one message if
        nothing is queued."""
        await self.steering.settled()
        with self.steering.delivering() as queued:
            if queued:
                await self._append(Message.user(*results), *queued, Message.user(*said))
            elif results or said:
                await self._append(Message.user(*results, *said))

    async def keep_partial_reply(self, words: str, usage: Usage | None) -> None:
        """Keep the text of an interrupted reply, marked as interrupted; partial calls and thinking are dropped.

        `usage` is what it has used. It is counted already; observers are told.
        """
        if words.strip():
            with contextlib.suppress(LogError):  # the text is lost, the cancel goes on
                await self._append(Message.assistant(words), Message.user(prompt_text("interrupted")), usage=usage)
        elif usage:
            self.emit(ReplyDiscarded("cancelled", usage))

    async def _append(self, *messages: Message | QueuedMessage, usage: Usage | None = None) -> None:
        said = [each for each in messages if isinstance(each, QueuedMessage) or each.content]
        if self.journal and said:
            await self.journal.write(*entries_of(said), *self.steering.restated()).finished()
        for each in said:
            message, steering = (each.message, each.id) if isinstance(each, QueuedMessage) else (each, "")
            self.calls.forget()
            self.history.append(message)
            self.emit(MessageAdded(message, usage if message.role == "assistant" else None, steering))

    async def store_reply(self, reply: Reply, model: str, intents: Sequence[Intent]) -> None:
        """Store a reply together with the intents of its calls that start at once. It is not in memory yet."""
        assert self.journal
        first_token = None if self.first_token is None else round(self.first_token, 3)
        entry = MessageEntry(reply.message, reply.usage, reply.stop_reason, model, first_token)
        requested = self._requests.new_in(self.request) if self.request else None
        before = (requested,) if requested else ()
        await self.journal.write(*before, entry, *intents, *self.steering.restated()).finished()
        if self.request:
            self._requests.mark_written(self.request, requested)
        self.calls.start(intents)

    @property
    def _requests(self) -> RequestLedger:
        if self._ledger is None:
            from outrider.log.requests import RequestLedger  # sessions without a log do not need it

            self._ledger = RequestLedger(self._requested)
        return self._ledger

    def add_results(self, calls: Sequence[Call]) -> tuple[Message, CallResult | None]:
        """Add one message with all results; return it, and the result that ends the run. The log derives it."""
        answers = [call.answer for call in calls if call.answer]
        message = Message.user(*(answer.result for answer in answers))
        final = next((answer for answer in answers if answer.final), None)
        if message.content:
            self.history.append(message)
            self.calls.finish(final)
            self.emit(MessageAdded(message))
        return message, final

    # Usage

    def count(self, usage: Usage) -> None:
        """Count the usage of a request that is not a turn."""
        self.usage += usage
        if self.progress:
            self.progress.use(usage)

    async def add_failure(self, failed: AttemptFailed) -> None:
        """Count what a failed request has used, and store it. Raises BudgetSpentError if another cannot follow."""
        if failed.usage:
            self.count(failed.usage)
        with contextlib.suppress(LogError):  # the reply is worth more; if the log stays broken, it cannot be stored
            await self.write(failed)
        if self.progress and failed.delay is not None:  # else the request is not repeated, and its error counts
            self.progress.check_budget()
