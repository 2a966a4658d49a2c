"""The tools with which an agent without file tools reads its skills. They reach nothing else."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from outrider.skills.skill import Skill
from outrider.text import clean
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

INDEX = "skills-index.txt"
"""The name under which the tools know the index. It is not a file."""
MAX_BYTES = 256 * 1024
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
