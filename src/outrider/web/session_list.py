"""The list of sessions, what a search finds, and the head of one session, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from outrider.coding.session_lists import MAX_PASSAGES, SessionList
from outrider.conversation.messages import Usage
from outrider.conversation.passages import Found
from outrider.errors import LogError
from outrider.log.entries import (
    AttemptFailed,
    CallResult,
    Intent,
    MessageEntry,
    Record,
    RewindEntry,
    RunCancelled,
    RunStopped,
)
from outrider.log.log import Log
from outrider.log.request_usage import context_used
from outrider.log.session_filter import SessionFilter
from outrider.log.summary import Summary
from outrider.providers.resolution import window_of_name
from outrider.text.visible import safe_lines
from outrider.web.entry_view import usage_fields

Json = dict[str, Any]
PAGE = 50
"""Sessions on one page of the list."""


class ListQuery(msgspec.Struct, frozen=True):
    """What the list should show."""

    search: str = ""
    folder: str = ""
    model: str = ""
    since: float | None = None
    until: float | None = None
    min_cost: float | None = None
    offset: int = 0
    every: bool = False
    """Whether sessions of -p, batches and programs, and those without an answer, are listed, too."""

    @property
    def filter(self) -> SessionFilter:
        """The filter of the sessions."""
        return SessionFilter(self.folder, self.model, self.since, self.until, self.min_cost)


def list_sessions(listed: SessionList, query: ListQuery) -> Json:
    """Return a page of sessions; with words to search, those that have them in their title or in what was said."""
    if query.search.strip():
        return _search(listed, query)
    offset = max(query.offset, 0)
    found = listed.page(PAGE + 1, every=query.every, offset=offset, where=query.filter)
    return {
        "sessions": [summary_fields(each) for each in found[:PAGE]],
        "more": len(found) > PAGE,
        "folders": listed.folders,
    }


def _search(listed: SessionList, query: ListQuery) -> Json:
    found = listed.found(query.search, every=query.every, where=query.filter)
    sessions = [summary_fields(each.summary) | {"found": _passages(each.passages)} for each in found]
    count = sum(len(each.passages) for each in found)
    return {"sessions": sessions, "more": False, "full": count >= MAX_PASSAGES}


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
        "origin": safe_lines(summary.origin),
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


RECENT = 100
"""The newest entries, which tell whether a session works and how full its context is."""
MAX_TREE = 500
"""Sessions of sub-agents that the tree shows."""


def session_head(log: Log, id: str) -> Json:
    """Return the summary of a session with its ancestors, its sub-agents and the state of its context."""
    summary = log.session(id)
    settings = log.claimed_settings(summary.id)
    left = [MAX_TREE]
    children, usage = _tree(log, summary, left)
    newest = log.newest(summary.id, RECENT)
    fields = summary_fields(summary)
    return fields | {
        "working": fields["open"] and is_working(newest),
        "listening": fields["open"] and log.inbox.is_listening(summary.id),
        "effort": settings.effort or "",
        "tools": list(settings.tools or ()),
        "context": {"used": context_used(newest), "window": window_of_name(summary.model)},
        "shortened": len(log.shortenings(summary.id)),
        "children": children,
        "total": usage_fields(usage),
        "ancestors": _ancestors(log, summary),
    }


def _tree(log: Log, summary: Summary, left: list[int]) -> tuple[list[Json], Usage]:
    """Return the sub-agents of a session, at most as many as are left, and the usage of all of them and itself."""
    branches, usage = [], summary.usage
    for child in log.children(summary.id):
        if left[0] <= 0:
            break
        left[0] -= 1
        below, used = _tree(log, child, left)
        usage += used
        branches.append(summary_fields(child) | {"children": below})
    return branches, usage


def _ancestors(log: Log, summary: Summary) -> list[Json]:
    found: list[Json] = []
    while summary.parent and len(found) < 20:
        try:
            summary = log.session(summary.parent)
        except LogError:  # it was deleted
            break
        found.insert(0, {"id": summary.id, "title": summary_fields(summary)["title"]})
    return found


def is_working(newest: Sequence[Record]) -> bool:
    """Return whether these entries end within a turn, as those of a session that is open and works do."""
    for record in reversed(newest):
        match record.entry:
            case MessageEntry(message=message):
                return message.role == "user" or message.has_tool_calls
            case Intent() | CallResult(final=False) | AttemptFailed(delay=float()):
                return True
            case CallResult() | RunCancelled() | RunStopped() | AttemptFailed() | RewindEntry():
                return False
    return False
