"""How things are told in version 1 of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from outrider.acp.content import shown_file
from outrider.acp.schema.content import TextContent
from outrider.acp.schema.notifications import (
    Call,
    CallFields,
    CallUpdate,
    ContentItem,
    DiffItem,
    Item,
    Place,
    TerminalItem,
)
from outrider.acp.updates.state import Diff, File, Location, Terminal, Text
from outrider.acp.updates.state import Item as OurItem
from outrider.acp.updates.update import Update
from outrider.conversation.messages import AttachmentBlock

T = TypeVar("T", bound=CallFields)
ReadFile = Callable[[AttachmentBlock], bytes]


def call_of(update: Update, read: ReadFile, output_key: str = "terminal_output") -> Call | CallUpdate:
    """The announcement of a call, or a change of it."""
    if update.is_new:
        return _filled(Call, update, read, output_key)
    return _filled(CallUpdate, update, read, output_key)


def fields_of(update: Update, read: ReadFile) -> CallFields:
    """The same as it stands in a question."""
    return _filled(CallFields, update, read, "")


def _filled(kind: type[T], update: Update, read: ReadFile, output_key: str) -> T:
    content, locations = update.content, update.locations
    return kind(
        tool_call_id=update.id,
        title=update.title,
        name=update.name or UNSET,
        kind=update.kind,
        status=update.status,
        content=content if isinstance(content, UnsetType) else [item_of(item, read) for item in content],
        locations=locations if isinstance(locations, UnsetType) else [_place(each) for each in locations],
        raw_input=update.raw_input,
        raw_output=update.raw_output,
        meta=_meta(update, output_key),
    )


def item_of(item: OurItem, read: ReadFile) -> Item:
    """One thing that a call shows."""
    match item:
        case Text(text=text):
            return ContentItem(TextContent(text))
        case File(attachment=file):
            return ContentItem(shown_file(file, read))
        case Diff(path=path, new=new, old=old):
            return DiffItem(path, new, UNSET if old is None else old)
        case Terminal(id=name):
            return TerminalItem(name)


def _place(location: Location) -> Place:
    return Place(location.path, UNSET if location.line is None else location.line)


def _meta(update: Update, output_key: str) -> dict[str, Any] | UnsetType:
    """Output that is appended, for clients that take it: each byte once."""
    meta: dict[str, Any] = {}
    if not isinstance(update.content, UnsetType) and Terminal(update.id) in update.content:
        meta["terminal_info"] = {"terminal_id": update.id}
    if not isinstance(update.output, UnsetType):
        meta[output_key] = {"terminal_id": update.id, "data": update.output}
    if not isinstance(update.exit_code, UnsetType):
        # Those who take this want all three of them.
        meta["terminal_exit"] = {"terminal_id": update.id, "exit_code": update.exit_code, "signal": None}
    return meta or UNSET
