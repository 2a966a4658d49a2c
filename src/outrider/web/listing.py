"""The list of sessions and what a search finds, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from outrider.conversation.passages import Found
from outrider.log.log import Log
from outrider.log.session_filter import SessionFilter
from outrider.log.summary import Summary
from outrider.visible_text import safe_lines
from outrider.web.entries import usage_fields

Json = dict[str, Any]
PAGE = 50
"""Sessions on one page of the list."""
MAX_FOUND = 100
"""Passages that one search returns."""


class ListQuery(msgspec.Struct, frozen=True):
    """What the list should show."""

    search: str = ""
    folder: str = ""
    model: str = ""
    since: float | None = None
    until: float | None = None
    min_cost: float | None = None
    offset: int = 0

    @property
    def filter(self) -> SessionFilter:
        """The filter of the sessions."""
        return SessionFilter(self.folder, self.model, self.since, self.until, self.min_cost)


def list_sessions(log: Log, query: ListQuery) -> Json:
    """Return a page of sessions, newest first; with words to search, the sessions in which they were said."""
    if query.search.strip():
        return _search(log, query)
    offset = max(query.offset, 0)
    found = log.sessions(PAGE + 1, offset=offset, where=query.filter)
    return {"sessions": [summary_fields(each) for each in found[:PAGE]], "more": len(found) > PAGE}


def _search(log: Log, query: ListQuery) -> Json:
    found = log.search(query.search, limit=MAX_FOUND, where=query.filter)
    by_session: dict[str, list[Found]] = {}
    for each in found:
        by_session.setdefault(each.session, []).append(each)
    summaries = log.summaries(list(by_session))  # without those that were deleted just now
    sessions = [
        summary_fields(summaries[name]) | {"found": _passages(passages)}
        for name, passages in by_session.items()
        if name in summaries
    ]
    return {"sessions": sessions, "more": False, "full": len(found) == MAX_FOUND}


def _passages(found: Iterable[Found]) -> list[Json]:
    return [
        {
            "reference": each.reference,
            "kind": each.kind,
            "tool": safe_lines(each.tool),
            "time": each.time,
            "seq": each.seq,
            "snippet": safe_lines(each.snippet),
        }
        for each in found
    ]


def summary_fields(summary: Summary) -> Json:
    """Return a session as the list shows it."""
    holder = summary.holder
    is_open = holder is not None and holder.is_alive() is not False
    return {
        "id": summary.id,
        "title": safe_lines(summary.title),
        "model": safe_lines(summary.model),
        "folder": safe_lines(summary.folder),
        "created": summary.created,
        "updated": summary.updated,
        "turns": summary.turns,
        "usage": usage_fields(summary.usage),
        "size": summary.size,
        "last": summary.last,
        "parent": summary.parent,
        "open": is_open,
        "program": safe_lines(str(holder)) if is_open else "",
    }
