"""A call in a few words, for those who watch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TELLING = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "Glob": "pattern",
    "Grep": "pattern",
    "Bash": "command",
    "WebFetch": "url",
    "Task": "description",
}
"""The argument that says most about a call."""


def title(name: str, input: Mapping[str, Any], folder: Path | None = None) -> str:
    """The tool and what it is about, in one line of any length; paths inside the folder are relative to it.

    >>> title("Read", {"file_path": "src/a.py"})
    'Read(src/a.py)'
    """
    if name == "Todo":
        return "Todo"
    telling = input.get(_TELLING.get(name, ""))
    if not isinstance(telling, str):
        return f"{name}({', '.join(f'{key}={_short(value)}' for key, value in input.items())})"
    if name == "Task" and isinstance(input.get("subagent_type"), str):
        return f"Task({input['subagent_type']}: {telling})"
    if name in ("Read", "Write", "Edit"):
        telling = shown_path(telling, folder)
    where = input.get("path")
    if name in ("Glob", "Grep") and isinstance(where, str):
        return f"{name}({telling} in {shown_path(where, folder)})"
    return f"{name}({telling}){' in the background' if input.get('run_in_background') else ''}"


def shown_path(name: str, folder: Path | None) -> str:
    """A path as people like to read it; one with `..` as it is, for links may lead it elsewhere."""
    if folder and os.path.isabs(name) and ".." not in name.split("/"):
        inside = os.path.relpath(name, folder)
        if not inside.startswith(".."):
            return inside
    return name


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
