"""The skills in the system prompt: one line each, and an index to search when there are many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from outrider.prompts import prompt
from outrider.providers.catalogue.windows import estimated_tokens
from outrider.skills.skill import Skill

MOST_TOKENS = 1_500
"""Tokens of the whole list, by our estimate. Paths have more tokens than prose: it must stay below 2,000."""
_SEARCH_TOKENS = 150


class SkillListing(msgspec.Struct, frozen=True):
    """The part of the system prompt, and the lines of the skills that it leaves to the index."""

    text: str
    unlisted: tuple[str, ...] = ()


def list_skills(skills: Sequence[Skill], index: Path | str) -> SkillListing:
    """List the skills, the first ones first. Those that do not fit are in the index, a file of one line each."""
    if not skills:
        return SkillListing("")
    head = prompt("skills")
    lines = [skill_line(skill) for skill in skills]
    left = MOST_TOKENS - estimated_tokens(head)
    costs = [estimated_tokens(line) + 1 for line in lines]
    if sum(costs) <= left:
        return SkillListing("\n".join([head, "", *lines]))
    left -= _SEARCH_TOKENS + estimated_tokens(str(index))
    fitting = 0
    while fitting < len(lines) and costs[fitting] <= left:
        left -= costs[fitting]
        fitting += 1
    search = prompt("skills_search").format(count=len(lines) - fitting, index=index)
    return SkillListing("\n".join([head, "", *lines[:fitting], "", search]), tuple(lines[fitting:]))


def skill_line(skill: Skill) -> str:
    """Return the line of a skill: its name, what it is for, and its file."""
    return f"- {skill.name}: {skill.description} ({skill.path})"
