"""The state of a tool call as an observer sees it, the items of its content, and an update of it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, UnsetType

from outrider.conversation.messages import AttachmentBlock
from outrider.text import clean

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
