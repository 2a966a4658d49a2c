"""What an observer knows of a tool call: its state, and the items that it shows."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET

from outrider.conversation.messages import AttachmentBlock
from outrider.text import clean

Status: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
FINAL: frozenset[Status] = frozenset(("completed", "failed", "cancelled"))
"""Where a call ends. Nothing comes after."""

_RANK: dict[str, int] = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2, "cancelled": 2}


class _Shown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type"):
    """Plain data whose text can always be sent: what no encoding knows has been replaced."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str) and not value.isascii():
                msgspec.structs.force_setattr(self, name, clean(value))


class Text(_Shown, frozen=True, gc=False, tag="text"):
    """Words."""

    text: str


class File(_Shown, frozen=True, gc=False, tag="file"):
    """A file by reference, as a picture that a tool returned."""

    attachment: AttachmentBlock


class Diff(_Shown, frozen=True, gc=False, tag="diff"):
    """A file before and after; `old` is None where there was none before."""

    path: str
    new: str
    old: str | None = None


class Terminal(_Shown, frozen=True, gc=False, tag="terminal"):
    """A terminal of the observer's, in which a command runs."""

    id: str


Item: TypeAlias = Text | File | Diff | Terminal


class Location(_Shown, frozen=True, gc=False, tag=False):
    """A file that a call works on, so that an editor can follow."""

    path: str
    line: int | None = None


class CallState(msgspec.Struct, frozen=True):
    """A tool call as an observer should see it."""

    id: str
    title: str = ""
    name: str = ""
    kind: str = "other"
    status: Status = "pending"
    content: tuple[Item, ...] = ()
    locations: tuple[Location, ...] = ()
    raw_input: Any = UNSET
    """The arguments, as a JSON value. Once known, they can change but not go away; so can `raw_output`."""
    raw_output: Any = UNSET


FIELDS = tuple(field for field in CallState.__struct_fields__ if field != "id")


def is_transition(before: str, after: str) -> bool:
    """Whether a call may go from one status to the other: forward, or staying where it is, and never out of its end.

    >>> is_transition("pending", "failed"), is_transition("in_progress", "pending"), is_transition("failed", "failed")
    (True, False, False)
    """
    return before not in FINAL and _RANK[before] <= _RANK[after]


def check_status(status: object) -> Status:
    """The status, or a ValueError that says which there are."""
    if isinstance(status, str) and status in _RANK:
        return status  # type: ignore[return-value]
    raise ValueError(f"there is no status {status!r}; a call is one of: {', '.join(get_args(Status))}")
