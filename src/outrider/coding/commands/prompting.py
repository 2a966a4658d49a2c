"""`/name ARGUMENTS`: a command or a skill becomes the message of the user."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from outrider.coding.commands.command import Command, FoundCommands
from outrider.coding.found_skills import FoundSkills
from outrider.coding.named_files import FilesHere, NamedFiles
from outrider.coding.permissions.approver import PermissionApprover
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import ToolUseBlock
from outrider.errors import ConfigError
from outrider.skills.skill import Skill
from outrider.text import shorten
from outrider.tools.approval import verdict_of
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

MOST_COMMANDS, MOST_FILES = 10, 20
"""Shell commands and files of one command."""
MOST_OUTPUT = 20_000
"""Characters of one shell command's output that are sent."""


class PromptCommands:
    """The commands and skills of a folder that a person can call by name."""

    def __init__(
        self,
        commands: FoundCommands,
        skills: FoundSkills,
        permissions: PermissionApprover,
        tools: Callable[[], Sequence[Tool]],
        folder: Path,
        files: NamedFiles | None = None,
    ) -> None:
        """`tools` are those of the agent: a shell command runs with its Bash, if it has one.

        `files` are those that a command may name; without it, those of the folder.
        """
        self._commands = commands
        self._skills = skills
        self._permissions = permissions
        self._tools = tools
        self._folder = folder
        self._files = files or FilesHere(folder)

    @property
    def descriptions(self) -> dict[str, str]:
        """The description of each command and skill, by name. A command wins over a skill of its name."""
        skills = {skill.name: skill.description for skill in self._skills.skills}
        return skills | {each.name: each.description for each in self._commands.commands}

    def hint(self, name: str) -> str:
        """Return the arguments of a command, as its file has them; empty for none."""
        command = self._commands.get(name)
        return command.hint if command else ""

    def has(self, text: str) -> bool:
        """Return whether a line calls one of them."""
        name, _ = _split(text)
        return text.startswith("/") and bool(self._commands.get(name) or self._skills.get(name))

    async def expanded(self, parts: Sequence[str | Attachment]) -> list[str | Attachment]:
        """Return the parts of a prompt. If its text calls a command, the message of the command takes its place."""
        result: list[str | Attachment] = []
        for part in parts:
            is_call = isinstance(part, str) and self.has(part) and not any(isinstance(each, str) for each in result)
            result += await self.parts(part) if is_call and isinstance(part, str) else [part]
        return result

    async def parts(self, text: str) -> list[str | Attachment]:
        """Return the message that a line such as `/review src` stands for. Raises ConfigError, with what to do."""
        name, arguments = _split(text)
        command = self._commands.get(name)
        if command is None:
            skill = self._skills.get(name)
            assert skill is not None
            return [await asyncio.to_thread(_skill_text, skill, arguments)]
        return await self._filled(command, arguments)

    async def _filled(self, command: Command, arguments: str) -> list[str | Attachment]:
        pieces = command.pieces(arguments)
        for kind, most in (("shell", MOST_COMMANDS), ("file", MOST_FILES)):
            if sum(each == kind for each, _ in pieces) > most:
                raise ConfigError(f"/{command.name} was not sent: it has more than {most} pieces of the kind {kind}")
        said, files = "", []
        for kind, text in pieces:
            if kind == "shell":
                said += await self._output(command, text)
            elif kind == "file" and await asyncio.to_thread(self._files.kinds, [text]) == ["file"]:
                files.append(await self._attached(command, text))
                said += f"@{text}"
            else:
                said += f"@{text}" if kind == "file" else text
        return [said, *files]

    async def _output(self, command: Command, line: str) -> str:
        """Run a shell command as the model would: with its permissions, in its sandbox."""
        bash = self._tool(command, "Bash", f"`{line}`")
        wanted = {"command": line, "description": f"asked for by /{command.name}"}
        use = await self._permitted(command, bash, wanted, f"`{line}`")
        threads = Threads()
        result = await bash.invoke(use.input, ToolContext(CallRef(use.id), self._folder, threads, lambda _: None))
        if result.is_error:
            raise ConfigError(f"/{command.name} was not sent: `{line}` failed: {shorten(result.text, 2_000, '[…]')}")
        return shorten(result.text, MOST_OUTPUT, "\n[{left_out} of {total} characters left out]\n")

    async def _attached(self, command: Command, name: str) -> Attachment:
        path = self._files.located(name)
        read = self._tool(command, "Read", path)
        await self._permitted(command, read, {"file_path": path}, path)
        return await asyncio.to_thread(self._files.attach, path)

    async def _permitted(self, command: Command, tool: Tool, input: dict[str, str], what: str) -> ToolUseBlock:
        use = ToolUseBlock(f"command-{os.urandom(6).hex()}", tool.name, input)
        approve = self._permissions.on_behalf_of(f"/{command.name}")
        if reason := (await verdict_of(approve, use, tool, Threads())).denial:
            raise ConfigError(f"/{command.name} was not sent: {what} was not allowed: {reason}")
        return use

    def _tool(self, command: Command, name: str, what: str) -> Tool:
        found = next((tool for tool in self._tools() if tool.name == name and tool.built_in), None)
        if found is None:
            raise ConfigError(f"/{command.name} was not sent: it needs {name} for {what}, which is not enabled")
        return found


def _split(text: str) -> tuple[str, str]:
    name, *rest = re.split(r"\s+", text.removeprefix("/"), maxsplit=1)
    return name, rest[0].strip() if rest else ""


def _skill_text(skill: Skill, arguments: str) -> str:
    asked = f"\n\n{arguments}" if arguments else ""
    return f"Use the skill {skill.name}. Its files are in {skill.folder}. Its instructions:\n\n{skill.text()}{asked}"
