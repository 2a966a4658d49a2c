"""One update of a tool call: only the fields that changed.

Partial updates save bytes and work on both sides:
1. only the fields that changed are sent;
2. a change of status alone is an id and a status;
3. streamed output is content alone, or appended text alone;
4. a field that is UNSET is left out of the JSON;
5. the difference between the sent and the wanted state decides what changed.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from outrider.acp.updates.call_state import FIELDS, Item, Location, Status


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
