"""A hook in a file: a shell command for one event, and the tools that it is for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.consent.command_line import CommandLine, project_line

EVENTS = {
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "UserPromptSubmit": "prompt_submitted",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "PostToolUseFailure": "after_tool",
    "PreCompact": "before_compaction",
    "Stop": "stop",
    "SubagentStop": "subagent_stop",
    "Notification": "notification",
}
"""The names of the events in files, and those in Python."""
DEFAULT_SECONDS, MOST_SECONDS = 60.0, 600.0
LONGEST_MATCHER = 500
_ALIASES = {"Todo": ("TodoWrite", "TodoRead"), "Edit": ("MultiEdit",), "Glob": ("LS",), "Task": ("Agent",)}
"""Names of the tools in other programs that read such files."""


class HookCommand(msgspec.Struct, frozen=True):
    """One hook."""

    event: str
    """As files have it, such as `PreToolUse`."""
    command: str
    matcher: str = ""
    """A regular expression for the names of tools; empty for all."""
    seconds: float = DEFAULT_SECONDS
    origin: str = ""
    """For people."""
    root: Path | None = None
    """The folder of the plugin that it is from."""
    is_users: bool = False
    """Whether it is the user's own, which no project configures."""
    before_run: Callable[[], str] | None = None
    """Returns why it must not run now, or "". Called in a thread, before each run."""

    def matches(self, tool: str) -> bool:
        """Return whether the hook is for this tool."""
        if self.matcher in ("", "*"):
            return True
        return any(re.fullmatch(self.matcher, name) for name in (tool, *_ALIASES.get(tool, ())))

    def line(self, project: Path, folder: Path) -> CommandLine:
        """Return the command line, for a hook of this project that runs in a folder of it."""
        line = project_line([self.command], project, folder)
        if self.root is None:
            return line
        places = dict.fromkeys(("PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"), str(self.root))
        return msgspec.structs.replace(line, places=line.places | places)


def read_hooks(data: Any, origin: str, root: Path | None = None) -> tuple[list[HookCommand], list[str]]:
    """Return the hooks of a file's content, and a note for each part that cannot be used."""
    hooks: list[HookCommand] = []
    notes: list[str] = []
    table = data.get("hooks", {}) if isinstance(data, dict) else None
    if not isinstance(table, dict):
        return [], [f'{origin}: "hooks" must be a table of events']
    for event, groups in table.items():
        if event not in EVENTS:
            notes.append(f"{origin}: there is no event {event[:40]!r} here; it is ignored")
            continue
        for group in groups if isinstance(groups, list) else [groups]:
            _read_group(event, group, origin, root, hooks, notes)
    return hooks, notes


def _read_group(
    event: str, group: Any, origin: str, root: Path | None, hooks: list[HookCommand], notes: list[str]
) -> None:
    entries = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(entries, list):
        notes.append(f'{origin}: {event} must be a list of {{"matcher": "…", "hooks": […]}}')
        return
    try:
        matcher = _matcher(group.get("matcher", ""))
        hooks += [_hook(event, matcher, entry, origin, root) for entry in entries]
    except ValueError as error:
        notes.append(f"{origin}: {event}: {error}; these hooks are not used")


def _matcher(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_MATCHER:
        raise ValueError("matcher must be a short text")
    if value not in ("", "*"):
        try:
            re.compile(value)
        except (re.error, RecursionError) as error:
            raise ValueError(f"matcher is not a regular expression: {error}") from None
    return value


def _hook(event: str, matcher: str, entry: Any, origin: str, root: Path | None) -> HookCommand:
    if not isinstance(entry, dict) or entry.get("type", "command") != "command":
        raise ValueError('only hooks with "type": "command" can be run')
    command = entry.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise ValueError("command must be a text")
    seconds = entry.get("timeout", DEFAULT_SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:
        raise ValueError(f"timeout must be a number of seconds from 0 to {MOST_SECONDS:g}")
    return HookCommand(event, command, matcher, float(seconds), origin, root)
