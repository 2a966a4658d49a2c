"""Hooks in files: shell commands for events. Find the user's own, and those that the user has agreed to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.loading import label_of
from outrider.coding.consent.command_line import CommandLine, project_line
from outrider.coding.consent.item import ConsentItem, Consents, StartCheck, variables_in
from outrider.coding.places import Place
from outrider.coding.settings_files import MAX_BYTES, read_regular_file
from outrider.environment import config_file, data_folder
from outrider.text import clean

FILES = {".claude": ("settings.json", "settings.local.json"), ".agents": ("hooks.json",), ".outrider": ("hooks.json",)}
"""The files with hooks in each folder for agents."""


class FoundHooks(msgspec.Struct):
    """The hooks of a folder."""

    hooks: list[HookCommand] = []
    waiting: list[ConsentItem] = []
    """The hooks that need the user's consent: they are programs that run on their own."""
    agreed: list[ConsentItem] = []
    notes: list[str] = []
    """What is wrong with a file or a hook. Such a hook is left out; the others are used."""


def find_hooks(places: Iterable[Place], folder: Path, more: Sequence[str] = (), *, own: bool = True) -> FoundHooks:
    """Return the hooks of a folder: the user's `own`, in the files of each place, and in `more` of the settings."""
    found, consents = FoundHooks(), Consents(data_folder())
    users = [config_file().parent / "hooks.json"] if own else []
    for path in (*users, *map(Path, more)):
        found.hooks += _hooks_in(path, label_of(path), None, found.notes)
    for place in places:
        for name in FILES.get(place.path.name, ()):
            path = place.path / name
            for number, hook in enumerate(_hooks_in(path, f"{place.label}/{name}", place, found.notes), 1):
                item = hook_item(hook, path, number, path.parent.parent, folder)
                if consents.is_given(item):
                    found.agreed.append(item)
                    found.hooks.append(msgspec.structs.replace(hook, before_run=StartCheck(item, consents)))
                else:
                    found.waiting.append(item)
    return found


def _hooks_in(path: Path, label: str, place: Place | None, notes: list[str]) -> list[HookCommand]:
    data, problem = _read(path, place)
    if problem:
        notes.append(f"{clean(label)}: {problem}; its hooks are not used")
    found, remarks = read_hooks(data, clean(label)) if data else ([], [])
    notes += remarks
    return found


def hook_item(hook: HookCommand, file: Path, number: int, project: Path, folder: Path) -> ConsentItem:
    """Return what the user agrees to: the hook with this number in a file, and what its command names."""
    matcher = [("for the tools", hook.matcher)] if hook.matcher else []
    names = variables_in([hook.command])
    read = [("reads", f"{name} from the environment of commands, which has no secrets") for name in names]
    where = "in the sandbox, if there is one and hooks.access is not full"
    return ConsentItem(
        kind="hook",
        name=f"{hook.event} {number}",
        file=file,
        declaration=[hook.event, hook.matcher, hook.command, hook.seconds],
        fields=(
            *matcher,
            ("command", hook.command),
            ("ends after", f"{hook.seconds:g} seconds"),
            *read,
            ("runs", f"on its own, {where}, in {folder}"),
        ),
        lines=(hook.line(project, folder),),
    )


def _read(path: Path, place: Place | None) -> tuple[dict[str, Any] | None, str]:
    """Return the content of a file with hooks, and what is wrong with it. A file without them has none."""
    if not path.exists():
        return None, ""
    if place and (problem := place.problem(path)):
        return None, problem
    try:
        content = read_regular_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        return None, f"it cannot be read: {error.strerror if isinstance(error, OSError) else error}"
    try:
        data = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None, "it is not JSON"
    return (data, "") if isinstance(data, dict) and data.get("hooks") else (None, "")


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
_ALIASES = {
    "Todo": ("TodoWrite", "TodoRead"),
    "Edit": ("MultiEdit",),
    "Glob": ("LS",),
    "Task": ("Agent",),
    "AskUser": ("AskUserQuestion",),
}
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
    before_run: Callable[[], str] | None = None
    """Returns why it must not run now, or "". Called in a thread, before each run."""

    def matches(self, tool: str) -> bool:
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
