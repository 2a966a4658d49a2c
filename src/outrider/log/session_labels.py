"""The owner and the metadata of a session: what a program that serves many people knows of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from outrider.log.entries import SessionSettings

MOST, LONGEST_KEY, LONGEST_VALUE = 50, 64, 1_000
"""How many pairs there may be, and how many characters a key and a value, or the owner, may have."""
KEY = re.compile(r"[A-Za-z0-9_.-]+")


def labels(owner: str | None, metadata: Mapping[str, str] | None) -> SessionSettings:
    """Return the settings that store them; None leaves one unchanged. Raises ValueError and TypeError."""
    if owner is not None:
        check_value("owner", owner)
    if metadata is None:
        return SessionSettings(owner=owner)
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping of strings, not {type(metadata).__name__}")
    if len(metadata) > MOST:
        raise ValueError(
            f"metadata has {len(metadata)} pairs; at most {MOST} are stored. Keep the rest in your database"
        )
    for key, value in metadata.items():
        check_key(key)
        check_value(f"metadata[{key!r}]", value)
    return SessionSettings(owner=owner, metadata=dict(metadata))


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
