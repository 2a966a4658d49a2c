"""What a call changes in a file: the changed regions, each with its line; and how many lines in how many places."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.toolbox.files.diffs import LINE_CHARACTERS, changed_blocks, changes
from outrider.coding.toolbox.files.line_ranges import line_count
from outrider.coding.toolbox.files.regular_files import open_regular
from outrider.coding.toolbox.files.replacing import Replacement
from outrider.coding.toolbox.tool_errors import ToolCallError
from outrider.conversation.encodings import text_encoding
from outrider.text import clean, counted, human_size

MAX_BYTES = 1024 * 1024
"""The largest file that is read to show what a call would change."""
COUNTED_BYTES = 16 * 1024 * 1024
"""The largest file that is read to count what changes in it."""
MAX_PROPOSED = 262_144
"""Characters of the changed lines and those around them, above which a proposed change is not shown as regions."""
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,\d+)? @@")
_LEFT_OUT = "… "


class Region(msgspec.Struct, frozen=True):
    """A part of a file before and after a change, with a few equal lines around it."""

    line: int
    """The number of its first line, before and after the change; 0 if the file was empty or new."""
    old: str
    new: str


def regions_of(diff: str, *, longest: int = LINE_CHARACTERS) -> tuple[Region, ...]:
    """Return the regions of a unified diff; none if something was left out of it, as of lines above the longest.

    >>> regions_of("@@ -1 +1 @@\\n-one\\n+1\\n")
    (Region(line=1, old='one\\n', new='1\\n'),)
    """
    regions: list[Region] = []
    for hunk in re.split(r"^(?=@@ )", diff, flags=re.MULTILINE)[1:]:
        header, _, body = hunk.partition("\n")
        found = _HEADER.match(header)
        lines = body.removesuffix("\n").split("\n")
        region = _region(int(found[3]), lines) if found and max(map(len, lines)) <= longest else None
        if region is None:
            return ()
        regions.append(region)
    return tuple(regions)


def _region(line: int, lines: list[str]) -> Region | None:
    old: list[str] = []
    new: list[str] = []
    last = " "
    for each in lines:
        sign, text = each[:1], each[1:]
        if sign == "\\":  # no line feed at the end of the file
            for side in _sides(last, old, new):
                side[-1] = side[-1].removesuffix("\n")
            continue
        if each.startswith(_LEFT_OUT) or sign not in (" ", "-", "+"):
            return None
        for side in _sides(sign, old, new):
            side.append(f"{text}\n")
        last = sign
    return Region(line, "".join(old), "".join(new))


def _sides(sign: str, old: list[str], new: list[str]) -> list[list[str]]:
    return {"-": [old], "+": [new]}.get(sign, [old, new])


def proposed_regions(name: str, input: Mapping[str, Any], folder: Path) -> tuple[Region, ...]:
    """Return what a call of Write or Edit would change in a file of the folder; none if that cannot be told."""
    return regions_of(proposed_diff(name, input, folder), longest=MAX_PROPOSED)


def proposed_diff(name: str, input: Mapping[str, Any], folder: Path) -> str:
    """Return the same as a unified diff without file names, or ""."""
    path = _path_in(folder, input.get("file_path")) if name in ("Edit", "Write") else None
    old = _text_of(path, MAX_BYTES) if path else None
    new = None if old is None else _changed(name, input, old)
    if old is None or new is None:
        return ""
    lines = list(changes(old, new))
    return clean("".join(f"{line}\n" for line in lines)) if sum(map(len, lines)) <= MAX_PROPOSED else ""


def _path_in(folder: Path, name: object) -> Path | None:
    """Return the path of an existing file in the folder. What is outside is not read before the call is allowed."""
    if not isinstance(name, str) or not name or "\0" in name:
        return None
    try:
        path = Path(os.path.realpath(folder / os.path.expanduser(clean(name))))
        return path if path.is_relative_to(os.path.realpath(folder)) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _text_of(path: Path, limit: int) -> str | None:
    """Return the text of a file; None if it is no text, is larger than the limit in bytes, or cannot be read."""
    try:
        with open_regular(path, path.name) as file:
            data = file.read(limit + 1)
    except (ToolCallError, OSError):
        return None
    encoding = text_encoding(data)
    if len(data) > limit or encoding is None:
        return None
    try:
        return clean(encoding.decode(data))
    except UnicodeDecodeError:
        return None


def _changed(name: str, input: Mapping[str, Any], old: str) -> str | None:
    content = input.get("content")
    if name == "Write":
        return content if isinstance(content, str) else None
    before, after = input.get("old_string"), input.get("new_string", "")
    if name != "Edit" or not isinstance(before, str) or not isinstance(after, str) or before == after:
        return None
    replacement = Replacement.within(old, before, after)
    places = replacement.places()
    return replacement.apply() if places and (len(places) == 1 or input.get("replace_all") is True) else None


def change_summary(name: str, input: Mapping[str, Any], folder: Path) -> str:
    """Return what a call of Write or Edit would change in a file, or "" for other calls."""
    old, new = input.get("old_string", ""), input.get("new_string" if name == "Edit" else "content", "")
    if name not in ("Edit", "Write") or not isinstance(old, str) or not isinstance(new, str):
        return ""
    path = _path_in(folder, input.get("file_path"))
    text = _text_of(path, COUNTED_BYTES) if path else None
    if name == "Edit":
        return _edit_summary(text, old, new, replaces_all=input.get("replace_all") is True)
    if text is not None:
        return _write_summary(text, new)
    return f"{'replaces all by ' if path else 'writes '}{counted(line_count(new), 'line')}{_why_unread(path)}"


def _edit_summary(text: str | None, old: str, new: str, *, replaces_all: bool) -> str:
    lines = counted(max(line_count(old), line_count(new)), "line")
    if not old:
        return f"adds {counted(line_count(new), 'line')} at the end"
    if text is None:
        return f"changes {lines} {'in every place' if replaces_all else 'in 1 place'} that has the text"
    replacement = Replacement.within(text, old, new)
    places = replacement.count()
    if not places or (places > 1 and not replaces_all):
        return f"changes nothing: the text is in {counted(places, 'place')}"
    if "\n" in replacement.old.removesuffix("\n") or "\n" in replacement.new.removesuffix("\n"):
        lines = counted(places * sum(map(max, changed_blocks(replacement.old, replacement.new))), "line")
    else:
        lines = counted(sum(replacement.old in line for line in replacement.text.splitlines(keepends=True)), "line")
    return f"changes {lines} in {counted(places, 'place')}"


def _write_summary(old: str, new: str) -> str:
    blocks = changed_blocks(old, new)
    if not blocks:
        return "changes nothing"
    lines = sum(max(removed, added) for removed, added in blocks)
    return f"changes {counted(lines, 'line')} in {counted(len(blocks), 'place')} of a file of {line_count(old):,}"


def _why_unread(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    return f" in a file of {human_size(size)}"
