"""The system prompt of the coding agent and its sub-agents."""

from __future__ import annotations

import platform
from datetime import date
from pathlib import Path

import msgspec

from outrider.coding.instructions import as_prompt, project_instructions
from outrider.prompts import prompt


class SystemPrompt(msgspec.Struct, frozen=True):
    """What a user or an editor changes in the system prompt of a session."""

    replacement: str | None = None
    """Replaces the usual prompt. The project's instructions still follow it."""
    appended: str = ""
    """Follows the prompt and the project's instructions."""


USUAL_PROMPT = SystemPrompt()


def agent_prompt(folder: Path, wanted: SystemPrompt, skills: str, *, lean: bool) -> str:
    """Return the system prompt of the agent in a folder."""
    usual = prompt("agent_lean" if lean else "agent")
    first = usual if wanted.replacement is None else wanted.replacement
    return _joined(first, skills, _instructions(folder), wanted.appended)


def subagent_prompt(folder: Path, task: str, skills: str) -> str:
    """Return the system prompt of a sub-agent; `task` is the prompt of its profile."""
    return _joined(prompt("subagent"), task, skills, _instructions(folder))


def situation(folder: Path) -> str:
    """Return where an agent works: the folder, the system and the date."""
    repository = "is in" if any((each / ".git").exists() for each in (folder, *folder.parents)) else "is not in"
    return (
        f"# Where you are\n\n- The folder: {folder}, which {repository} a git repository\n"
        f"- The system: {platform.system()} {platform.machine()}\n- The date: {date.today().isoformat()}"
    )


def _instructions(folder: Path) -> str:
    return as_prompt(project_instructions(folder, home=Path.home()))


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))
