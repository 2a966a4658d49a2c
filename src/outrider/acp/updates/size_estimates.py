"""Estimates of how many bytes a field takes when it is sent, without encoding large texts."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.acp.updates.call_state import Diff, File, Item, Location, Terminal, Text
from outrider.acp.updates.json_value import JsonValue

_EXACT_TO = 8_192
"""Characters up to which a text is encoded to get its exact size."""
_TEXT, _FILE, _DIFF, _LINE, _TERMINAL, _LOCATION = 55, 120, 50, 36, 45, 20
"""Bytes of the keys, braces and quotes of each item."""


def size_of_text(text: str) -> int:
    """Return the bytes of a JSON string. For a long one, only common escapes are counted.

    >>> size_of_text('say "ä"')
    12
    """
    if len(text) <= _EXACT_TO:
        return len(msgspec.json.encode(text))
    length = len(text) if text.isascii() else len(text.encode())
    return length + 2 + sum(map(text.count, '\n"\\\t')) + 5 * text.count("\x1b")


def size_of_items(items: tuple[Item, ...]) -> int:
    """Return the bytes of a call's content. Raises TypeError for anything but items."""
    return 2 + sum(_size_of_item(item) for item in items)


def size_of_locations(locations: tuple[Location, ...]) -> int:
    """Return the bytes of a call's locations. Raises TypeError for anything but locations."""
    total = 2
    for location in locations:
        if not isinstance(location, Location):
            raise TypeError(f"locations must be Location, not {type(location).__name__}")
        total += _LOCATION + size_of_text(location.path) + (0 if location.line is None else 12)
    return total


def size_of_field(name: str, value: Any) -> int:
    """Return the bytes of a field with its name."""
    if name == "content":
        return len(name) + 4 + size_of_items(value)
    if name == "locations":
        return len(name) + 4 + size_of_locations(value)
    if isinstance(value, JsonValue):
        return len(name) + 4 + len(value.encoded)
    return len(name) + 6 + (len(value) if value.isascii() else len(value.encode()))


def _size_of_item(item: Item) -> int:
    match item:
        case Text():
            return _TEXT + size_of_text(item.text)
        case Diff():
            old = 0 if item.old is None else size_of_text(item.old)
            line = _LINE if item.line else 0
            return _DIFF + size_of_text(item.path) + size_of_text(item.new) + old + line
        case File(attachment):
            is_embedded = attachment.mime_type.startswith(("image/", "audio/"))  # other files: the name
            return _FILE + len(attachment.name) + (attachment.size * 4 // 3 if is_embedded else 0)
        case Terminal():
            return _TERMINAL + size_of_text(item.id)
    raise TypeError(f"content items must be Text, File, Diff or Terminal, not {type(item).__name__}")
