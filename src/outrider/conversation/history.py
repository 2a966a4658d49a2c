"""An append-only conversation and its sendable form, which every provider accepts.

The sendable form satisfies these invariants for any input (`violations` lists those that do not hold):
- it begins with a user message, and user and assistant alternate;
- each tool call has a unique id and exactly one result, in the next message, results first, in call order;
- no message and no text is blank, no block is in a message of the wrong role, and all text can be encoded.

A call without a result gets an error result. Duplicate results and results without a call are left out. The history
itself keeps the messages as they were added. A compaction changes only the sendable form: a summary and the newest
messages are sent instead of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from outrider.conversation.late import LateMessages
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.repairs import UNANSWERED as UNANSWERED
from outrider.conversation.repairs import unanswered as unanswered
from outrider.conversation.repairs import violations as violations
from outrider.conversation.view import View, cleared


def repair(messages: Iterable[Message]) -> list[Message]:
    """Return the messages in the form that every provider accepts. Pure and idempotent."""
    return list(History(messages).sendable())


class History:
    """Append-only messages with their sendable form, which is updated incrementally.

    A long conversation may start with its tail only: `earlier` loads the rest on first use. If the conversation was
    compacted and the tail has all messages that are sent, a request does not need the rest.
    """

    def _repr_html_(self) -> str:
        """Return the conversation as a notebook shows it."""
        from outrider.conversation.html import conversation_html  # only notebooks need it

        return conversation_html(self.messages)

    def __init__(
        self, messages: Iterable[Message] = (), earlier: Callable[[], Iterable[Message]] | None = None
    ) -> None:
        self._earlier = earlier
        self._messages: list[Message] = []
        self._view = View()
        self._summary: Message | None = None
        self._start = 0
        """The index of the first message that is sent, among those that are loaded."""
        self._cleared = 0
        """The index of the first message whose results are sent whole. Negative if it is not loaded."""
        for message in messages:
            self.append(message)

    def __len__(self) -> int:
        self.load()
        return len(self._messages)

    def __bool__(self) -> bool:
        return bool(self._messages or self._earlier)

    @property
    def messages(self) -> list[Message]:
        """A copy of all messages as they were added."""
        self.load()
        return self._messages.copy()

    @property
    def late_messages(self) -> Sequence[Message]:
        """All messages so far, as they were added. Those that are not loaded are read when they are first needed."""
        return self._messages.copy() if self._earlier is None else LateMessages(self._earlier, self._messages)

    @property
    def tail(self) -> list[Message]:
        """A copy of the loaded messages: all of them, or the tail of a long conversation."""
        return self._messages.copy()

    @property
    def last(self) -> Message | None:
        """The newest message."""
        return self._messages[-1] if self._messages else None

    @property
    def summary(self) -> Message | None:
        """The message that is sent instead of the compacted messages, if there was a compaction."""
        return self._summary

    @property
    def is_abridged(self) -> bool:
        """Whether a compaction or a clearing shortened what is sent."""
        return self._summary is not None or self._cleared != 0

    @property
    def pending(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the newest assistant message that have no result yet.

        Empty if a user message with anything but results followed: the conversation has then moved on.
        """
        answered: set[str] = set()
        for message in reversed(self._messages):
            if message.role == "assistant":
                return tuple(call for call in message.tool_calls if call.id not in answered)
            if any(not isinstance(block, ToolResultBlock) for block in message.content):
                return ()
            answered.update(result.tool_use_id for result in message.tool_results)
        return ()

    def normalized(self, message: Message) -> Message:
        """Return a model's message ready to be added: without blank text, and with a unique id for each call."""
        if not self.is_ready:
            self.load()
        return self._view.normalized(message, knows_all_ids=self.is_loaded)

    def append(self, message: Message) -> None:
        """Add a message. The sendable form only grows, except for an open user message at its end."""
        self._messages.append(message)
        self._view.append(message)

    def sendable(self) -> Sequence[Message]:
        """Return the messages to send. Later messages do not change the returned sequence."""
        if not self.is_ready:
            self.load()
        return self._view.sendable()

    def reserve(self, ids: Iterable[str]) -> None:
        """Treat call ids as used: those of messages that were left out by a rewind."""
        self._view.reserve(ids)

    # Compaction

    def compact(self, summary: Message, kept: int) -> None:
        """Send the summary and the last `kept` messages from now on, with what follows. `messages` stays whole."""
        if kept > len(self._messages):
            self.load()
        self._summary, self._start = summary, max(0, len(self._messages) - kept)
        self._rebuild()

    def clear_results(self, kept: int) -> None:
        """Send one line for each long result from now on, except in the last `kept` messages and what follows."""
        before = len(self._messages) - kept
        self._cleared = before if not self._cleared else max(self._cleared, before)
        self._rebuild()

    def newest_first(self) -> Iterator[Message]:
        """Iterate over the loaded messages, the newest first."""
        return reversed(self._messages)

    def shown(self) -> list[Message]:
        """Return what the sendable form is made of, in order: the summary, and the messages with results cleared."""
        if not self.is_ready:
            self.load()
        return list(self._shown())

    def _shown(self) -> Iterable[Message]:
        if self._summary is not None:
            yield self._summary
        for index in range(self._start, len(self._messages)):
            message = self._messages[index]
            yield cleared(message) if index < self._cleared else message

    def _rebuild(self) -> None:
        former, self._view = self._view, View()
        for message in self._shown():
            self._view.append(message)
        self._view.reserve(former.ids)

    # Loading

    @property
    def is_loaded(self) -> bool:
        """Whether all messages are loaded, and not only the tail of a long conversation."""
        return self._earlier is None

    @property
    def is_ready(self) -> bool:
        """Whether all messages that are sent are loaded."""
        return self._earlier is None or self._summary is not None

    def load(self) -> None:
        """Load the earlier messages, which may take a moment."""
        if not self.is_loaded:
            tail = self.tail
            self.replace_with(self.loaded(tail), len(tail))

    def loaded(self, tail: Sequence[Message]) -> History:
        """Return a new history of the earlier messages and this tail. Thread-safe: it does not change this one."""
        earlier = list(self._earlier() if self._earlier else ())
        whole = History()
        whole._messages = [*earlier, *tail]
        whole._summary = self._summary
        whole._start = self._start + len(earlier) if self._summary else 0
        whole._cleared = max(0, self._cleared + len(earlier)) if self._cleared else 0
        whole._rebuild()
        if self._summary is not None:
            replies = (message for message in earlier if message.role == "assistant")
            whole._view.reserve(call.id for reply in replies for call in reply.tool_calls)
        return whole

    def replace_with(self, loaded: History, count: int) -> None:
        """Take over the state of a loaded history that was built from the first `count` messages of the tail."""
        if not self.is_loaded:
            for message in self._messages[count:]:
                loaded.append(message)
            if self._summary is not None:
                # What is sent is the same, so the objects stay, and with them the bytes that adapters have rendered.
                self._view.reserve(loaded._view.ids)
                loaded._view = self._view
            self.__dict__.update(loaded.__dict__)
