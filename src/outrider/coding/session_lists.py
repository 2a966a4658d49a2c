"""The lists of sessions for people: conversations of this repository first, then others; all kinds on request."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from outrider.coding.repository import repository_folders
from outrider.conversation.passages import Found
from outrider.filesystem import is_within
from outrider.log.log import Log
from outrider.log.session_filter import CHATS, SessionFilter
from outrider.log.summary import Summary

MAX_PASSAGES = 100
"""Passages that one search looks at."""


class SessionList:
    """The sessions of a log, as a list shows them that is asked for in a folder."""

    def __init__(self, log: Log, folder: Path | None = None) -> None:
        """Without a folder it is the current one."""
        self._log = log
        self.folders: tuple[str, ...] = ()
        """The folders of this repository."""
        with suppress(OSError):  # the current folder was deleted
            self.folders = tuple(str(each) for each in repository_folders(folder or Path.cwd()))

    def page(
        self, limit: int | None, *, every: bool = False, offset: int = 0, where: SessionFilter | None = None
    ) -> list[Summary]:
        """Return sessions: those of this repository, then others, each the most recently used first."""
        return self._log.sessions(limit, offset=offset, where=shown(where, every=every), first=self.folders)

    def found(self, words: str, *, every: bool = False, where: SessionFilter | None = None) -> list[SessionFound]:
        """Return the sessions with these words in their titles or in what was said, in the order of a page."""
        where = shown(where, every=every)
        passages: dict[str, list[Found]] = {}
        for each in self._log.search(words, limit=MAX_PASSAGES, where=where):
            passages.setdefault(each.session, []).append(each)
        titled = self._log.sessions(MAX_PASSAGES, where=msgspec.structs.replace(where, title=words))
        said = self._log.summaries(list(passages))  # without those that were deleted just now
        summaries = {each.id: each for each in (*titled, *said.values())}
        order = sorted(summaries.values(), key=lambda each: (not self.is_here(each), -each.updated))
        return [SessionFound(each, tuple(passages.get(each.id, ()))) for each in order]

    def is_here(self, summary: Summary) -> bool:
        """Return whether a session worked in this repository."""
        return any(is_within(summary.folder, each) for each in self.folders)


class SessionFound(msgspec.Struct, frozen=True):
    """A session that a search has found."""

    summary: Summary
    passages: tuple[Found, ...]
    """What was said, the newest first. Empty if only the title has the words."""


def shown(where: SessionFilter | None, *, every: bool) -> SessionFilter:
    """Return a filter of the sessions that a list shows."""
    where = where or SessionFilter()
    return where if every else msgspec.structs.replace(where, origins=CHATS.origins, answered=CHATS.answered)
