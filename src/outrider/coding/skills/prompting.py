"""The skills in the prompt of the coding agent: listed, and those that are too many in an index file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from outrider.coding.permissions.patterns import escaped
from outrider.coding.skills.finding import FoundSkills
from outrider.filesystem import replace_private
from outrider.skills.listing import list_skills
from outrider.skills.skill import Skill


def skills_section(skills: Sequence[Skill], data: Path) -> str:
    """Return the part of the system prompt. An index of what does not fit is written below the data folder.

    The name of the index follows from its content, so that the prompt is the same in the next session.
    """
    unlisted = list_skills(skills, _index(data, ())).unlisted
    if not unlisted:
        return list_skills(skills, "").text
    index = _index(data, unlisted)
    replace_private(index, "".join(f"{line}\n" for line in unlisted).encode(errors="replace"))
    return list_skills(skills, index).text


def index_folder(data: Path) -> Path:
    """Return the folder of the indexes."""
    return data / "skills"


def readable_rules(found: FoundSkills, folder: Path, index: Path) -> list[str]:
    """Return rules that allow reading the files of skills outside of the folder, and the index."""
    folders = {_holder(each.skill.folder) for each in found.found}
    outside = sorted(str(each) for each in folders if not each.is_relative_to(folder))
    return [f"Read({escaped(each)}/**)" for each in (*outside, os.path.realpath(index))]


def _holder(skill: Path) -> Path:
    """Return the folder `skills` around a skill, so that few rules do. A linked skill may be beside anything."""
    return skill.parent if skill.parent.name == "skills" else skill


def _index(data: Path, lines: Sequence[str]) -> Path:
    digest = sha256("\n".join(lines).encode(errors="replace")).hexdigest()[:16]
    return index_folder(data) / f"index-{digest}.txt"
