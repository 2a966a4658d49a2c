"""The owner, the metadata and the origin of a session: what the program that made it knows of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from outrider.log.entries import SessionSettings

MOST, LONGEST_KEY, LONGEST_VALUE = 50, 64, 1_000
"""How many pairs there may be, and how many characters a key and a value, or the owner, may have."""
Origin: TypeAlias = Literal["chat", "editor", "print", "batch", "python", "serve"]
"""What made a session: a person in the terminal or on the page, or in an editor; `-p`; a batch; a Python program; a
program that uses the API of a server."""
CHAT: Origin = "chat"
"""Also of sessions of older logs, which do not say."""
INTERACTIVE: tuple[Origin, ...] = (CHAT, "editor")
KEY = re.compile(r"[A-Za-z0-9_.-]+")


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
    if len(value) > LONGEST_VALUE or "\0" in value:
        raise ValueError(f"{name} must have at most {LONGEST_VALUE:,} characters, and no null character")


def origin_after(before: str | None, opened_by: str | None, *, is_new: bool) -> str | None:
    """Return the origin to store. What a person goes on with becomes a conversation; nothing else changes it.

    >>> origin_after(None, None, is_new=True), origin_after("print", "chat", is_new=False)
    ('python', 'chat')
    >>> origin_after("chat", "print", is_new=False), origin_after("editor", "chat", is_new=False)
    (None, None)
    """
    if is_new:
        return opened_by or "python"
    return opened_by if opened_by in INTERACTIVE and (before or CHAT) not in INTERACTIVE else None
