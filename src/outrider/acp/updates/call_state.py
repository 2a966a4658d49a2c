"""The state of a call as the editor sees it: its values and their sizes."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, UnsetType

from outrider.conversation.messages import AttachmentBlock
from outrider.text import clean, clean_value

_IMMUTABLE = (str, int, float, bool)


class JsonValue:
    """A JSON value and its encoding. Equality compares encodings: 1 is not true, and a dict may change in place."""

    __slots__ = ("encoded", "value")

    def __init__(self, value: Any, encoded: bytes) -> None:
        self.value = value
        self.encoded = encoded

    @classmethod
    def of(cls, name: str, value: Any) -> JsonValue:
        """Encode a value, cleaned if necessary. Raises ValueError if it cannot be JSON; `name` is the field."""
        try:
            return cls(value, _encode(value))
        except (TypeError, ValueError, RecursionError):
            pass
        try:
            value = clean_value(value)
            return cls(value, _encode(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{name} cannot be JSON: {error}; use dicts, lists, strings and numbers") from None

    def is_unchanged(self, value: Any) -> bool:
        """Return whether the value is this same object, and immutable."""
        return value is self.value and isinstance(value, _IMMUTABLE)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonValue) and self.encoded == other.encoded

    __hash__ = None  # type: ignore[assignment]


def unwrap(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with each JsonValue replaced by its value."""
    if "raw_input" not in fields and "raw_output" not in fields:
        return fields
    return {name: value.value if isinstance(value, JsonValue) else value for name, value in fields.items()}


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


Status: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
"""The kinds of calls that the protocol knows."""
FINAL: frozenset[Status] = frozenset(("completed", "failed", "cancelled"))
"""The statuses of a finished call. They do not change."""

_RANK: dict[str, int] = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2, "cancelled": 2}


class _CleanStruct(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type"):
    """A struct whose strings can always be encoded: lone surrogates are replaced."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str) and not value.isascii():
                msgspec.structs.force_setattr(self, name, clean(value))


class Text(_CleanStruct, frozen=True, gc=False, tag="text"):
    """Text."""

    text: str


class File(_CleanStruct, frozen=True, gc=False, tag="file"):
    """A file by reference, such as an image that a tool returned."""

    attachment: AttachmentBlock


class Diff(_CleanStruct, frozen=True, gc=False, tag="diff"):
    """A part of a file before and after a change; `old` is None for a new file."""

    path: str
    new: str
    old: str | None = None
    line: int = 0
    """The number of its first line; 0 if it is not known."""


class Terminal(_CleanStruct, frozen=True, gc=False, tag="terminal"):
    """A terminal in which a command runs."""

    id: str


Item: TypeAlias = Text | File | Diff | Terminal


class Location(_CleanStruct, frozen=True, gc=False, tag=False):
    """A file that a call works on, so that an editor can follow."""

    path: str
    line: int | None = None


class CallState(msgspec.Struct, frozen=True):
    """A tool call as an observer sees it."""

    id: str
    title: str = ""
    name: str = ""
    kind: str = "other"
    status: Status = "pending"
    content: tuple[Item, ...] = ()
    locations: tuple[Location, ...] = ()
    raw_input: Any = UNSET
    """The arguments, as a JSON value. Once set, they can change but not be removed; the same holds for `raw_output`."""
    raw_output: Any = UNSET
    parent: str = ""
    """The id of the call that started the sub-agent whose call this is."""


FIELDS = tuple(field for field in CallState.__struct_fields__ if field != "id")


def is_transition(before: str, after: str) -> bool:
    """Return whether a status may follow another: forward or the same, and nothing after a final one.

    >>> is_transition("pending", "failed"), is_transition("in_progress", "pending"), is_transition("failed", "failed")
    (True, False, False)
    """
    return before not in FINAL and _RANK[before] <= _RANK[after]


def check_status(status: object) -> Status:
    """Return the status. Raises ValueError if there is no such status."""
    if isinstance(status, str) and status in _RANK:
        return status  # type: ignore[return-value]
    raise ValueError(f"unknown status {status!r}; use one of: {', '.join(get_args(Status))}")


class Update(msgspec.Struct, frozen=True):
    """The changed fields of a call. UNSET means unchanged; an empty tuple clears."""

    id: str
    is_new: bool = False
    """Whether this announces the call, with every field that has a value."""
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    content: tuple[Item, ...] | UnsetType = UNSET
    locations: tuple[Location, ...] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    parent: str | UnsetType = UNSET
    output: str | UnsetType = UNSET
    """New output of the command, for observers that append output."""
    exit_code: int | UnsetType | None = UNSET
    """The end of that output; None without a code, as after a kill."""

    @property
    def changes(self) -> dict[str, Any]:
        """The fields that the update has, by name."""
        values = ((name, getattr(self, name)) for name in CHANGEABLE)
        return {name: value for name, value in values if value is not UNSET}


CHANGEABLE = (*FIELDS, "output", "exit_code")


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
