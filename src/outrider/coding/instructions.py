"""What a project tells those who work on it: `AGENTS.md` and `CLAUDE.md`, for the system prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outrider.coding.project_texts import ProjectText, project_texts
from outrider.prompts import prompt
from outrider.text import clean

NAMES = ("AGENTS.md", "CLAUDE.md")


def project_instructions(folder: Path, *, home: Path | None = None) -> list[ProjectText]:
    """The instructions for a folder, those of the outermost folder first and the nearest last."""
    found = project_texts(folder, lambda _: NAMES, home=home)
    once = {(each.path.parent, each.text): each for each in reversed(found)}  # the same under both names counts once
    return list(reversed(once.values()))


def as_prompt(instructions: Sequence[ProjectText]) -> str:
    """The instructions as a part of the system prompt; empty if there are none."""
    if not instructions:
        return ""
    parts = [f"Instructions from {clean(str(each.path))}:\n\n{each.text}" for each in instructions]
    return "\n\n".join([prompt("project_instructions"), *parts])
