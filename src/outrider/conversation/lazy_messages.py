"""The messages of a long conversation, read when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

from outrider.conversation.messages import Message


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
