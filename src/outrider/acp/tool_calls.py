"""How tool calls look in an editor: title, kind, locations and content."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from outrider.acp.updates.call_state import CallState, Diff, File, Item, Location, Status, Terminal, Text
from outrider.coding.toolbox import EXIT_PLAN
from outrider.coding.toolbox.files.regions import Region, proposed_regions, regions_of
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import AttachmentBlock, TextBlock, ToolResultBlock
from outrider.runtime.calls import CANCELLED
from outrider.text.visible import revealed, revealed_line, safe_lines, without_colours

_KINDS = {
    "Read": "read",
    "Write": "edit",
    "Edit": "edit",
    "Glob": "search",
    "Grep": "search",
    "Recall": "search",
    "Bash": "execute",
    "WebFetch": "fetch",
    "Todo": "think",
    "Task": "think",
    "AskUser": "think",
    EXIT_PLAN: "switch_mode",
    "web_search": "search",
    "web_fetch": "fetch",
    "code_execution": "execute",
    "bash_code_execution": "execute",
    "text_editor_code_execution": "execute",
}
_FILE_TOOLS = ("Read", "Write", "Edit")
_VERBATIM_TOOLS = ("Read", "Grep", "Glob", "Bash", "Recall")
"""Tools whose results are not Markdown."""
MAX_TITLE = 400
_MAX_RAW_OUTPUT = 2_000
"""Characters of a tool's details up to which they are sent as `rawOutput`."""
_MAX_STRUCTURED_OUTPUT = 50_000
"""Characters of reported data, which an editor may want as data."""
_DIFF_ARGUMENTS = {"Write": ("content",), "Edit": ("old_string", "new_string")}
"""Arguments that the diff of a call repeats."""
LONG_ARGUMENT, _EXCERPT = 1_024, 200
"""Characters above which such an argument is shortened, and the length of its excerpt."""


def kind_of(name: str) -> str:
    return _KINDS.get(name, "other")


def new_call(call_id: str, name: str, input: Mapping[str, Any], folder: Path, *, reads_files: bool = True) -> CallState:
    """Return the state of a call before it starts. Without `reads_files` its diff shows the arguments alone."""
    regions = proposed_regions(name, input, folder) if reads_files and name in _DIFF_ARGUMENTS else ()
    path = input.get("file_path")
    content = _diffs(str(path), regions, folder) if regions else tuple(proposed_diff(name, input, folder))
    return CallState(
        call_id,
        single_line(title(name, input, folder)),
        name,
        kind_of(name),
        content=content,
        locations=_at_line(locations_of(name, input, folder), regions),
        raw_input=revealed_values(_without_diff(name, input) if content else dict(input)),
    )


def revealed_values(value: Any) -> Any:
    """Return a JSON value whose texts show their hidden characters: an editor shows it as it is."""
    match value:
        case str():
            return revealed(value)
        case dict():
            return {revealed(str(key)): revealed_values(each) for key, each in value.items()}
        case list() | tuple():
            return [revealed_values(each) for each in value]
    return value


def _revealed_diff(path: str, new: str, old: str | None = None, line: int = 0) -> Diff:
    return Diff(path, _revealed_lines(new), None if old is None else _revealed_lines(old), line)


def _revealed_lines(text: str) -> str:
    """Return the text of a file with its hidden characters shown. Editors show the kind of its line breaks."""
    return "\r\n".join(map(revealed, text.split("\r\n")))


def _without_diff(name: str, input: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with long texts shortened that the diff contains."""
    return {
        key: _shorten(value) if key in _DIFF_ARGUMENTS.get(name, ()) and isinstance(value, str) else value
        for key, value in input.items()
    }


def _shorten(text: str) -> str:
    if len(text) <= LONG_ARGUMENT:
        return text
    return f"{text[:_EXCERPT]}… [{len(text):,} characters; the diff has them all]"


def partial_fields(name: str, input: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of a call whose arguments are still streamed."""
    return {
        "title": single_line(title(name, input, folder)) if input else name,
        "locations": locations_of(name, input, folder),
    }


def single_line(text: str, limit: int = MAX_TITLE) -> str:
    """Return the text in one line that shows its hidden characters; cut to the limit, with an ellipsis."""
    line = revealed_line(text[: limit + 1].strip())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def locations_of(name: str, input: Mapping[str, Any], folder: Path) -> tuple[Location, ...]:
    """Return the file that a call works on, so that an editor can follow."""
    path = input.get("file_path") if name in _FILE_TOOLS else None
    if not isinstance(path, str) or not path or path.startswith("attachment:"):
        return ()
    line = input.get("offset")
    line = line if type(line) is int and 0 < line < 2**32 else None
    return (Location(_absolute(path, folder), line),)


def _diffs(path: str, regions: Iterable[Region], folder: Path) -> tuple[Item, ...]:
    """Return a diff for each changed region of a file."""
    return tuple(_revealed_diff(_absolute(path, folder), region.new, region.old, region.line) for region in regions)


def _at_line(locations: tuple[Location, ...], regions: Sequence[Region]) -> tuple[Location, ...]:
    """Return the locations with the line of the first change."""
    if not regions or not regions[0].line:
        return locations
    return tuple(Location(location.path, regions[0].line) for location in locations)


def proposed_diff(name: str, input: Mapping[str, Any], folder: Path) -> Iterable[Item]:
    """Yield the diff of a call that would change a file, or the plan of one that proposes it."""
    path = input.get("file_path")
    if name == EXIT_PLAN and isinstance(plan := input.get("plan"), str):
        yield Text(revealed(plan))
    if not isinstance(path, str):
        return
    absolute = _absolute(path, folder)
    if name == "Edit" and isinstance(old := input.get("old_string"), str):
        yield _revealed_diff(absolute, str(input.get("new_string", "")), old)
    elif name == "Write" and isinstance(content := input.get("content"), str):
        yield _revealed_diff(absolute, content)


def _absolute(path: str, folder: Path) -> str:
    """Return an absolute path. `~name` stays as it is if there is no such user."""
    return str(folder / os.path.expanduser(path))


def final_fields(
    state: CallState, result: ToolResultBlock, details: Any, folder: Path, *, limit: int | None = None
) -> dict[str, Any]:
    """Return the content, the locations and the raw output of a finished call. A longer text is cut to the limit."""
    stays = (Diff, Terminal, Text) if state.name == EXIT_PLAN else (Diff, Terminal)
    kept: list[Item] = [item for item in state.content if isinstance(item, stays)]
    regions = () if result.is_error else _changed_regions(kept, details)
    if regions:
        kept = [*_diffs(details["path"], regions, folder)]
    has_exited = exit_code_of(details) is not None
    is_shown = any(has_exited if isinstance(item, Terminal) else not result.is_error for item in kept)
    items = [] if is_shown else list(_result_items(result, limit, is_verbatim=state.name in _VERBATIM_TOOLS))
    fields = {"content": (*kept, *items), "raw_output": _raw_output(details)}
    return fields | {"locations": _at_line(state.locations, regions)} if regions else fields


def _changed_regions(shown: Iterable[Item], details: Any) -> tuple[Region, ...]:
    """Return the regions that a call has changed, from its details; none if the file is new."""
    diff = details.get("diff") if isinstance(details, dict) and isinstance(details.get("path"), str) else None
    if not isinstance(diff, str) or not any(isinstance(item, Diff) for item in shown):
        return ()
    regions = regions_of(diff)
    return () if any(not region.old for region in regions) else regions


def status_of(result: ToolResultBlock) -> Status:
    if not result.is_error:
        return "completed"
    return "cancelled" if result.text.startswith(CANCELLED) else "failed"


def exit_code_of(details: Any) -> int | None:
    code = details.get("exit_code") if isinstance(details, dict) else None
    return code if isinstance(code, int) else None


def _result_items(result: ToolResultBlock, limit: int | None, *, is_verbatim: bool) -> Iterable[Item]:
    for block in result.content:
        if isinstance(block, TextBlock) and block.text:
            text = safe_lines(without_colours(block.text if limit is None else _cut(block.text, limit)))
            yield Text(fenced(text) if is_verbatim else text)
        elif isinstance(block, AttachmentBlock):
            yield File(block)


def _cut(text: str, limit: int) -> str:
    more = len(text) - limit
    return text if more <= 0 else f"{text[:limit]}\n… [{more:,} more characters]"


def _raw_output(details: Any) -> Any:
    """Return the details without those that are shown elsewhere, and without values that are too long."""
    if not isinstance(details, dict):
        return UNSET
    kept: dict[str, Any] = {}
    room = _MAX_RAW_OUTPUT
    for key, value in details.items():
        size = len(repr(value))
        if key == "structured_output" and size <= _MAX_STRUCTURED_OUTPUT:
            kept[key] = value
        elif key not in ("diff", "todos", "structured_output", "printed") and size <= room:
            kept[key] = value
            room -= size
    return kept or UNSET


def fenced(text: str) -> str:
    """Return the text in a Markdown code fence, for editors that render all text as Markdown.

    >>> fenced("a `b`")
    '```\\na `b`\\n```'
    """
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.removesuffix(chr(10))}\n{fence}"
