"""Converts updates of the engine to the protocol's `tool_call` and `tool_call_update`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from outrider.acp.prompt_content import file_content
from outrider.acp.schema import notifications as schema
from outrider.acp.schema.content import TextContent
from outrider.acp.updates.call_state import Diff, File, Item, Location, Terminal, Text, Update
from outrider.conversation.messages import AttachmentBlock

T = TypeVar("T", bound=schema.ToolCallFields)
ReadFile = Callable[[AttachmentBlock], bytes]


def to_session_update(
    update: Update, read: ReadFile, output_key: str = "terminal_output"
) -> schema.ToolCall | schema.ToolCallUpdate:
    """Return the session update that announces or changes a call."""
    if update.is_new:
        return _fill(schema.ToolCall, update, read, output_key)
    return _fill(schema.ToolCallUpdate, update, read, output_key)


def to_tool_call_fields(update: Update, read: ReadFile) -> schema.ToolCallFields:
    """Return the fields of a call for a permission request."""
    return _fill(schema.ToolCallFields, update, read, "")


def _fill(kind: type[T], update: Update, read: ReadFile, output_key: str) -> T:
    content, locations = update.content, update.locations
    return kind(
        tool_call_id=update.id,
        title=update.title,
        name=update.name or UNSET,
        kind=update.kind,
        status=update.status,
        content=content if isinstance(content, UnsetType) else [_content(item, read) for item in content],
        locations=locations if isinstance(locations, UnsetType) else [_location(each) for each in locations],
        raw_input=update.raw_input,
        raw_output=update.raw_output,
        meta=_meta(update, output_key),
    )


def _content(item: Item, read: ReadFile) -> schema.ToolCallContent:
    match item:
        case Text(text=text):
            return schema.ContentItem(TextContent(text))
        case File(attachment=file):
            return schema.ContentItem(file_content(file, read))
        case Diff(path=path, new=new, old=old, line=line):
            meta = {"outrider": {"line": line}} if line else UNSET  # the protocol has no place for it
            return schema.DiffItem(path, new, UNSET if old is None else old, meta)
        case Terminal(id=id):
            return schema.TerminalItem(id)


def _location(location: Location) -> schema.ToolCallLocation:
    return schema.ToolCallLocation(location.path, UNSET if location.line is None else location.line)


def _meta(update: Update, output_key: str) -> dict[str, Any] | UnsetType:
    """Return the extension fields for clients that append terminal output."""
    meta: dict[str, Any] = {}
    if update.parent:  # the protocol has no place for it; clients know this one from another agent
        meta["claudeCode"] = {"parentToolUseId": update.parent}
    if not isinstance(update.content, UnsetType) and Terminal(update.id) in update.content:
        meta["terminal_info"] = {"terminal_id": update.id}
    if not isinstance(update.output, UnsetType):
        meta[output_key] = {"terminal_id": update.id, "data": update.output}
    if not isinstance(update.exit_code, UnsetType):
        # Clients that read this require all three keys.
        meta["terminal_exit"] = {"terminal_id": update.id, "exit_code": update.exit_code, "signal": None}
    return meta or UNSET
