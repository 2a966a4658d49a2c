"""The skills of a folder: the user's own, the project's, those of plugins; and how the prompt lists them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from outrider.coding.places import Place
from outrider.coding.wildcards import escaped
from outrider.errors import ConfigError
from outrider.filesystem import replace_private
from outrider.skills.skill import FILE, Skill, list_skills, read_skill
from outrider.text import clean


class FoundSkill(msgspec.Struct, frozen=True):
    """A skill, and where it is from."""

    skill: Skill
    origin: str
    """For people."""
    is_project: bool


class FoundSkills(msgspec.Struct, frozen=True):
    """The skills of a folder, and what was refused."""

    found: tuple[FoundSkill, ...] = ()
    """Those of the nearest folder first."""
    refused: tuple[str, ...] = ()
    """Why folders are not used, a sentence each."""
    replaced: tuple[str, ...] = ()
    """Which skills have the name of another that is nearer, a sentence each."""

    @property
    def skills(self) -> list[Skill]:
        """The skills, those of the nearest folder first."""
        return [each.skill for each in self.found]

    def get(self, name: str) -> Skill | None:
        return next((each.skill for each in self.found if each.skill.name == name), None)


def find_skills(places: Iterable[Place], prefixes: dict[Path, str] | None = None) -> FoundSkills:
    """Return the skills in the folder `skills` of each place. Later places win. `prefixes` are the names of plugins."""
    by_name: dict[str, FoundSkill] = {}
    refused: list[str] = []
    replaced: list[str] = []
    for place in places:
        folder = place.below("skills")
        prefix = (prefixes or {}).get(place.path, "")
        for name in folder.names():
            if not (folder.path / name / FILE).exists():
                continue
            try:
                skill = _read(folder, name)
            except ConfigError as error:
                refused.append(f"{error}; the skill is not used")
                continue
            if prefix and skill.remarks:  # the specification of plugins is strict
                refused.append(f"{clean(str(skill.path))}: {skill.remarks[0]}; the skill is not used")
                continue
            if prefix:
                skill = msgspec.structs.replace(skill, name=f"{prefix}:{skill.name}")
            if other := by_name.pop(skill.name, None):
                replaced.append(
                    f"{clean(str(other.skill.path))}: {folder.label} has a skill of this name, which is used"
                )
            by_name[skill.name] = FoundSkill(skill, folder.label, place.is_project)
    return FoundSkills(tuple(reversed(by_name.values())), tuple(refused), tuple(replaced))


def _read(place: Place, name: str) -> Skill:
    for path in (place.path / name, place.path / name / FILE):
        if problem := place.problem(path):
            raise ConfigError(f"{clean(str(path))}: {problem}")
    return read_skill(place.path / name)


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
    return data / "skills"


def readable_rules(found: FoundSkills, folder: Path, index: Path) -> list[str]:
    """Return rules that allow reading the files of skills outside of the folder, and the index."""
    skills = (each.skill.folder for each in found.found)
    # The folder `skills` around a skill, so that few rules do. A linked skill may be beside anything.
    folders = {each.parent if each.parent.name == "skills" else each for each in skills}
    outside = sorted(str(each) for each in folders if not each.is_relative_to(folder))
    return [f"Read({escaped(each)}/**)" for each in (*outside, os.path.realpath(index))]


def _index(data: Path, lines: Sequence[str]) -> Path:
    digest = sha256("\n".join(lines).encode(errors="replace")).hexdigest()[:16]
    return index_folder(data) / f"index-{digest}.txt"
