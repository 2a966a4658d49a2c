"""Changes of tool calls in the words of version 2: fields that changed, items that came, bytes that were printed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from outrider.acp.content import shown_file
from outrider.acp.schema.content import TextContent
from outrider.acp.schema.notifications import ContentItem, Place, TerminalItem
from outrider.acp.updates.state import FINAL, Diff, File, Location, Terminal, Text
from outrider.acp.updates.state import Item as OurItem
from outrider.acp.updates.update import Update
from outrider.acp.v1 import ReadFile
from outrider.acp.v2.patches import diff_item
from outrider.acp.v2.schema import (
    CallUpdate,
    ContentChunk,
    DraftUpdate,
    ExitStatus,
    Item,
    OutputChunk,
    TerminalOutput,
    TerminalUpdate,
)
from outrider.conversation.messages import AttachmentBlock
from outrider.errors import AttachmentError

MOST_REPLACED = 1_000_000
"""Bytes of the end of an output that are sent at once."""


class _Known:
    """What the editor knows of a call that is not over."""

    def __init__(self) -> None:
        self.content: list[Item] = []
        self.locations: list[Place] = []
        self.command: str | UnsetType = UNSET
        self.has_terminal = False
        self.prints_apart = False
        """Whether it has a terminal that is none of the items it has for itself."""
        self.made: str | None = None
        """The change that the call has made, as a unified diff."""
        self.output = b""
        """What the command has printed, if not all of that was told."""


class Updates:
    """Tells of calls. What the editor knows already is not told again, unless it wants all of it each time."""

    def __init__(self, tell: Callable[[DraftUpdate], int], read: ReadFile, cwd: Path, *, full: bool = False) -> None:
        self._tell = tell
        self._read = read
        self.cwd = cwd
        """Where a command that begins now is run."""
        self._full = full
        self._calls: dict[str, _Known] = {}

    def made(self, call_id: str, diff: str) -> None:
        """The call has changed a file: so, and not as it was thought to."""
        if call_id in self._calls:
            self._calls[call_id].made = diff

    def replaced(self, call_id: str, output: str | AttachmentBlock) -> None:
        """The command of the call has printed this, whatever was told of it."""
        if call_id in self._calls and output:
            self._calls[call_id].output = self._bytes(output)[-MOST_REPLACED:]

    def _bytes(self, output: str | AttachmentBlock) -> bytes:
        if isinstance(output, str):
            return output.encode(errors="replace")
        try:
            return self._read(output)
        except AttachmentError as error:
            return f"[the output cannot be shown: {error}]".encode()

    def tell(self, update: Update) -> int:
        """Tell one change; the bytes that it took."""
        known = self._calls.setdefault(update.id, _Known())
        size = sum(self._tell(each) for each in self._told(update, known))
        if update.status in FINAL:
            del self._calls[update.id]
        return size

    def _told(self, update: Update, known: _Known) -> Iterator[DraftUpdate]:
        if isinstance(update.raw_input, dict) and isinstance(command := update.raw_input.get("command"), str):
            known.command = command
        content = self._content(update, known)
        if not isinstance(content, UnsetType) and TerminalItem(update.id) in content:
            yield from self._terminal(update.id, known)
        yield from self._printed(update, known)
        if update.status in FINAL and known.has_terminal:
            output = TerminalOutput(known.output) if known.output else UNSET
            yield TerminalUpdate(update.id, output=output, exit_status=_exit_status(update.exit_code))
        yield from self._more(update, known, content)
        fields = self._fields(update, known, content)
        if fields or update.is_new:
            yield CallUpdate(tool_call_id=update.id, **fields)

    def _terminal(self, call_id: str, known: _Known) -> Iterator[DraftUpdate]:
        if not known.has_terminal:
            known.has_terminal = True
            yield TerminalUpdate(call_id, known.command, str(self.cwd))

    def _printed(self, update: Update, known: _Known) -> Iterator[DraftUpdate]:
        if isinstance(update.output, UnsetType):
            return
        if not known.has_terminal:  # of a tool that prints without being a command
            yield from self._terminal(update.id, known)
            known.prints_apart = True
            known.content = [*known.content, TerminalItem(update.id)]
            yield ContentChunk(update.id, TerminalItem(update.id))
        yield OutputChunk(update.id, update.output.encode())

    def _more(self, update: Update, known: _Known, content: list[Item] | UnsetType) -> Iterator[DraftUpdate]:
        """Items after those that are known already, one by one."""
        before = known.content
        if self._full or update.is_new or not before or isinstance(content, UnsetType):
            return
        if content[: len(before)] == before:
            known.content = content
            yield from (ContentChunk(update.id, item) for item in content[len(before) :])

    def _fields(self, update: Update, known: _Known, content: list[Item] | UnsetType) -> dict[str, Any]:
        locations = update.locations
        places = locations if isinstance(locations, UnsetType) else [_place(each) for each in locations]
        fields = {
            "title": _text(update.title, update),
            "name": _text(update.name, update),
            "kind": update.kind,
            "status": update.status,
            "content": self._news(content, known.content),
            "locations": self._news(places, known.locations),
            "raw_input": update.raw_input,
            "raw_output": update.raw_output,
        }
        known.content = known.content if isinstance(content, UnsetType) else content
        known.locations = known.locations if isinstance(places, UnsetType) else places
        return {name: value for name, value in fields.items() if value is not UNSET}

    def _news(self, value: list[Any] | UnsetType, known: list[Any]) -> list[Any] | UnsetType | None:
        """A list as it is told: not at all if it is known, and null if there is nothing any more."""
        if isinstance(value, UnsetType) or (value == known and not (self._full and value)):
            return UNSET
        return value or None

    def _content(self, update: Update, known: _Known) -> list[Item] | UnsetType:
        if isinstance(update.content, UnsetType):
            return UNSET
        items = [self._item(item, known) for item in update.content]
        keeps_terminal = known.prints_apart and not (items and update.status in FINAL)
        return [*items, TerminalItem(update.id)] if keeps_terminal and TerminalItem(update.id) not in items else items

    def _item(self, item: OurItem, known: _Known) -> Item:
        match item:
            case Diff():
                return diff_item(item, known.made)
            case Text(text=text):
                return ContentItem(TextContent(text))
            case File(attachment=file):
                return ContentItem(shown_file(file, self._read))
            case Terminal(id=name):
                return TerminalItem(name)


def _text(value: str | UnsetType, update: Update) -> str | UnsetType | None:
    return value or (UNSET if update.is_new or isinstance(value, UnsetType) else None)


def _place(location: Location) -> Place:
    return Place(location.path, UNSET if location.line is None else location.line)


def _exit_status(code: int | UnsetType | None) -> ExitStatus:
    if not isinstance(code, int):
        return ExitStatus()
    if code >= 0:
        return ExitStatus(code)
    try:
        return ExitStatus(signal=signal.Signals(-code).name)
    except ValueError:
        return ExitStatus(code)
