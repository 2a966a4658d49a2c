"""The system prompt of the coding agent and its sub-agents, with the project's `AGENTS.md` and `CLAUDE.md`."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import msgspec

from outrider.coding.project_texts import ProjectText, project_texts
from outrider.prompts import prompt
from outrider.text import clean


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
