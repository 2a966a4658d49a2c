"""What `/hooks`, `/skills` and `/agents` list: where each is from, its state, what was refused, and how to add one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.coding.config.loading import label_of
from outrider.coding.consent.item import waiting_note
from outrider.coding.hooks.hook_files import HookCommand
from outrider.coding.masking import mask_environment_secrets
from outrider.text.visible import one_line, revealed_line, safe_line

if TYPE_CHECKING:
    from outrider.coding.workbench import Workbench

DESCRIPTION_CHARACTERS = 200


def hook_lines(found: Sequence[HookCommand]) -> list[str]:
    """Return a line for each hook, in full, safe for a terminal."""
    return [
        revealed_line(
            f"{each.event}{f' {each.matcher}' if each.matcher else ''}: "
            f"{mask_environment_secrets(each.command)}  ({each.origin}, at most {each.seconds:g} s)"
        )
        for each in found
    ]


def _hooks(bench: Workbench) -> list[str]:
    found = bench.extensions.hooks
    waiting = [waiting_note(found.waiting)] if found.waiting else []
    how = "To add one: hooks.json beside your settings, or .outrider/hooks.json in the project (docs/skills.md)."
    return [*(hook_lines(found.hooks) or ["No hooks run."]), *waiting, *found.notes, how]


def _skills(bench: Workbench) -> list[str]:
    found = bench.project.skills
    rows = [_row(f"/{each.skill.name}", each.skill.description, each.origin) for each in found.found]
    how = "To add one: .agents/skills/NAME/SKILL.md in the project or your home folder (docs/skills.md)."
    return [*(rows or ["No skills."]), *found.refused, *found.replaced, how]


def _agents(bench: Workbench) -> list[str]:
    found = bench.found_profiles
    files = {name: _label(path, bench.folder) for name, path in found.files.items()}
    rows = [_row(each.name, each.description, files.get(each.name, "built in")) for each in found.profiles]
    off = (
        [] if any(tool.name == "Task" for tool in bench.tools) else ["Not used: the agent does not have the tool Task."]
    )
    how = "To add one: .outrider/agents/NAME.md, or agents/NAME.md beside your settings (docs/subagents.md)."
    return [*(rows or ["No sub-agents."]), *off, *found.notes, how]


def _label(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else label_of(path)


def _row(name: str, description: str, origin: str) -> str:
    return f"{name} ({origin}): {one_line(description, DESCRIPTION_CHARACTERS)}"


LISTINGS: dict[str, Callable[[Workbench], list[str]]] = {"hooks": _hooks, "skills": _skills, "agents": _agents}
"""By the name of the command. The last line says how to add one."""


def listed(name: str, bench: Workbench) -> list[str]:
    """Return the lines of a listing, safe for a terminal."""
    return [safe_line(line) for line in LISTINGS[name](bench)]
