"""Which requests of a session paid again for tokens that the provider had cached, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET

from outrider.conversation.usage import Usage, rounded_cost
from outrider.log.entries import (
    CompactionEntry,
    Entry,
    MessageEntry,
    Record,
    Requested,
    ResultsClearedEntry,
    RewindEntry,
)
from outrider.text import ago, counted, dollars, thousands

Cause: TypeAlias = Literal[
    "model", "tools", "system", "settings", "compaction", "cleared results", "rewind", "time", "provider"
]
"""What ended the cached part: a part of the request that changed, the time since the one before, or the provider."""
KINDS = (MessageEntry.kind, Requested.kind, CompactionEntry.kind, ResultsClearedEntry.kind, RewindEntry.kind)
LEAST_TOKENS = 1024
"""Tokens that count as a loss: providers cache no shorter prompts, and count in blocks."""
KEPT_SECONDS = 300.0
"""Seconds without a request after which providers may forget a prompt."""


class CacheLoss(msgspec.Struct, frozen=True):
    """A request that paid in full for tokens that were cached before."""

    turn: int
    """The reply of the request, counted from 1."""
    seq: int
    """Its entry."""
    cause: Cause
    detail: str
    """What changed, in a few words."""
    tokens: int
    """The tokens that the request before read from the cache or wrote to it, and this one paid in full."""
    cost: float | None = None
    """US dollars that this cost more than reading them from the cache; None if the price is unknown."""

    def __str__(self) -> str:
        more = f" (+{dollars(self.cost)})" if self.cost else ""
        return f"{thousands(self.tokens)} cached tokens were paid again{more}: {self.detail}"


def cache_losses(records: Iterable[Record]) -> list[CacheLoss]:
    """Return the requests of a session that lost their cache, in order. Other entries than `KINDS` do not matter."""
    return list(_losses(records))


def _losses(records: Iterable[Record]) -> Iterator[CacheLoss]:
    before: tuple[float, MessageEntry] | None = None
    known, changes, turn = Requested(), _Changes(), 0
    for record in records:
        entry = record.entry
        if isinstance(entry, MessageEntry) and has_usage(entry):
            turn, usage = turn + 1, entry.usage or Usage()
            if before and (lost := lost_tokens(before[1].usage or Usage(), usage)):
                cause, detail = changes.cause(before[1].model, entry.model, record.time - before[0])
                yield CacheLoss(turn, record.seq, cause, detail, lost, _cost(entry.model, usage, lost))
            before, changes = (record.time, entry), _Changes()
        elif isinstance(entry, Requested):
            changes.note_parts(known, entry)
            known = known.merged(entry)
        else:
            changes.note_history(entry)


def has_usage(entry: Entry) -> bool:
    """Return whether it is a reply whose tokens are known."""
    return isinstance(entry, MessageEntry) and bool(entry.usage) and entry.message.role == "assistant"


def lost_tokens(before: Usage, now: Usage) -> int:
    """Return the tokens that were cached with the request before, and that this one paid in full.

    >>> lost_tokens(Usage(9_000, cached_tokens=6_000, cache_write_tokens=3_000), Usage(9_500, cached_tokens=9_000))
    0
    >>> lost_tokens(Usage(9_000, cached_tokens=6_000, cache_write_tokens=3_000), Usage(9_500))
    9000
    """
    lost = before.cached_tokens + before.cache_write_tokens - now.cached_tokens
    paid = now.input_tokens - now.cached_tokens
    return least if (least := min(lost, paid)) >= LEAST_TOKENS else 0


class _Changes:
    """What changed between two requests. The part that comes first in a request ends what is cached."""

    def __init__(self) -> None:
        self._parts: dict[Cause, str] = {}

    def note_parts(self, known: Requested, new: Requested) -> None:
        """Note what a request has beside its messages that the one before had not."""
        if new.tools is not UNSET or new.server_tools is not UNSET:
            self._parts["tools"] = f"the tools changed{_names(known, new)}"
        if new.system is not UNSET:
            self._parts["system"] = "the system prompt changed"
        if new.settings is not UNSET or new.output_schema is not UNSET:
            self._parts["settings"] = "the settings changed"

    def note_history(self, entry: Entry) -> None:
        """Note what changed the messages that are sent."""
        match entry:
            case CompactionEntry(kept=kept):
                left = counted(kept, "message")
                self._parts["compaction"] = f"the conversation was compacted: a summary and the newest {left} are sent"
            case ResultsClearedEntry(count=count, kept=kept):
                left = counted(kept, "message")
                self._parts["cleared results"] = f"{counted(count, 'old result')} before the newest {left} cleared"
            case RewindEntry(to=to, conversation=True):
                self._parts["rewind"] = f"the conversation went back to message {to} of the user"

    def cause(self, model: str, now: str, seconds: float) -> tuple[Cause, str]:
        """Return why the cache was lost."""
        if model and now and model != now:
            return "model", f"the model changed from {model} to {now}"
        order: tuple[Cause, ...] = ("tools", "system", "settings", "compaction", "cleared results", "rewind")
        for cause in order:
            if detail := self._parts.get(cause):
                return cause, detail
        if seconds >= KEPT_SECONDS:
            return "time", f"the request before was {ago(seconds).removesuffix(' ago')} earlier"
        return "provider", "nothing changed; the provider no longer had it"


def _names(known: Requested, new: Requested) -> str:
    """Return which tools changed, where both lists are known."""
    if isinstance(known.tools, msgspec.UnsetType) or isinstance(new.tools, msgspec.UnsetType):
        return ""
    one, other = ({tool.name: tool for tool in each} for each in (known.tools, new.tools))
    marked = [f"+{name}" for name in other if name not in one] + [f"-{name}" for name in one if name not in other]
    marked += [name for name in other if name in one and one[name] != other[name]]
    shown = ", ".join(marked[:5]) + (f" and {len(marked) - 5} more" if len(marked) > 5 else "")
    return f": {shown}" if shown else ": their order" if [*one] != [*other] else ""


def _cost(model: str, usage: Usage, tokens: int) -> float | None:
    """Return what tokens cost more than from the cache."""
    from outrider.providers.catalogue.prices import rates_of

    vendor, _, name = model.partition("/")
    for rates in rates_of(vendor, name):
        if usage.input_tokens > rates.above:
            paid = rates.written if usage.cache_write_tokens else rates.fresh
            return rounded_cost(max(0.0, tokens * (paid - rates.cached)))
    return None
