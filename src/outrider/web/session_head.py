"""The head of one session: what it is, how full its context is, and the tree of its sub-agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outrider.conversation.messages import Usage
from outrider.errors import LogError
from outrider.log.entries import (
    AttemptFailed,
    CallResult,
    Intent,
    MessageEntry,
    Record,
    RewindEntry,
    RunCancelled,
)
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.log.used import context_used
from outrider.providers.windows import window_of_name
from outrider.web.entries import usage_fields
from outrider.web.listing import summary_fields

Json = dict[str, Any]
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
            case CallResult() | RunCancelled() | AttemptFailed() | RewindEntry():
                return False
    return False
