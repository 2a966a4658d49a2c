"""The instructions of a project for agents, `AGENTS.md` and `CLAUDE.md`, for the system prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outrider.coding.project_texts import ProjectText, project_texts
from outrider.prompts import prompt
from outrider.text import clean

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
