"""The whole past of a session, for reading: in its log, or in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from outrider.conversation.messages import Message
from outrider.conversation.passages import Found, Passage, only_call, passages_of, whole_text
from outrider.conversation.search_query import SearchQuery, best, fold
from outrider.conversation.store import AttachmentStore

if TYPE_CHECKING:
    from outrider.log.log import Log

Progress: TypeAlias = Callable[[int, int], None]
"""Called between the steps of a long search: entries done, and entries in all."""


class Past(Protocol):
    """What was said, called and returned in one session. Its methods may block and raise LogError."""

    def search(self, query: str, limit: int, without: str, progress: Progress) -> Sequence[Found]:
        """Return the passages that match, newest first, but not the calls and results of the tool `without`."""
        ...

    def read(self, reference: str, progress: Progress) -> Sequence[Message]:
        """Return message N by `#N`, or a call and its result by the call's id. Empty if there is none."""
        ...

    def references(self) -> Sequence[str]:
        """Return references that exist: that of the newest message, then others."""
        ...


class LoggedPast:
    """The past of a session in a log."""

    def __init__(self, log: Log, session: str) -> None:
        self._log = log
        self._session = session

    def search(self, query: str, limit: int, without: str, progress: Progress) -> Sequence[Found]:
        """Search in the log."""
        return self._log.search(query, self._session, limit=limit, without=without, progress=progress)

    def read(self, reference: str, progress: Progress) -> Sequence[Message]:
        """Read from the log."""
        return self._log.recall(self._session, reference, progress=progress)

    def references(self) -> Sequence[str]:
        """Return the newest references in the log."""
        return self._log.references(self._session)


class RememberedPast:
    """The past of a session in memory."""

    def __init__(self, session: str, messages: Callable[[], Sequence[Message]], store: AttachmentStore) -> None:
        self._session = session
        self._messages = messages
        self._store = store

    def search(self, query: str, limit: int, without: str, progress: Progress) -> Sequence[Found]:
        """Compare every passage."""
        wanted = SearchQuery(query)
        passages = [each for each in passages_of(self._messages()) if not each.tool or each.tool != without]
        folded = [fold(self._text(each)) for each in passages]
        matches = [{number for number, text in enumerate(folded) if word in text} for word in wanted.words]

        def is_whole(number: int) -> bool:
            return wanted.has_whole(folded[number])

        found = [passages[number] for number in best(matches, len(passages), limit, is_whole)]
        return [
            Found(self._session, each.reference, each.message, each.kind, each.tool, 0.0, wanted.snippet(text))
            for each, text in zip(found, map(self._text, found), strict=True)
        ]

    def _text(self, passage: Passage) -> str:
        return whole_text(self._store.read, passage.whole) or passage.text

    def read(self, reference: str, progress: Progress) -> Sequence[Message]:
        """Find the message or the call."""
        messages = self._messages()
        if reference.startswith("#"):
            number = int(reference[1:]) if reference[1:].isdecimal() and len(reference) < 12 else 0
            return messages[number - 1 : number] if number else ()
        return only_call(messages, reference)

    def references(self) -> Sequence[str]:
        """Return all references."""
        passages = list(passages_of(self._messages()))
        return list(dict.fromkeys([*(f"#{each.message}" for each in passages[-1:]), *(p.reference for p in passages)]))
