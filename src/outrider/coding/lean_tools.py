"""The lean form of the coding agent, for models with a small context window: fewer tools, in fewer words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.coding.toolbox import ALL_NAMES
from outrider.providers.base import Provider
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.coding.config.settings import Lean

SMALL_WINDOW = 32_768
"""Tokens: a model with a smaller window gets the lean form."""

_TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Read": (
        "Read a file. Lines come with numbers, which are not part of it. offset is the first line, limit how many.",
        ("file_path", "offset", "limit"),
    ),
    "Write": ("Write a whole file. Read it first if it exists.", ("file_path", "content")),
    "Edit": (
        "Replace a text in a file that you have read. old_string must be in it once, exactly, without line numbers.",
        ("file_path", "old_string", "new_string"),
    ),
    "Glob": ("Find files by a pattern; ** stands for any folders.", ("pattern", "path")),
    "Grep": (
        "Search in files for a regular expression. output_mode content shows the lines.",
        ("pattern", "path", "output_mode"),
    ),
    "Bash": ("Run a shell command and return its output.", ("command",)),
}
"""The tools of the lean form, with what the model reads about them and the parameters that it sees."""


def is_lean(wanted: Lean, provider: Provider) -> bool:
    """Return whether an agent gets the lean form: as the setting says, or by the window of its model."""
    if wanted != "auto":
        return wanted == "on"
    if recall := getattr(provider, "recall", None):
        recall()  # what its server said in an earlier session
    # Not `window_of`: the price list takes a while to load, and its models have large windows.
    window = getattr(getattr(provider, "capabilities", None), "context_tokens", None)
    return window is not None and window < SMALL_WINDOW


def lean_tools(tools: Iterable[Tool], *, chosen: bool) -> list[Tool]:
    """Return the tools in their lean form. Unless the user has chosen them, only the few of that form; and all others
    that are not built in.
    """
    kept = (tool for tool in tools if chosen or tool.name in _TOOLS or tool.name not in ALL_NAMES)
    return [_lean(tool) for tool in kept]


def _lean(tool: Tool) -> Tool:
    if tool.name not in _TOOLS:
        return tool
    description, names = _TOOLS[tool.name]
    schema = tool.parameters
    properties = {name: _without_words(schema["properties"][name]) for name in names}
    required = [name for name in schema.get("required", ()) if name in names]
    shown = {"type": "object", "properties": properties, "required": required}
    return msgspec.structs.replace(tool, description=description, shown=shown)


def _without_words(schema: Any) -> Any:
    return {key: value for key, value in schema.items() if key not in ("description", "default", "title")}
