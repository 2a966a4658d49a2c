"""How much a call would change in a file: in how many places and lines. Every question about an edit says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.coding.toolbox.files.diffs import changed_blocks
from outrider.coding.toolbox.files.regions import path_in, text_of
from outrider.coding.toolbox.files.replacing import Replacement
from outrider.text import counted, human_size

MAX_BYTES = 16 * 1024 * 1024
"""The largest file that is read to count what changes in it."""


def change_summary(name: str, input: Mapping[str, Any], folder: Path) -> str:
    """Return what a call of Write or Edit would change in a file, or "" for other calls."""
    old, new = input.get("old_string", ""), input.get("new_string" if name == "Edit" else "content", "")
    if name not in ("Edit", "Write") or not isinstance(old, str) or not isinstance(new, str):
        return ""
    path = path_in(folder, input.get("file_path"))
    text = text_of(path, MAX_BYTES) if path else None
    if name == "Edit":
        return _edit_summary(text, old, new, replaces_all=input.get("replace_all") is True)
    if text is not None:
        return _write_summary(text, new)
    return f"{'replaces all by ' if path else 'writes '}{counted(_line_count(new), 'line')}{_why_unread(path)}"


def _edit_summary(text: str | None, old: str, new: str, *, replaces_all: bool) -> str:
    lines = counted(max(_line_count(old), _line_count(new)), "line")
    if text is None or not old:
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
    return f"changes {counted(lines, 'line')} in {counted(len(blocks), 'place')} of a file of {_line_count(old):,}"


def _why_unread(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    return f" in a file of {human_size(size)}"


def _line_count(text: str) -> int:
    return text.count("\n") + bool(text and not text.endswith("\n"))
