"""One change of a tool call on its way to an observer: the fields that changed, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from outrider.updates.state import FIELDS, FINAL, ITEMS, CallState, Item, Location, Status, checked_status, is_step


class Update(msgspec.Struct, frozen=True):
    """What changed of a call. A field that is UNSET has not changed; an empty tuple clears."""

    id: str
    is_new: bool = False
    """The announcement of a call: every field that has a value."""
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    content: tuple[Item, ...] | UnsetType = UNSET
    locations: tuple[Location, ...] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    output: str | UnsetType = UNSET
    """Text that the running command has printed since the last update, where output is appended."""
    exit_code: int | UnsetType | None = UNSET
    """The end of that output; None where there is no code, as after a kill."""

    @staticmethod
    def of(call_id: str, previous: CallState | Status | None = None) -> Builder:
        """Begin an update. With the previous state, or its status, the step is checked, and content appended to it.

        >>> Update.of("call_1").status("in_progress").build().status
        'in_progress'
        """
        return Builder(call_id, previous)

    @property
    def changes(self) -> dict[str, Any]:
        """The fields that are in the update, by name."""
        values = ((name, getattr(self, name)) for name in CHANGEABLE)
        return {name: value for name, value in values if value is not UNSET}


CHANGEABLE = (*FIELDS, "output", "exit_code")


class Builder:
    """An update in the making. Each method gives the builder back; `build` checks the whole."""

    def __init__(self, call_id: str, previous: CallState | Status | None = None) -> None:
        self._id = call_id
        self._before = previous.status if isinstance(previous, CallState) else previous
        self._content: tuple[Item, ...] = previous.content if isinstance(previous, CallState) else ()
        self._fields: dict[str, Any] = {}

    def status(self, status: Status) -> Builder:
        """Where the call is now."""
        return self._with("status", status)

    def title(self, title: str) -> Builder:
        """What the call does, in a few words."""
        return self._with("title", title)

    def name(self, name: str) -> Builder:
        """The name of the tool."""
        return self._with("name", name)

    def kind(self, kind: str) -> Builder:
        """What sort of tool it is."""
        return self._with("kind", kind)

    def content(self, items: Iterable[Item]) -> Builder:
        """All that the call shows, in place of what it showed before; nothing clears it."""
        self._content = tuple(items)
        return self._with("content", self._content)

    def append(self, item: Item) -> Builder:
        """One more item after those of the previous state and of this update."""
        return self.content((*self._content, item))

    def locations(self, locations: Iterable[Location]) -> Builder:
        """The files that the call works on, in place of those before."""
        return self._with("locations", tuple(locations))

    def raw_input(self, value: Any) -> Builder:
        """The arguments of the call."""
        return self._with("raw_input", value)

    def raw_output(self, value: Any) -> Builder:
        """What the tool returned."""
        return self._with("raw_output", value)

    def build(self) -> Update:
        """The update. A ValueError says what is wrong with it."""
        if not isinstance(self._id, str) or not self._id:
            raise ValueError(
                "an update needs the id of its call; give Update.of the id with which the call was announced"
            )
        if not self._fields:
            raise ValueError(f"the update of call {self._id} changes nothing; set a field, or do not send it")
        if self._before in FINAL:
            raise ValueError(f"call {self._id} is {self._before}, and nothing comes after; announce a call of its own")
        self._check_fields()
        return Update(self._id, **self._fields)

    def _check_fields(self) -> None:
        for name, value in self._fields.items():
            if value is None or value is UNSET:
                raise ValueError(f"{name} of call {self._id} has no value; leave it out, or clear content with []")
        if "status" in self._fields:
            self._check_step(checked_status(self._fields["status"]))
        for name, types in (("content", ITEMS), ("locations", (Location,))):
            for item in self._fields.get(name, ()):
                if not isinstance(item, types):
                    allowed = ", ".join(kind.__name__ for kind in types)
                    raise ValueError(f"{name} of call {self._id} has a {type(item).__name__}; allowed: {allowed}")

    def _check_step(self, status: Status) -> None:
        if self._before is not None and not is_step(self._before, status):
            raise ValueError(f"call {self._id} cannot go back from {self._before} to {status}; leave the status out")

    def _with(self, name: str, value: Any) -> Builder:
        self._fields[name] = value
        return self


def merged(first: Update, second: Update) -> Update:
    """Both updates as one: the later wins field by field, and output is one text. A ValueError if they differ in id."""
    if first.id != second.id:
        raise ValueError(f"updates of two calls, {first.id} and {second.id}, cannot be one; send both")
    fields = second.changes if second.is_new else first.changes | second.changes
    if first.output is not UNSET:
        fields["output"] = first.output + ("" if second.output is UNSET else second.output)
    return Update(first.id, first.is_new or second.is_new, **fields)
