"""The lean form of the coding agent, for models with a small context window: fewer tools, in fewer words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.coding.toolbox import ALL_NAMES
from outrider.providers.base import Provider
from outrider.providers.catalogue.windows import SMALL_WINDOW
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.coding.config.settings import Lean, ToolCalls
    from outrider.coding.permissions.question import Mode

RESULT_CHARACTERS = 2_000
"""Characters of what a search or a command finds: a small model drowns in more, and reads a few of them a second."""
_TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Read": (
        "Read a file. Lines come with numbers, which are not part of it. offset is the first line, if not 1.",
        ("file_path", "offset"),
    ),
    "Write": ("Write a whole file. Read it first if it exists.", ("file_path", "content")),
    "Edit": (
        "Replace a text in a file that you have read. old_string must be in it once, exactly, without line numbers. "
        "With an empty old_string, new_string is added at the end of the file.",
        ("file_path", "old_string", "new_string"),
    ),
    "Grep": ("Search in files for a regular expression. Shows the lines that match.", ("pattern", "path")),
    "Bash": ("Run a shell command and return its output, as in ls -R, python3 or wc -l.", ("command",)),
}
"""The tools of the lean form, with what the model reads about them and the parameters that it sees.

Not Glob: small models call it first, whatever is asked. Not the limit of Read: they read a file line by line.
"""


_LOOKING = ("Read", "Grep", "Bash")
"""The tools that a run without a person begins with: small models write before they have looked."""


def is_lean(wanted: Lean, provider: Provider) -> bool:
    """Return whether an agent gets the lean form: as the setting says, or by the window of its model."""
    if wanted != "auto":
        return wanted == "on"
    if look_up := getattr(provider, "look_up_now", None):
        look_up()
    # Not `window_of`: a model in the price list is one of a vendor, and does without.
    window = getattr(getattr(provider, "capabilities", None), "context_tokens", None)
    return window is not None and window < SMALL_WINDOW


def in_form(provider: Provider, wanted: ToolCalls, *, lean: bool) -> Provider:
    """Return the provider, with the tools in the prompt if that is wanted and its server decodes calls by schemas."""
    change = getattr(provider, "with_prompted_tools", None)
    return change(first=_LOOKING) if change and (wanted == "prompted" or (lean and wanted == "auto")) else provider


def has_prompted_tools(provider: Provider) -> bool:
    """Return whether the prompt describes the tools, and the model writes its calls."""
    return not getattr(getattr(provider, "capabilities", None), "tools", True)


def lean_tools(tools: Iterable[Tool], *, chosen: bool, mode: Callable[[], Mode]) -> list[Tool]:
    """Return the tools in their lean form. Unless the user has chosen them, only the few of that form; and all others
    that are not built in. Commands may write, which the model cannot ask for, unless the `mode` is that for plans.
    """
    kept = (tool for tool in tools if chosen or tool.name in _TOOLS or tool.name not in ALL_NAMES)
    hidden: dict[str, Callable[[], dict[str, Any]]]
    hidden = {
        "Bash": lambda: {"access": "read" if mode() == "plan" else "write"},
        "Grep": lambda: {"output_mode": "content"},
        "Write": lambda: {"careful": True},
    }
    return [_lean(tool, hidden.get(tool.name)) for tool in kept]


def _lean(tool: Tool, hidden: Callable[[], dict[str, Any]] | None) -> Tool:
    if tool.name not in _TOOLS:
        return tool
    description, names = _TOOLS[tool.name]
    schema = tool.signature.schema.json
    properties = {name: _without_words(schema["properties"][name]) for name in names}
    required = [name for name in schema.get("required", ()) if name in names]
    shown = {"type": "object", "properties": properties, "required": required}
    real = msgspec.structs.replace(tool, result_characters=RESULT_CHARACTERS) if tool.name in ("Grep", "Bash") else tool
    stands_for = None if hidden is None else lambda given: (real, hidden() | given)
    return msgspec.structs.replace(tool, description=description, shown=shown, stands_for=stands_for)


def _without_words(schema: Any) -> Any:
    return {key: value for key, value in schema.items() if key not in ("description", "default", "title")}
