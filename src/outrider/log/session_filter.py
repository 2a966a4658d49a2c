"""Which sessions a list shows: by folder, origin, title, model, time, cost, owner and metadata, and their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from outrider.log.entries import RunStarted, RunStopped
from outrider.log.session_labels import CHAT, INTERACTIVE, check_key, check_value
from outrider.text import clean

_NEWEST_RUN = (
    "(SELECT kind FROM event WHERE event.session = session.number "
    f"AND kind IN ('{RunStarted.kind}', '{RunStopped.kind}') ORDER BY seq DESC LIMIT 1) = ?"
)
"""Read backwards, so that only the newest run of a session is looked at."""
Condition: TypeAlias = tuple[str, tuple[str | float, ...]]
"""A condition in SQL on the session table, with `?` for each value, and the values."""


class SessionFilter(msgspec.Struct, frozen=True):
    """Conditions on sessions. Empty ones hold for all."""

    folder: str = ""
    """Its name may have bytes that are not UTF-8; the log stores it without them."""
    model: str = ""
    since: float | None = None
    """The session was used at this time or later."""
    until: float | None = None
    """The session was created before this time."""
    min_cost: float | None = None
    """US dollars, without those of its sub-agents."""

    owner: str = ""
    metadata: Mapping[str, str] = {}
    """Pairs that the session has, all of them."""
    unfinished: bool = False
    """Only sessions whose newest run has no end: it was killed or suspended, or it goes on now (`Summary.holder`)."""
    origins: tuple[str, ...] = ()
    """What made the session, see `Session.open`. Those of older logs, which do not say, count as chats."""
    answered: bool = False
    """Only sessions that have a reply, or that a process has open."""
    title: str = ""
    """Words that are all in the title."""

    def conditions(self, setting: Callable[..., str]) -> Iterator[Condition]:
        """Yield the conditions. `setting` returns the SQL of one of a session's settings, by its path.

        Raises ValueError for a wrong key.
        """
        if self.folder:
            yield f"{setting('cwd')} = ?", (clean(self.folder),)
        if self.owner:
            check_value("owner", self.owner)
            yield f"{setting('owner')} = ?", (clean(self.owner),)
        for key, value in self.metadata.items():
            check_key(key)
            check_value(f"metadata[{key!r}]", value)
            yield f"{setting('metadata', key)} = ?", (clean(value),)
        if self.origins:
            yield f"coalesce({setting('origin')}, '{CHAT}') IN ({', '.join('?' * len(self.origins))})", self.origins
        yield from self._conditions_on_columns()

    def _conditions_on_columns(self) -> Iterator[Condition]:
        if self.unfinished:
            yield _NEWEST_RUN, (RunStarted.kind,)
        if self.answered:
            yield "(turns > ? OR holder <> '')", (0,)
        for word in clean(self.title).replace("\0", "").lower().split():
            escaped = word.replace("!", "!!").replace("%", "!%").replace("_", "!_")
            yield "lower(title) LIKE ? ESCAPE '!'", (f"%{escaped}%",)
        limits = (("updated >= ?", self.since), ("created < ?", self.until), ("cost >= ?", self.min_cost))
        for sql, value in (("model = ?", self.model or None), *limits):
            if value is not None:
                yield sql, (value,)


def inside(folders: Sequence[str], setting: Callable[..., str]) -> Condition:
    """Return the condition that a session worked in one of the folders, or in a folder inside one."""
    roots = [f"{clean(each).rstrip('/')}/" for each in folders]
    each = f"substr({setting('cwd')} || '/', 1, ?) = ?"
    return f"({' OR '.join([each] * len(roots))})", tuple(value for root in roots for value in (len(root), root))


CHATS = SessionFilter(origins=INTERACTIVE, answered=True)
"""The conversations of people, which lists show first: chats and those of editors that have an answer."""
