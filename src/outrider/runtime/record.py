"""The record of a session: entries go to its journal, then into its state, then to its observers as events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from outrider.conversation.codec import MessageLike, read_conversation, refuse_stray_results, stored_messages
from outrider.conversation.history import History, unanswered
from outrider.conversation.messages import Block, Message, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.errors import ConversationError, LogError
from outrider.log.background import told
from outrider.log.entries import (
    AttemptFailed,
    BackgroundTask,
    CallResult,
    Entry,
    Intent,
    MessageEntry,
    SessionSettings,
    SteeringDelivered,
)
from outrider.log.state import SessionState
from outrider.prompts import prompt as prompt_text
from outrider.runtime.entry_events import events_of
from outrider.runtime.events import Event, ReplyDiscarded
from outrider.runtime.steering import Steering
from outrider.text import clean
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.conversation.store import AttachmentStore
    from outrider.log.pending_write import PendingWrite
    from outrider.runtime.journal import Journal

KEPT_TASKS = 16
"""The sub-agents in the background that have ended and to which the model can still talk after a restart."""


class SessionRecord:
    """The state of a session with its journal. An entry is kept before it is in the state, and there before it is seen.

    This is the only place that applies entries while a session runs.
    """

    def __init__(
        self,
        messages: Iterable[MessageLike],
        journal: Journal,
        threads: Threads,
        emit: Callable[[Event], None],
        cwd: Path | None = None,
    ) -> None:
        """Files of the messages are stored; relative paths are in `cwd`."""
        given = stored_messages(read_conversation(messages), journal.store, cwd)
        refuse_stray_results(given)
        self.state = SessionState(map(MessageEntry, given))
        self.journal = journal
        self.emit = emit
        self.steering = Steering(self)
        self.tasks: dict[str, BackgroundTask] = {}
        """The sub-agents in the background: those of the state, with what is being written."""
        self.unsaved: dict[str, CallResult] = {}
        """Results that could not be stored, by call id: their calls do not run again in this process."""
        self.unstored_usage = Usage()
        """What replies have used that could not be stored."""
        self.amend: Callable[[Sequence[Entry]], Sequence[Entry]] | None = None
        """Returns what is kept in the place of entries: a replay takes from its log what it cannot do again."""
        self._threads = threads

    def sends(self, text: str) -> bool:
        """Return whether a result has a text, in the conversation as it is sent."""
        return any(text in result.text for message in self.history.sendable() for result in message.tool_results)

    # Writing

    def write(self, *entries: Entry, beside: Sequence[Entry] = ()) -> PendingWrite:
        """Keep entries, all or none; once they are kept, apply them and tell the observers.

        Those `beside` them are kept in the same commit: they repeat what the state has.
        """
        if self.amend:
            entries = tuple(self.amend(entries))
            if not entries and not beside:
                from outrider.runtime.journal import KEPT

                return KEPT
        if BackgroundTask in map(type, entries):
            changed = {each.session: each for each in entries if type(each) is BackgroundTask}
            self.tasks |= changed
            beside = [each for each in beside if type(each) is not BackgroundTask or each.session not in changed]
        write = self.journal.write(*entries, *beside)
        if not write.done:
            write.then(partial(self._written, write, entries, len(beside)))
        elif write.error is None:  # as without a log
            self._apply(entries)
        return write

    async def append(self, *entries: Entry, beside: Sequence[Entry] = ()) -> None:
        """Write entries, and return when they are kept. Raises LogError."""
        write = self.write(*entries, beside=beside)
        if not write.done or write.error:  # without a log it is done at once
            await write.finished()

    def write_now(self, *entries: Entry) -> None:
        """Write entries without an event loop. Blocks. Raises LogError."""
        self._apply(entries, self.journal.write_now(*entries))

    def _written(self, write: PendingWrite, entries: Sequence[Entry], beside: int) -> None:
        if write.error is None:
            self._apply(entries, write.appended.last - beside if write.appended else 0)

    def _apply(self, entries: Sequence[Entry], last: int = 0) -> None:
        """Apply entries; `last` is the seq of the last one in the log."""
        state, seq = self.state, last - len(entries) if last else 0
        for entry in entries:
            seq += bool(last)
            if state.apply(entry, seq) and type(entry) is not Intent:  # a call shows its start itself, in its own task
                for event in events_of(entry, state):
                    self.emit(event)

    # The session

    @property
    def id(self) -> str:
        return self.journal.id

    @property
    def store(self) -> AttachmentStore:
        """The store that holds the files of the conversation."""
        return self.journal.store

    @property
    def history(self) -> History:
        """The conversation with its sendable form."""
        return self.state.history

    def attach(self, journal: Journal, *, whole: bool = False) -> None:
        """Take this journal with the state that it kept."""
        self.journal = journal
        self.state = journal.resume(whole=whole)
        self.tasks = dict(self.state.background)

    def resume(self) -> None:
        """Take the conversation from the journal again: a rewind has changed it."""
        used = self.state.usage
        self.state = self.journal.resume(at_work=[each.session for each in self.state.working])
        self.state.usage = used

    def restated(self) -> list[Entry]:
        """Return what to store with each reply: replay may begin there, and needs the queue and the sub-agents."""
        if not self.tasks:
            return [*self.steering.restated()]
        settled = [each for each in self.tasks.values() if each.status and not each.report]
        open_ones = [each for each in self.tasks.values() if not each.status or each.report]
        return [*self.steering.restated(), *settled[-KEPT_TASKS:], *open_ones]

    def change_settings(self, settings: SessionSettings) -> None:
        """Store the settings that differ from those so far. Blocks. Raises LogError."""
        if changed := self.state.settings.changes(settings):
            self.write_now(changed)

    def rename(self, title: str) -> None:
        """Store a title. Blocks. Raises LogError."""
        title = " ".join(clean(title).split())
        if not title:
            raise LogError("a title must not be empty")
        self.write_now(SessionSettings(title=title))

    def close(self) -> None:
        """Release the session, so that others can open it."""
        with contextlib.suppress(LogError):  # the lock expires anyway
            self.journal.close()

    async def aclose(self) -> None:
        """Release the session without blocking the loop."""
        with contextlib.suppress(LogError):
            await self.journal.aclose()

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

    @property
    def is_unfinished(self) -> bool:
        """Whether there are calls to run, results or queued messages to answer, or a goal to reach."""
        last = self.history.last
        if self.state.queued or self.state.reports or (last is not None and self.state.settings.goal):
            return True
        return last is not None and self.state.final is None and (last.role == "user" or bool(self.history.pending))

    def check_answerable(self) -> None:
        """Raise ConversationError unless the model has something to answer."""
        if waiting := self.history.pending:
            names = ", ".join(call.name for call in waiting)
            raise ConversationError(
                f"calls wait for results ({names}); let run() run them (act() in a Session), or pass tool_results"
            )
        self.check_begun()
        if self.history.last and self.history.last.role == "assistant":
            raise answered()

    def check_begun(self) -> None:
        """Raise ConversationError if the conversation is empty."""
        if self.history.last is None:
            raise ConversationError("there is nothing to answer: the conversation is empty and no prompt was given")

    # Adding to the conversation

    async def add(
        self, said: Sequence[Message], results: Mapping[str, ToolResultBlock], first: Sequence[Entry] = ()
    ) -> None:
        """Add results, then queued messages, then what is said. A call without a result gets an error result.

        `first` are other entries of the same commit. Raises ConversationError for messages that cannot follow.
        """
        if said and self.history.last is None and not self.state.queued and not self.steering.moving:
            await self._begin(said, first)
            said, first = (), ()
        elif any(message.role != "user" for message in said):
            raise ConversationError(
                "this session has messages, so only messages of the user can follow; to continue another conversation, "
                "begin a new session: agent.session(messages)"
            )
        elif any(message.tool_results for message in said):
            results = {**results, **{each.tool_use_id: each for message in said for each in message.tool_results}}
            said = [each for each in map(_without_results, said) if each.content]
        pending = [call.id for call in self.history.pending]
        if not results and not said:
            if not pending:
                await self.deliver(first=first)
            elif first:
                await self.append(*first)
            return
        unknown = [call_id for call_id in results if call_id not in pending]
        if unknown:
            waiting = ", ".join(pending) or "none"
            raise ConversationError(f"no call waits for a result with the id {unknown[0]!r}; waiting: {waiting}")
        known = {call_id: answer.result for call_id, answer in (self.state.answers | self.unsaved).items()}
        answers = (results.get(call_id) or known.get(call_id) or unanswered(call_id) for call_id in pending)
        await self.deliver(tuple(answers), said, first)

    async def _begin(self, said: Sequence[Message], first: Sequence[Entry]) -> None:
        """Begin the conversation with these messages. Those up to the newest reply are not part of the run."""
        refuse_stray_results(said)
        replied = max((place for place, each in enumerate(said, 1) if each.role == "assistant"), default=0)
        entries = [*map(MessageEntry, said[:replied]), *first, *map(MessageEntry, said[replied:])]
        await self.append(*entries, beside=self.restated())

    async def deliver(
        self, results: Sequence[Block] = (), said: Sequence[Message] = (), first: Sequence[Entry] = ()
    ) -> None:
        """Add reports and queued messages in one commit, between results and what is said now. Results and what is said
        first become one message if there are none."""
        await self.steering.settled()
        with self.steering.leaving() as queued:
            entries: list[Entry] = [*first]
            reports = self.state.reports
            if queued or reports or not said:
                entries += [MessageEntry(Message.user(*results))] if results else []
                for task in reports:
                    entries += [told(task), MessageEntry(Message.user(task.report))]
                for each in queued:
                    entries += [SteeringDelivered(each.id), MessageEntry(each.message)]
            elif results:
                said = [Message.user(*results, *said[0].content), *said[1:]]
            entries += map(MessageEntry, said)
            if entries:
                await self.append(*entries, beside=self.restated())

    async def keep_partial_reply(self, words: str, usage: Usage | None, model: str) -> None:
        """Keep the text of an interrupted reply, marked as interrupted; partial calls and thinking are dropped.

        `usage` is what it has used, of this model.
        """
        with contextlib.suppress(LogError):  # the text is lost, the cancel goes on
            if words.strip():
                reply = MessageEntry(Message.assistant(words), usage, model=model if usage else "")
                await self.append(reply, MessageEntry(Message.user(prompt_text("interrupted"))))
            elif usage:
                self.emit(ReplyDiscarded("cancelled", usage))
                await self.append(AttemptFailed("cancelled", 1, None, usage, model))


def answered() -> ConversationError:
    """Return the error for a request that would have nothing to answer."""
    return ConversationError('the conversation ends with the model\'s answer; add a prompt: [*conversation, "…"]')


def _without_results(message: Message) -> Message:
    if not message.tool_results:
        return message
    return Message.user(*(block for block in message.content if not isinstance(block, ToolResultBlock)))
