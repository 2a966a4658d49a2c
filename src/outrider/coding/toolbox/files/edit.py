"""The Edit tool: replace a text in a file that the model has read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from outrider.coding.toolbox.files.diffs import change_details
from outrider.coding.toolbox.files.line_ranges import excerpt, line_count
from outrider.coding.toolbox.files.regular_files import encode_like, resolve_path
from outrider.coding.toolbox.files.replacing import PLACES, Replacement, near_miss
from outrider.coding.toolbox.files.versions import WHOLE, Version, save, version
from outrider.coding.toolbox.seen_files import Part, UnreadError
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.encodings import Encoding, text_encoding
from outrider.text import clean, counted, human_size
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, tool

Hidden: TypeAlias = Callable[[str], bool]
AROUND = 3
"""Lines shown before and after a change."""
SHOWN_LINES = 30
UNREAD_LINES = 100
"""Lines shown of a file that was not read."""


def edit(workspace: Workspace, *, hidden: Hidden = lambda _: False) -> Tool:
    """Return the tool that edits files; `hidden` returns True for paths whose content it must not show."""

    @tool(name="Edit", effect="write", concurrent=False)
    def edit_file(
        file_path: str, old_string: str, new_string: str, context: ToolContext, replace_all: bool = False
    ) -> ToolResult:
        """Replace a text in a file that you have read. The rest of the file stays as it is.

        Args:
            file_path: The file, absolute or relative to the working folder.
            old_string: The text to replace, exactly as in the file, with its white space and without line numbers.
                It must occur once: include enough of the text around it.
            new_string: The new text; empty to delete.
            replace_all: Replace every occurrence instead of the only one.
        """
        try:
            strings = clean(old_string), clean(new_string)
            return _edit(workspace, file_path, *strings, replace_all, hidden, context)
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)
        except OSError as error:
            return ToolResult(str(os_error(error, file_path, "changed")), is_error=True)

    return edit_file


def _edit(
    workspace: Workspace, name: str, old: str, new: str, every: bool, hidden: Hidden, context: ToolContext
) -> ToolResult:
    if not old and not new:
        raise ToolCallError(
            "old_string is empty: give the text to replace, or a new_string to add at the end of the file."
        )
    if old == new:
        raise ToolCallError("old_string and new_string are the same: there is nothing to change.")
    path = resolve_path(workspace, name, "Edit", context)
    before = version(workspace, path, name)
    text, encoding = _text_of(name, before)
    replacement = Replacement.within(text, old, new)
    try:
        workspace.seen.check(context, path, name, before.stamp, whole=False)
    except UnreadError as unread:
        if len(replacement.places()) != 1:  # one that occurs once was not guessed
            raise ToolCallError(f"{unread}{_content(workspace, path, before, text, hidden, context)}") from None
    places = _places(replacement, old, name, every)
    changed = replacement.apply()
    if changed == text:
        raise ToolCallError(
            "old_string and new_string differ only in their line endings, and Edit keeps those of the file."
        )
    data = encode_like(encoding, changed, name)
    note = save(workspace, path, name, data, before, context, edited=True)
    summary = _summary(replacement, places, name, changed)
    return ToolResult(f"{summary}\n{note}" if note else summary, details=change_details(path, name, text, changed))


def _content(workspace: Workspace, path: Path, before: Version, text: str, hidden: Hidden, context: ToolContext) -> str:
    """Return the content of a file that was not read, so that the next call can be right, or its beginning."""
    lines = line_count(text)
    if hidden(str(path)) or not before.stamp or not lines:
        return ""
    shown = min(lines, UNREAD_LINES)
    workspace.seen.add_read(context, path, before.stamp, Part(1, shown, is_end=shown == lines))
    which = "Its content" if shown == lines else f"Its first {shown} of {lines:,} lines"
    return f" {which}:\n{excerpt(text, 1, shown)}"


def _text_of(name: str, before: Version) -> tuple[str, Encoding]:
    data = before.data
    if data is None:
        size = before.stamp.size if before.stamp else 0
        raise ToolCallError(
            f"{printable(name)} has {human_size(size)}; Edit works on files up to {human_size(WHOLE)}. "
            "Change it with a command instead."
        )
    encoding = text_encoding(data)
    if encoding is None:
        raise ToolCallError(f"{printable(name)} is not text and cannot be edited.")
    try:
        return encoding.decode(data), encoding
    except UnicodeDecodeError:
        promised = encoding.codec.upper()
        raise ToolCallError(f"{printable(name)} is not the {promised} that its byte order mark promises.") from None


def _places(replacement: Replacement, old: str, name: str, every: bool) -> list[int]:
    """Return the positions to replace. Raises ToolCallError if there are none, or several without `every`."""
    places = replacement.places()
    if not places:
        adds = ' To add a text at the end of the file, give "" as old_string.' if old in replacement.new else ""
        raise ToolCallError(f"old_string is not in {printable(name)}.{near_miss(replacement.text, old)}{adds}")
    if len(places) > 1 and not every:
        times = max(replacement.count(), len(places))
        raise ToolCallError(
            f"old_string occurs {times:,} times in {printable(name)}, on lines {_lines(replacement, places, times)}. "
            "Include more of the text around the one that you mean."
        )
    return places


def _lines(replacement: Replacement, places: list[int], times: int) -> str:
    lines = dict.fromkeys(replacement.line_of(place) for place in places)
    return ", ".join(f"{line}" for line in lines) + (", …" if times > PLACES else "")


def _summary(replacement: Replacement, places: list[int], name: str, changed: str) -> str:
    first = replacement.line_of(places[0])
    if len(places) == 1:
        words = f"Edited {printable(name)} at line {first}:"
    else:
        times = replacement.count()
        what = counted(times, "occurrence")
        words = f"Replaced {what} in {printable(name)}, on lines {_lines(replacement, places, times)}:"
    return f"{words}\n{_snippet(changed, first, replacement.new)}" if changed else f"{printable(name)} is now empty."


def _snippet(changed: str, first: int, new: str) -> str:
    start = max(1, min(first - AROUND, line_count(changed)))
    count = min(first - start + line_count(new) + AROUND, SHOWN_LINES)
    return excerpt(changed, start, max(count, 1))
