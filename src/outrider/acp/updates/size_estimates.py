"""How many bytes a field takes when it is sent, told closely and without encoding large texts."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.acp.updates.call_state import Diff, File, Item, Location, Terminal, Text
from outrider.acp.updates.json_value import JsonValue

_EXACT_TO = 8_192
"""Characters up to which a text is simply encoded."""
_TEXT, _FILE, _DIFF, _TERMINAL, _LOCATION = 55, 120, 50, 45, 20
"""The names, braces and quotes around each item."""


def size_of_text(text: str) -> int:
    """The bytes of a text in quotes. The common escapes of a long one are counted, the rare ones are not.

    >>> size_of_text('say "ä"')
    12
    """
    if len(text) <= _EXACT_TO:
        return len(msgspec.json.encode(text))
    length = len(text) if text.isascii() else len(text.encode())
    return length + 2 + sum(map(text.count, '\n"\\\t')) + 5 * text.count("\x1b")


def size_of_items(items: tuple[Item, ...]) -> int:
    """The bytes of a call's content. Raises TypeError for what is no item."""
    return 2 + sum(_size_of_item(item) for item in items)


def size_of_locations(locations: tuple[Location, ...]) -> int:
    """The bytes of a call's locations. Raises TypeError for what is no location."""
    total = 2
    for location in locations:
        if not isinstance(location, Location):
            raise TypeError(f"a call is at Locations, not at a {type(location).__name__}")
        total += _LOCATION + size_of_text(location.path) + (0 if location.line is None else 12)
    return total


def size_of_field(name: str, value: Any) -> int:
    """The bytes of a field with its name."""
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
            return _DIFF + size_of_text(item.path) + size_of_text(item.new) + old
        case File(attachment):
            carried = attachment.mime_type.startswith(("image/", "audio/"))  # in base64; other files are named
            return _FILE + len(attachment.name) + (attachment.size * 4 // 3 if carried else 0)
        case Terminal():
            return _TERMINAL + size_of_text(item.id)
    raise TypeError(f"content is made of Text, File, Diff and Terminal, not of a {type(item).__name__}")
