"""How full the context window of a stored session is, and how often the session was shortened."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.cli.session_format import format_shortening, format_time
from outrider.errors import OutriderError
from outrider.log.entries import CompactionEntry, MessageEntry, ResultsClearedEntry
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.text import counted, thousands

SHORTENINGS = 5
"""How many of the newest compactions are listed."""


def context_lines(log: Log, summary: Summary) -> Iterator[str]:
    """Yield the tokens of the last request and the compactions of a session, for its header."""
    if (used := _used(log, summary.id)) is not None:
        window = _window(summary.model)
        share = f" of {thousands(window)} tokens ({used / window:.0%})" if window else " tokens"
        yield f"  context   {thousands(used)}{share}"
    records = log.shortenings(summary.id)
    if len(records) > SHORTENINGS:
        yield f"  shortened {counted(len(records), 'time')}; the last {SHORTENINGS}:"
    for record in records[-SHORTENINGS:]:
        if isinstance(record.entry, CompactionEntry | ResultsClearedEntry):
            name, text = format_shortening(record.entry)
            yield f"  {name:<9} {text}, {format_time(record.time)}, entry {record.seq}"


def _used(log: Log, id: str) -> int | None:
    """Return the tokens of the context after the newest reply or compaction."""
    for record in reversed(log.newest(id)):
        match record.entry:
            case CompactionEntry(tokens_after=tokens):
                return tokens
            case MessageEntry(usage=usage) if usage and usage.input_tokens:
                return usage.total_tokens
    return None


def _window(model: str) -> int | None:
    from outrider.providers import resolve
    from outrider.providers.windows import window_of

    try:
        return window_of(resolve(model))
    except OutriderError:  # the model does not exist any more
        return None
