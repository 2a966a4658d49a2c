"""What the program that made a session knows of it, and which sessions a list shows.

The owner, the metadata and the origin; a list chooses by these, by folder, title, model, time and cost, and by state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from outrider.log.entries import RunStarted, RunStopped, SessionSettings
from outrider.text import clean

MOST, LONGEST_KEY, LONGEST_VALUE = 50, 64, 1_000
"""How many pairs there may be, and how many characters a key and a value, or the owner, may have."""
Origin: TypeAlias = Literal["chat", "editor", "print", "batch", "python", "serve"]
"""What made a session: a person in the terminal or on the page, or in an editor; `-p`; a batch; a Python program; a
program that uses the API of a server."""
CHAT: Origin = "chat"
"""Also of sessions of older logs, which do not say."""
INTERACTIVE: tuple[Origin, ...] = (CHAT, "editor")
KEY = re.compile(r"[A-Za-z0-9_.-]+")
_NEWEST_RUN = (
    "(SELECT kind FROM event WHERE event.session = session.number "
    f"AND kind IN ('{RunStarted.kind}', '{RunStopped.kind}') ORDER BY seq DESC LIMIT 1) = ?"
)
"""Read backwards, so that only the newest run of a session is looked at."""
Condition: TypeAlias = tuple[str, tuple[str | float, ...]]
"""A condition in SQL on the session table, with `?` for each value, and the values."""


def labels(owner: str | None, metadata: Mapping[str, str] | None, origin: Origin | None = None) -> SessionSettings:
    """Return the settings that store them; None leaves one unchanged. Raises ValueError and TypeError."""
    if owner is not None:
        check_value("owner", owner)
    if origin is not None and origin not in get_args(Origin):
        raise ValueError(f"{origin!r:.40} is no origin of a session; there are {', '.join(get_args(Origin))}")
    if metadata is None:
        return SessionSettings(owner=owner, origin=origin)
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping of strings, not {type(metadata).__name__}")
    if len(metadata) > MOST:
        raise ValueError(
            f"metadata has {len(metadata)} pairs; at most {MOST} are stored. Keep the rest in your database"
        )
    for key, value in metadata.items():
        check_key(key)
        check_value(f"metadata[{key!r}]", value)
    return SessionSettings(owner=owner, metadata=dict(metadata), origin=origin)


def check_key(key: object) -> None:
    """Raise ValueError unless this is a key of metadata: it becomes a part of a query."""
    if not isinstance(key, str) or len(key) > LONGEST_KEY or not KEY.fullmatch(key):
        raise ValueError(
            f"{key!r:.80} is no key of metadata: write 1 to {LONGEST_KEY} letters, digits, underscores, dots or hyphens"
        )


def check_value(name: str, value: object) -> None:
    """Raise TypeError or ValueError unless this is a short string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}; write str(…)")
    if len(value) > LONGEST_VALUE or "\0" in value or clean(value) is not value:
        raise ValueError(f"{name} must have at most {LONGEST_VALUE:,} characters, all in UTF-8, and no null character")


def origin_after(before: str | None, opened_by: str | None, *, is_new: bool) -> str | None:
    """Return the origin to store. A session that a person continues becomes a conversation; nothing else changes it.

    >>> origin_after(None, None, is_new=True), origin_after("print", "chat", is_new=False)
    ('python', 'chat')
    >>> origin_after("chat", "print", is_new=False), origin_after("editor", "chat", is_new=False)
    (None, None)
    """
    if is_new:
        return opened_by or "python"
    return opened_by if opened_by in INTERACTIVE and (before or CHAT) not in INTERACTIVE else None


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
