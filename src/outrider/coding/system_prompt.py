"""The system prompt of the coding agent and its sub-agents, with the project's `AGENTS.md` and `CLAUDE.md`.

The model reads those of subfolders with the first result that is about such a folder.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.project_texts import MAX_BYTES, ProjectText, project_texts, texts_below
from outrider.coding.toolbox.workspace import Workspace
from outrider.prompts import prompt
from outrider.text import clean
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool


class SystemPrompt(msgspec.Struct, frozen=True):
    """What a user or an editor changes in the system prompt of a session."""

    replacement: str | None = None
    """Replaces the usual prompt. The project's instructions still follow it."""
    appended: str = ""
    """Follows the prompt and the project's instructions."""


USUAL_PROMPT = SystemPrompt()
MOST_NAMES = 30
"""Files that a model in the lean form is told of."""


def agent_prompt(wanted: SystemPrompt, skills: str, instructions: str, *, lean: bool) -> str:
    usual = prompt("agent_lean" if lean else "agent")
    first = usual if wanted.replacement is None else wanted.replacement
    return _joined(first, skills, instructions, wanted.appended)


def subagent_prompt(task: str, skills: str, instructions: str) -> str:
    """Return the system prompt of a sub-agent; `task` is the prompt of its profile."""
    return _joined(prompt("subagent"), task, skills, instructions)


def lean_situation(names: Sequence[str]) -> str:
    """Return where an agent works and what is there, so that it need not guess a name, or look for one first.

    Without the folder itself: a small model would write the whole path in each call.
    """
    where = f"You are in the folder of the user: paths are relative to it. Today is {date.today().isoformat()}."
    shown = sorted((name for name in names if not name.startswith(".")), key=lambda name: (name.count("/"), name))
    if not shown:
        return where
    more = f" and {len(shown) - MOST_NAMES} more" if len(shown) > MOST_NAMES else ""
    return f"{where} The files: {', '.join(shown[:MOST_NAMES])}{more}."


def situation(folder: Path) -> str:
    """Return where an agent works: the folder, the system and the date."""
    repository = "is in" if any((each / ".git").exists() for each in (folder, *folder.parents)) else "is not in"
    return (
        f"# Where you are\n\n- The folder: {folder}, which {repository} a git repository\n"
        f"- The system: {platform.system()} {platform.machine()}\n- The date: {date.today().isoformat()}"
    )


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


NAMES = ("AGENTS.md", "CLAUDE.md")


def project_instructions(folder: Path, *, home: Path | None = None) -> list[ProjectText]:
    """Return the instructions for a folder, from the outermost folder to the nearest."""
    found = project_texts(folder, lambda _: NAMES, home=home)
    unique = {(each.path.parent, each.text): each for each in reversed(found)}  # once if both files agree
    return list(reversed(unique.values()))


def as_prompt(instructions: Sequence[ProjectText]) -> str:
    """Return the instructions as a part of the system prompt, or ""."""
    if not instructions:
        return ""
    parts = [f"Instructions from {clean(str(each.path))}:\n\n{each.text}" for each in instructions]
    return "\n\n".join([prompt("project_instructions"), *parts])


TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")
"""The tools whose calls are about a folder."""


class NewInstructions:
    """Adds to a result what the model has not read yet of the instructions for its folder."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        """The reply whose calls were given a text, by session and text: they are not in the history yet."""

    def added(self, found: Sequence[ProjectText], context: ToolContext[Any], result: ToolResult) -> ToolResult:
        new = [each for each in found if self._is_new(_heading(each), context)]
        note = "".join(f"\n\n{_heading(each)}\n\n{each.text}" for each in new)
        return msgspec.structs.replace(result, note=note) if note else result

    def _is_new(self, heading: str, context: ToolContext[Any]) -> bool:
        """Return whether neither the conversation as it is sent nor another call of the same reply has a text."""
        key = context.session, heading
        if context.sends(heading) or (context.reply and self._given.get(key) == context.reply):
            return False
        self._given[key] = context.reply
        return True


class FolderInstructions:
    """The instructions of the folders below the project's, for the tools of one workspace."""

    def __init__(self, workspace: Workspace, folders: Sequence[Path], hidden: Callable[[str], bool]) -> None:
        """`folders` are the working folders. `hidden` returns True for a file that may not be read."""
        self._workspace = workspace
        self._folders = [Path(os.path.realpath(each)) for each in folders]
        self._hidden = hidden
        self._new = NewInstructions()

    def around(self, tool: Tool) -> Tool:
        """Return a tool whose results have the instructions of the folders that they are about."""
        if tool.name not in TOOLS:
            return tool
        fields = {name: getattr(tool, name) for name in tool.__struct_fields__}
        return _InstructedTool(**fields, add=self._added)

    async def _added(
        self, tool: str, arguments: Mapping[str, Any], context: ToolContext[Any], result: ToolResult
    ) -> ToolResult:
        if result.is_error:
            return result
        return self._new.added(await context.threads.run(self.found, tool, arguments), context, result)

    def found(self, tool: str, arguments: Mapping[str, Any]) -> list[ProjectText]:
        """Return the texts of all folders from below the project's down to where a call works."""
        place = self._place(tool, arguments)
        top = next((each for each in self._folders if place is not None and place.is_relative_to(each)), None)
        if place is None or top is None:
            return []
        found = texts_below(top, place, NAMES, itself=top != self._folders[0])
        unique = {(each.path.parent, each.text): each for each in found if not self._hidden(str(each.path))}
        size, kept = 0, []
        for each in unique.values():
            size += len(each.text)
            kept += [each] if size <= MAX_BYTES else []
        return kept

    def _place(self, tool: str, arguments: Mapping[str, Any]) -> Path | None:
        """Return the folder that a call was about."""
        if tool == "Bash":
            return Path(os.path.realpath(self._workspace.shell_cwd))
        name = arguments.get("file_path") or arguments.get("path")
        if not isinstance(name, str):
            return None
        try:
            path = Path(os.path.realpath(self._workspace.path(name)))
            return path if path.is_dir() else path.parent
        except (OSError, ValueError, RuntimeError):
            return None


class _InstructedTool(Tool[..., Any], frozen=True, kw_only=True):
    add: Callable[..., Any]

    async def invoke(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
        result = await super().invoke(arguments, context)
        added: ToolResult = await self.add(self.name, arguments, context, result)
        return added


def _heading(text: ProjectText) -> str:
    return f"[Instructions of the project for this folder, from {clean(str(text.path))}:]"
