"""A skill: a folder with a SKILL.md, which has a name, a description and instructions; how agents see and read them."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from outrider.errors import ConfigError
from outrider.prompts import prompt
from outrider.providers.catalogue.windows import estimated_tokens
from outrider.text import clean
from outrider.text.visible import one_line, safe_line
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool
from outrider.yaml_mapping import Value, parse_mapping

FILE = "SKILL.md"
MAX_BYTES = 256 * 1024
"""Bytes of a file of a skill that are read."""
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


FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_COMPATIBILITY = 64, 1024, 500


def split_header(text: str) -> tuple[str, str]:
    """Return the YAML between the two `---` and the text below. Raises ValueError if there is none.

    The reference of the specification ends the fields at the next `---`, wherever it is in a line.
    """
    if not text.startswith("---"):
        raise ValueError("the file must begin with its fields, between two lines of ---")
    parts = text.split("---", 2)
    if len(parts) < 3:
        raise ValueError("the fields do not end: a line of --- is missing")
    return parts[1], parts[2].strip()


def read_fields(text: str) -> dict[str, Value]:
    """Return the fields of a SKILL.md. Raises ValueError."""
    return parse_mapping(split_header(text)[0])


def violations(fields: Mapping[str, Value], folder: str) -> Iterator[str]:
    """Yield what the specification does not allow, as sentences without a full stop. `folder` is its name."""
    if unknown := sorted(fields.keys() - set(FIELDS)):
        yield f"the field {unknown[0][:60]!r} is not in the specification"
    if "name" not in fields:
        yield "the field name is missing"
    else:
        yield from name_violations(fields["name"], folder)
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        yield "the field description is missing or empty"
    elif len(description) > LONGEST_DESCRIPTION:
        yield f"the description is longer than {LONGEST_DESCRIPTION} characters"
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield "the field compatibility must be a text"
    elif len(compatibility) > LONGEST_COMPATIBILITY:
        yield f"the field compatibility is longer than {LONGEST_COMPATIBILITY} characters"


def name_violations(name: Value, folder: str) -> Iterator[str]:
    """Yield what is wrong with a name."""
    if not isinstance(name, str) or not name.strip():
        yield "the name must be a text"
        return
    name = normalized(name)
    if len(name) > LONGEST_NAME:
        yield f"the name is longer than {LONGEST_NAME} characters"
    if name != name.lower():
        yield "the name must be in lower case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield "the name must not begin or end with a hyphen, or have two in a row"
    if not all(each.isalnum() or each == "-" for each in name):
        yield "the name must have only letters, digits and hyphens"
    if normalized(folder) != name:
        yield "the name must be that of its folder"


def normalized(name: str) -> str:
    """Return a name in one Unicode form, without spaces around it."""
    return unicodedata.normalize("NFKC", name.strip())


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
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
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


INDEX = "skills-index.txt"
"""The name under which the tools know the index. It is not a file."""
MOST_HITS = 50


def skill_tools(skills: Sequence[Skill], index: Sequence[str]) -> list[Tool]:
    """Return Read, for files of these skills, and Grep for the index if some are only there."""
    folders = [os.path.realpath(skill.folder) for skill in skills]

    def read(file_path: str) -> ToolResult:
        """Read a file of a skill: its SKILL.md, or a file beside it.

        Args:
            file_path: The path of the file.
        """
        path = os.path.realpath(file_path)
        if not any(path.startswith(f"{folder}{os.sep}") for folder in folders):
            return ToolResult(f"{file_path} is not a file of a skill.", is_error=True)
        return _content(Path(path))

    def grep(pattern: str, path: str = INDEX) -> str:
        """Search the index of skills. Returns its lines with the most matches first.

        Args:
            pattern: Words to look for, as in `invoice|receipt`.
            path: The index.
        """
        words = {word.lower() for word in re.findall(r"\w{2,}", pattern)}
        scored = [(sum(word in line.lower() for word in words), line) for line in index]
        hits = sorted((each for each in scored if each[0]), key=lambda each: -each[0])[:MOST_HITS]
        return "\n".join(line for _, line in hits) or "No skill has these words."

    tools = [make_tool(read, name="Read", effect="read")]
    return [*tools, make_tool(grep, name="Grep", effect="read")] if index else tools


def _content(path: Path) -> ToolResult:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ToolResult(f"{path} is not a regular file.", is_error=True)
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return ToolResult(f"{path} cannot be read: {error.strerror}", is_error=True)
    if len(data) > MAX_BYTES:
        return ToolResult(f"{path} is larger than {MAX_BYTES // 1024} KB.", is_error=True)
    return ToolResult(clean(data.decode("utf-8", errors="replace")))
