"""The requests of a session with the tokens and the cost of each, read without their messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from outrider.conversation.usage import Usage
from outrider.log.entries import AttemptFailed, CompactionEntry, MessageEntry, Record, TitleEntry
from outrider.log.rows import Row

N = TypeVar("N", int, float)
USED_KINDS = (MessageEntry.kind, AttemptFailed.kind, CompactionEntry.kind, TitleEntry.kind)


class RequestUsage(msgspec.Struct, frozen=True):
    """One request to a model: a reply, an attempt that failed, a summary, or a title."""

    seq: int
    time: float
    kind: str
    """The kind of its entry: `message`, `attempt_failed`, `compacted` or `titled`."""
    model: str
    usage: Usage
    first_token: float | None = None
    """Seconds until the first delta, where it was measured."""
    tokens_after: int = 0
    """After a compaction, the estimated tokens of the next request."""


class _Part(msgspec.Struct, frozen=True):
    """The fields of an entry that count. The decoder skips all others."""

    usage: Usage | None = None
    model: str = ""
    first_token: float | None = None
    tokens_after: int = 0


_decode = msgspec.json.Decoder(_Part).decode
MOST = 10**12
"""Tokens, dollars and seconds of a request that count at most: an imported entry may name any number."""


def used_in(rows: Iterable[Row]) -> Iterator[RequestUsage]:
    """Iterate over the requests in rows of these kinds. Entries that cannot be decoded are left out."""
    for _, seq, time, kind, body, _ in rows:
        try:
            part = _decode(body)
        except (msgspec.MsgspecError, TypeError):
            continue
        if part.usage is not None:
            first_token = None if part.first_token is None else _bounded(part.first_token)
            yield RequestUsage(
                seq, time, kind, part.model, _plausible(part.usage), first_token, _bounded(part.tokens_after)
            )


def _plausible(usage: Usage) -> Usage:
    """Return a usage whose sums a database can keep."""
    given: dict[str, Any] = msgspec.structs.asdict(usage)
    changed = {name: _bounded(number) for name, number in given.items() if number is not None and abs(number) > MOST}
    return msgspec.structs.replace(usage, **changed) if changed else usage


def _bounded(number: N) -> N:
    return number if abs(number) <= MOST else type(number)(MOST if number > 0 else -MOST)


def context_used(newest: Sequence[Record]) -> int | None:
    """Return the tokens of the context after the newest reply or compaction."""
    for record in reversed(newest):
        match record.entry:
            case CompactionEntry(tokens_after=tokens):
                return tokens
            case MessageEntry(usage=usage) if usage and usage.input_tokens and usage.context:
                return usage.context
    return None
