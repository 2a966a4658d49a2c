"""A skill: a folder with a SKILL.md, which has a name, a description and instructions."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from outrider.errors import ConfigError
from outrider.skills.specification import name_violations, normalized, read_fields, split_header, violations
from outrider.text import clean
from outrider.visible_text import one_line, safe_line
from outrider.yaml_mapping import Value

FILE = "SKILL.md"
MAX_BYTES = 256 * 1024
"""Bytes of a SKILL.md that are read."""
LONGEST_SHOWN = 1024
"""Characters of a description that a model reads."""
_LOOSE_FIELD = re.compile(r"(name|description):[ \t]+(\S.*)")


class Skill(msgspec.Struct, frozen=True):
    """One skill. Its text is read when it is used."""

    name: str
    description: str
    """On one line."""
    path: Path
    """The SKILL.md, with links followed."""
    remarks: tuple[str, ...] = ()
    """Where the file does not follow the specification."""

    @property
    def folder(self) -> Path:
        """The folder with the files of the skill."""
        return self.path.parent

    @classmethod
    def of(cls, skill: Skill | str | Path) -> Skill:
        """Return a skill, given one or its folder. Raises ConfigError."""
        if isinstance(skill, Skill):
            return skill
        if not isinstance(skill, str | Path):
            raise TypeError(f"a skill is a folder with a {FILE}, not {type(skill).__name__}")
        return read_skill(Path(skill))

    def text(self) -> str:
        """Return the instructions, without the fields at the top. Raises ConfigError."""
        return _body(_read(self.path))


def read_skill(folder: Path) -> Skill:
    """Read the skill in a folder. Raises ConfigError if it cannot be used.

    A skill that breaks the specification in a small thing is used, with a remark: many in the world do.
    """
    path = Path(os.path.realpath(folder)) / FILE
    text = _read(path)
    remarks: list[str] = []
    try:
        fields = read_fields(text)
    except ValueError as error:
        fields = _loose_fields(text)
        remarks.append(f"the fields are not YAML as skills have it: {error}")
    else:
        remarks += violations(fields, folder.name)
    described = fields.get("description", "")
    description = one_line(described, LONGEST_SHOWN) if isinstance(described, str) else ""
    if not description:
        reason = remarks[0] if remarks else "the field description is missing or empty"
        raise ConfigError(f"{safe_line(str(folder))}: {reason}")
    return Skill(_name(fields, folder), description, path, tuple(remarks))


def _name(fields: Mapping[str, Value], folder: Path) -> str:
    """Return the name of the file if it is sound, else that of the folder. Raises ConfigError if neither is."""
    for name in (fields.get("name", ""), folder.name):
        if isinstance(name, str) and not list(name_violations(name, name)):
            return normalized(name)
    problem = next(name_violations(fields.get("name") or folder.name, folder.name), "the name is missing")
    raise ConfigError(f"{safe_line(str(folder))}: {problem}")


def _loose_fields(text: str) -> dict[str, Value]:
    """Return name and description of front matter that is not quite YAML, such as a text with a colon in it."""
    try:
        header, _ = split_header(text)
    except ValueError:
        return {}
    found = (_LOOSE_FIELD.fullmatch(line.rstrip()) for line in header.split("\n"))
    # Anchors, tags and collections have no meaning here; a text that begins like one was not meant as a sentence.
    return {each[1]: each[2].strip("\"'") for each in found if each and each[2][0] not in "&*!|>[{%@`"}


def _body(text: str) -> str:
    try:
        return split_header(text)[1]
    except ValueError:
        return text.strip()


def _read(path: Path) -> str:
    """Return the text of a SKILL.md. It may be anything: no link is followed, and no pipe is waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{safe_line(str(path))} cannot be read: {reason}") from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ConfigError(f"{safe_line(str(path))} is not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{safe_line(str(path))} is larger than {MAX_BYTES // 1024} KB")
    return clean(data.decode("utf-8-sig", errors="replace")).replace("\r\n", "\n")
