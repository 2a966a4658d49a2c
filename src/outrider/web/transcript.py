"""Pages of a session's entries. A session may have any number of them, so never all are read."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.errors import LogError
from outrider.log.log import Log
from outrider.web.entries import MAX_WHOLE, EntryView

Json = dict[str, Any]
PAGE = 80
"""Entries on one page."""


class PageQuery(msgspec.Struct, frozen=True):
    """Which entries: those before or after one, those around one, or the newest."""

    before: int | None = None
    after: int | None = None
    around: int | None = None


def entries_page(log: Log, id: str, query: PageQuery) -> Json:
    """Return a page of entries, oldest first, and whether there are others before and after it."""
    summary = log.session(id)
    if query.after is not None:
        records = log.after(summary.id, query.after, PAGE)
    elif query.around is not None:
        start = max(query.around - PAGE // 2, 1) - 1
        records = log.after(summary.id, start, PAGE)
    else:
        records = log.before(summary.id, summary.last + 1 if query.before is None else query.before, PAGE)
    first = records[0].seq if records else 1
    last = records[-1].seq if records else query.after or 0
    return {
        "entries": EntryView(summary.folder).entries(records),
        "first": first,
        "last": last,
        "earlier": first > 1,
        "later": last < summary.last,
    }


def whole_entry(log: Log, id: str, seq: int) -> Json:
    """Return one entry with its whole text."""
    summary = log.session(id)
    records = log.after(summary.id, seq - 1, 1)
    if not records or records[0].seq != seq:
        raise LogError(f"the session has no entry {seq}")
    return EntryView(summary.folder, MAX_WHOLE).entry(records[0]) or {}
