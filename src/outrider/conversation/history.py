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
from functools import cached_property
from typing import NamedTuple, overload

from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.repairs import UNANSWERED as UNANSWERED
from outrider.conversation.repairs import unanswered as unanswered
from outrider.conversation.repairs import violations as violations
from outrider.conversation.user_messages import messages_before
from outrider.conversation.view import View, cleared


class LazyMessages(Sequence[Message]):
    """Messages whose beginning is read on first use. Indexes from the end, such as -1, do not need it."""

    def __init__(self, earlier: Callable[[], Iterable[Message]], tail: Sequence[Message]) -> None:
        self._earlier = earlier
        self._tail = list(tail)

    @cached_property
    def _all(self) -> list[Message]:
        return [*self._earlier(), *self._tail]

    def __bool__(self) -> bool:
        return True  # there are earlier messages, and it takes time to count them

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        first = index.start if isinstance(index, slice) and index.stop is None else index
        if isinstance(first, int) and -len(self._tail) <= first < 0:
            return self._tail[index]
        return self._all[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._all)

    def __reversed__(self) -> Iterator[Message]:
        yield from reversed(self._tail)
        yield from self._all[-len(self._tail) - 1 :: -1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<messages of a long conversation, the newest: {self._tail[-1:]!r}>"


def as_list(messages: Sequence[Message]) -> list[Message]:
    """Return the messages as a list: of lazy messages always the same one."""
    return messages._all if isinstance(messages, LazyMessages) else list(messages)


class Shortening(NamedTuple):
    """What is sent after a compaction or a clearing. A rewind to before it leaves it out."""

    at: int = 0
    """The number of messages before it."""
    summary: Message | None = None
    """The message that is sent instead of the compacted ones."""
    start: int = 0
    """The index of the first message that is sent. Negative if it is not loaded."""
    cleared: int = 0
    """The index of the first message whose results are sent whole. Negative if it is not loaded."""


def repair(messages: Iterable[Message]) -> list[Message]:
    """Return the messages in the form that every provider accepts. Pure and idempotent."""
    return list(History(messages).sendable())


class History:
    """Append-only messages with their sendable form, which is made on first use and then grows.

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
        self._messages = list(messages)
        self._shortenings: list[Shortening] = []
        self._reserved: set[str] = set()
        """The ids of calls that a rewind left out. They stay in use: a key must not name two calls."""
        self._view: View | None = None
        self._viewed = 0
        """The number of messages that the view has."""

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
        return self._messages.copy() if self._earlier is None else LazyMessages(self._earlier, self._messages)

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
        return self._now.summary

    @property
    def start(self) -> int:
        """The index of the first message that is sent after the summary. Negative if it is not loaded."""
        return self._now.start

    @property
    def is_abridged(self) -> bool:
        """Whether a compaction or a clearing shortened what is sent."""
        return self.summary is not None or self._now.cleared != 0

    @property
    def pending(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the newest reply without a result. None if the user has said more than results since."""
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
        return self._current_view().normalized(message, knows_all_ids=self.is_loaded)

    def append(self, message: Message) -> None:
        """Add a message. The sendable form only grows, except for an open user message at its end."""
        self._messages.append(message)

    def sendable(self) -> Sequence[Message]:
        """Return the messages to send. Later messages do not change the returned sequence."""
        if not self.is_ready:
            self.load()
        return self._current_view().sendable()

    @property
    def call_ids(self) -> set[str]:
        """The ids of the calls in the loaded messages."""
        return call_ids(self._messages)

    def follow(self, earlier: Callable[[], Iterable[Message]]) -> None:
        """Say that these messages are the tail of a conversation, and how to load what is before them."""
        self._earlier = earlier

    def before(self, index: int) -> History:
        """Return the conversation as it was before a message of the user. The ids of the calls since stay in use."""
        former = History(messages_before(self._messages, index))
        former._shortenings = [each for each in self._shortenings if each.at <= index]
        former._reserved = self._reserved | call_ids(self._messages[index:])
        return former

    def reserve(self, ids: Iterable[str]) -> None:
        """Treat call ids as used: those of messages that were left out by a rewind."""
        self._reserved.update(ids)
        if self._view:
            self._view.reserve(ids)

    # Compaction

    def compact(self, summary: Message, kept: int) -> None:
        """Send the summary and the last `kept` messages from now on, with what follows. `messages` stays whole."""
        if kept > len(self._messages):
            self.load()
        self._shorten(summary, len(self._messages) - kept, self._now.cleared)

    def clear_results(self, kept: int) -> None:
        """Send one line for each long result from now on, except in the last `kept` messages and what follows."""
        before, now = len(self._messages) - kept, self._now
        self._shorten(now.summary, now.start, max(now.cleared, before) if now.cleared else before)

    def _shorten(self, summary: Message | None, start: int, cleared: int) -> None:
        self._shortenings.append(Shortening(len(self._messages), summary, start, cleared))
        self._view = None

    @property
    def _now(self) -> Shortening:
        return self._shortenings[-1] if self._shortenings else WHOLE

    def newest_first(self) -> Iterator[Message]:
        """Iterate over the loaded messages, the newest first."""
        return reversed(self._messages)

    def shown(self) -> list[Message]:
        """Return what the sendable form is made of, in order: the summary, and the messages with results cleared."""
        if not self.is_ready:
            self.load()
        return list(self._shown())

    def _shown(self) -> Iterable[Message]:
        _, summary, start, whole_from = self._now
        if summary is not None:
            yield summary
        for index in range(max(0, start), len(self._messages)):
            message = self._messages[index]
            yield cleared(message) if index < whole_from else message

    def _current_view(self) -> View:
        """Return the view, with the messages that were added since it was last used."""
        view = self._view
        if view is not None and self._viewed == len(self._messages):
            return view
        if view is None:
            view = self._view = View()
            for message in self._shown():
                view.append(message)
            view.reserve(self._reserved)
            view.reserve(call_ids(self._messages[: max(0, self._now.start)]))
        else:
            for index in range(self._viewed, len(self._messages)):
                view.append(self._messages[index])
        self._viewed = len(self._messages)
        return view

    # Loading

    @property
    def is_loaded(self) -> bool:
        """Whether all messages are loaded, and not only the tail of a long conversation."""
        return self._earlier is None

    @property
    def is_ready(self) -> bool:
        """Whether all messages that are sent are loaded."""
        return self._earlier is None or self.summary is not None

    def load(self) -> None:
        """Load the earlier messages, which may take a moment."""
        if not self.is_loaded:
            tail = self.tail
            self.replace_with(self.loaded(tail), len(tail))

    def loaded(self, tail: Sequence[Message]) -> History:
        """Return a new history of the earlier messages and this tail. Thread-safe: it does not change this one."""
        earlier = list(self._earlier() if self._earlier else ())
        count = len(earlier)
        whole = History([*earlier, *tail])
        whole._shortenings = [
            Shortening(at + count, summary, start + count if summary else 0, max(0, cut + count) if cut else 0)
            for at, summary, start, cut in self._shortenings
        ]
        whole._reserved = self._reserved
        whole._current_view()
        return whole

    def replace_with(self, loaded: History, count: int) -> None:
        """Take over the state of a loaded history that was built from the first `count` messages of the tail."""
        if not self.is_loaded:
            for message in self._messages[count:]:
                loaded.append(message)
            if self.summary is not None:
                # What is sent is the same, so the objects stay, and with them the bytes that adapters have rendered.
                view = self._current_view()
                view.reserve(loaded._current_view().ids)
                loaded._view = view
            self.__dict__.update(loaded.__dict__)


def call_ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of the calls in these messages."""
    return {call.id for message in messages if message.role == "assistant" for call in message.tool_calls}


WHOLE = Shortening()
