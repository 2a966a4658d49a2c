"""The list of sessions, what a search finds, and the head of one session, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from outrider.coding.session_lists import MAX_PASSAGES, SessionList
from outrider.conversation.passages import Found
from outrider.conversation.usage import Usage
from outrider.errors import LogError
from outrider.log import entries
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.log.usage_tables import context_used
from outrider.providers.resolution import window_of_name
from outrider.text.visible import safe_lines
from outrider.web.api_answers import (
    Ancestor,
    Branch,
    Check,
    ContextFill,
    Passage,
    SessionDetails,
    SessionPage,
    SessionSummary,
    Tokens,
)
from outrider.web.api_requests import ListQuery


def list_sessions(listed: SessionList, query: ListQuery) -> SessionPage:
    """Return a page of sessions; with words to search, those that have them in their title or in what was said."""
    if query.search.strip():
        return _search(listed, query)
    found = listed.page(query.limit + 1, every=not query.chats, offset=query.offset, where=query.filter)
    shown = [summary_of(each) for each in found[: query.limit]]
    return SessionPage(shown, len(found) > query.limit, listed.folders)


def _search(listed: SessionList, query: ListQuery) -> SessionPage:
    found = listed.found(query.search, every=not query.chats, where=query.filter)
    replace = msgspec.structs.replace
    sessions = [replace(summary_of(each.summary), found=_passages(each.passages)) for each in found]
    return SessionPage(sessions, more=False, full=sum(len(each.passages) for each in found) >= MAX_PASSAGES)


def _passages(found: Iterable[Found]) -> list[Passage]:
    return [
        Passage(each.reference, each.kind, safe_lines(each.tool), each.time, each.seq, safe_lines(each.snippet))
        for each in found
    ]


def summary_of(summary: Summary) -> SessionSummary:
    holder = summary.holder
    is_open = holder is not None and holder.is_alive() is not False
    return SessionSummary(
        id=summary.id,
        title=safe_lines(summary.title),
        model=safe_lines(summary.model),
        folder=safe_lines(summary.folder),
        origin=safe_lines(summary.origin),
        owner=summary.owner,
        metadata=dict(summary.metadata),
        created=summary.created,
        updated=summary.updated,
        turns=summary.turns,
        usage=Tokens.of(summary.usage),
        size=summary.size,
        last=summary.last,
        parent=summary.parent,
        open=is_open,
        program=safe_lines(str(holder)) if is_open else "",
    )


RECENT = 100
"""The newest entries, which tell whether a session works and how full its context is."""
MAX_TREE = 500
"""Sessions of sub-agents that the tree shows."""


def session_details(log: Log, summary: Summary) -> SessionDetails:
    """Return a session with its ancestors, its sub-agents and the state of its context."""
    settings = log.claimed_settings(summary.id)
    children, usage = _tree(log, summary, [MAX_TREE])
    newest = log.newest(summary.id, RECENT)
    shown = summary_of(summary)
    return SessionDetails(
        **msgspec.structs.asdict(shown),
        working=shown.open and is_working(newest),
        listening=shown.open and log.inbox.is_listening(summary.id),
        effort=settings.effort or "",
        goal=safe_lines(settings.goal or ""),
        check=_newest_check(newest, settings.goal or ""),
        tools=list(settings.tools or ()),
        context=ContextFill(context_used(newest), window_of_name(summary.model)),
        shortened=len(log.shortenings(summary.id)),
        children=children,
        total=Tokens.of(usage),
        ancestors=_ancestors(log, summary),
    )


def _newest_check(newest: Sequence[entries.Record], goal: str) -> Check | None:
    """Return how the newest check of the goal ended. One of another goal does not count."""
    for record in reversed(newest):
        if isinstance(checked := record.entry, entries.GoalChecked):
            return Check(checked.passed, safe_lines(checked.last_line)) if checked.command == goal else None
    return None


def _tree(log: Log, summary: Summary, left: list[int]) -> tuple[list[Branch], Usage]:
    """Return the sub-agents of a session, at most as many as are left, and the usage of all of them and itself."""
    branches, usage = [], summary.usage
    for child in log.children(summary.id):
        if left[0] <= 0:
            break
        left[0] -= 1
        below, used = _tree(log, child, left)
        usage += used
        branches.append(Branch(**msgspec.structs.asdict(summary_of(child)), children=below))
    return branches, usage


def _ancestors(log: Log, summary: Summary) -> list[Ancestor]:
    found: list[Ancestor] = []
    while summary.parent and len(found) < 20:
        try:
            summary = log.session(summary.parent)
        except LogError:  # it was deleted
            break
        found.insert(0, Ancestor(summary.id, safe_lines(summary.title)))
    return found


def is_working(newest: Sequence[entries.Record]) -> bool:
    """Return whether these entries end within a turn, as those of a session that is open and works do."""
    for record in reversed(newest):
        match record.entry:
            case entries.MessageEntry(message=message):
                return message.role == "user" or message.has_tool_calls
            case entries.Intent() | entries.CallResult(final=False) | entries.AttemptFailed(delay=float()):
                return True
            case (
                entries.CallResult()
                | entries.RunCancelled()
                | entries.RunStopped()
                | entries.AttemptFailed()
                | entries.RewindEntry()
            ):
                return False
    return False
