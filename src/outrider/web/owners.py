"""Whose sessions a request may see and use, and how much of the server one owner may take."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

import msgspec

from outrider.errors import UnknownSessionError
from outrider.log.log import Log
from outrider.log.questions import Question, ResultQuestion
from outrider.log.summary import Summary
from outrider.web.http import RefusedError
from outrider.web.live_sessions import LiveSessions

MINUTE = 60.0
MOST_PARENTS = 20


class ServerLimits(msgspec.Struct, frozen=True):
    """What one owner may do at once. Requests beyond that are refused with the status 429."""

    sessions: int = 50
    """Sessions that work at the same time in this process."""
    prompts: int = 120
    """Messages within a minute."""
    streams: int = 2_000
    """Streams of events that are open."""


class Asked(NamedTuple):
    """A question, with the session and the owner that it belongs to."""

    question: Question
    root: str
    owner: str


class Owners:
    """Finds sessions and questions for their owners, and counts what they do. An empty owner may see all."""

    def __init__(self, log: Log, sessions: LiveSessions, limits: ServerLimits) -> None:
        self._log = log
        self._sessions = sessions
        self._limits = limits
        self._prompts: dict[str, deque[float]] = {}

    def session(self, owner: str, id: str) -> Summary:
        """Return a session, given its whole id. Raises UnknownSessionError if the log has none, or it is another's."""
        found = self._log.summaries([id]).get(id)
        if found is None or (owner and self._root(found).owner != owner):
            raise UnknownSessionError(f"there is no session {id[:64]!r}")
        return found

    def _root(self, found: Summary) -> Summary:
        for _ in range(MOST_PARENTS):
            parent = self._log.summaries([found.parent]).get(found.parent) if found.parent else None
            if parent is None:
                break
            found = parent
        return found

    def question(self, owner: str, id: str) -> Question:
        """Return a question, also one that was answered. Raises RefusedError if there is none, or it is another's."""
        found = self._log.inbox.question(id)
        if found is None or (owner and self._asked(found).owner != owner):
            raise RefusedError(404, "nobody asks this question any more")
        return found

    def questions(self) -> list[Asked]:
        """Return the questions that a person can answer. A result that comes from outside is none of them."""
        return [self._asked(each) for each in self._log.questions() if not isinstance(each.body, ResultQuestion)]

    def _asked(self, question: Question) -> Asked:
        found = self._log.summaries([question.session]).get(question.session)
        root = self._root(found) if found else None
        return Asked(question, root.id if root else "", root.owner if root else "")

    # Limits

    def check_streams(self, owner: str, count: int) -> None:
        """Raise RefusedError if an owner has too many streams."""
        if count >= self._limits.streams:
            raise RefusedError(429, f"{count} streams are open; close one", retry_after=10)

    def check_prompt(self, owner: str, id: str = "") -> None:
        """Count a message, to a session or a new one. Raises RefusedError if there are too many, or too many work."""
        now = asyncio.get_running_loop().time()
        recent = self._prompts.setdefault(owner, deque())
        while recent and recent[0] <= now - MINUTE:
            recent.popleft()
        if len(recent) >= self._limits.prompts:
            wait = int(recent[0] + MINUTE - now) + 1
            raise RefusedError(429, f"{self._limits.prompts} messages within a minute are the limit", retry_after=wait)
        live = self._sessions.get(id)
        if (live is None or live.has_ended) and self._sessions.working(owner) >= self._limits.sessions:
            raise RefusedError(429, f"{self._limits.sessions} sessions work already; wait for one", retry_after=5)
        recent.append(now)
        if len(self._prompts) > 10_000:  # owners that have said nothing for a minute
            self._prompts = {each: times for each, times in self._prompts.items() if times and times[-1] > now - MINUTE}
