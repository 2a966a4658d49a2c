"""How full the context window of a stored session is, and how often the session was shortened."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.cli.session_format import format_shortening, format_time
from outrider.log.entries import CompactionEntry, ResultsClearedEntry
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.log.used import context_used
from outrider.providers.windows import window_of_name
from outrider.text import counted, thousands

SHORTENINGS = 5
"""How many of the newest compactions are listed."""


def context_lines(log: Log, summary: Summary) -> Iterator[str]:
    """Yield the tokens of the last request and the compactions of a session, for its header."""
    if (used := context_used(log.newest(summary.id))) is not None:
        window = window_of_name(summary.model)
        share = f" of {thousands(window)} tokens ({used / window:.0%})" if window else " tokens"
        yield f"  context   {thousands(used)}{share}"
    records = log.shortenings(summary.id)
    if len(records) > SHORTENINGS:
        yield f"  shortened {counted(len(records), 'time')}; the last {SHORTENINGS}:"
    for record in records[-SHORTENINGS:]:
        if isinstance(record.entry, CompactionEntry | ResultsClearedEntry):
            name, text = format_shortening(record.entry)
            yield f"  {name:<9} {text}, {format_time(record.time)}, entry {record.seq}"
