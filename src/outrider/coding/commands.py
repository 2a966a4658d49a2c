"""Commands, skills and prompts of servers that a person calls by name, as in `/review src`: what is sent for them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from outrider.coding.found_skills import FoundSkills
from outrider.coding.mcp.server_offers import is_prompt, prompt_parts, with_resources
from outrider.coding.named_files import FilesHere, NamedFiles
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.places import MOST_ENTRIES, Place
from outrider.coding.project_texts import as_list, split_fields
from outrider.coding.settings_files import read_regular_file
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import ToolUseBlock
from outrider.errors import ConfigError
from outrider.prompts import prompt
from outrider.skills.skill import Skill
from outrider.text import clean, shell_words, shorten
from outrider.text.visible import one_line
from outrider.tools.approval import verdict_of
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers


Kind: TypeAlias = Literal["text", "shell", "file"]
LONGEST_DESCRIPTION = 200
_PIECES = re.compile(r'!`([^`\n]+)`|(?<!\S)@(?:"([^"\n]+)"|([^\s`]*[\w/$*\])}]))')
_ARGUMENT = re.compile(r"\$ARGUMENTS(?:\[(\d{1,2})\])?|\$(\d{1,2})")
_NAME = re.compile(r"[^\W_][\w.-]*(?::[^\W_][\w.-]*)*")


class Command(msgspec.Struct, frozen=True):
    """One command."""

    name: str
    text: str
    """What is sent, before arguments are filled in."""
    description: str = ""
    hint: str = ""
    """Its arguments, as in `[file] [style]`."""
    path: Path | None = None
    """The file; None for a built-in command."""
    origin: str = "built in"
    """For people."""
    remarks: tuple[str, ...] = ()
    """What the file has that is ignored."""

    def pieces(self, arguments: str) -> list[tuple[Kind, str]]:
        """Return the text in pieces, with the arguments filled in: text, shell commands to run, and files to attach.

        Only the command's own text names shell commands: an argument cannot add one.

        >>> Command("x", "Look at @$1: !`git log $1`").pieces("a.py")
        [('text', 'Look at '), ('file', 'a.py'), ('text', ': '), ('shell', 'git log a.py')]
        """
        words = shell_words(arguments)
        pieces = [(kind, _filled(text, arguments, words)) for kind, text in self._template()]
        if arguments.strip() and not _ARGUMENT.search(self.text):
            pieces.append(("text", f"\n\nArguments: {arguments.strip()}"))
        return [piece for piece in pieces if piece[1]]

    @property
    def shell_commands(self) -> list[str]:
        """The shell commands that it runs, as they are written."""
        return [text for kind, text in self._template() if kind == "shell"]

    def _template(self) -> Iterator[tuple[Kind, str]]:
        end = 0
        for found in _PIECES.finditer(self.text):
            yield "text", self.text[end : found.start()]
            yield ("shell", found[1]) if found[1] else ("file", found[2] or found[3])
            end = found.end()
        yield "text", self.text[end:]


def read_command(name: str, text: str, path: Path, origin: str) -> Command:
    """Return the command in a file. Raises ValueError if it cannot be used."""
    if not _NAME.fullmatch(name) or len(name) > 100:
        raise ValueError("the name of a command must have only letters, digits, '-', '_' and '.'")
    fields, body = split_fields(text)
    if not body.strip():
        raise ValueError("the file has no text to send")
    hint = fields.get("argument-hint", "")
    remarks = ["allowed-tools is ignored: a command allows nothing"] if "allowed-tools" in fields else []
    remarks += ["model is ignored: the session keeps its model"] if "model" in fields else []
    return Command(
        name,
        body,
        one_line(str(fields.get("description") or body.strip().partition("\n")[0].lstrip("# ")), LONGEST_DESCRIPTION),
        one_line(f"[{', '.join(as_list(hint))}]" if isinstance(hint, list) else str(hint), LONGEST_DESCRIPTION),
        path,
        origin,
        tuple(remarks),
    )


def _filled(text: str, arguments: str, words: list[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[2] is None and found[1] is None:
            return arguments.strip()
        place = int(found[2]) - 1 if found[2] is not None else int(found[1])
        return words[place] if 0 <= place < len(words) else ""

    return _ARGUMENT.sub(value, text)


MAX_BYTES = 64 * 1024
DEEPEST = 3
"""Folders inside a folder of commands: `frontend/review.md` is `/frontend:review`."""


class FoundCommands(msgspec.Struct, frozen=True):
    """The commands of a folder, and what was refused."""

    commands: tuple[Command, ...] = ()
    refused: tuple[str, ...] = ()
    """Why files are not used, a sentence each."""

    def get(self, name: str) -> Command | None:
        return next((each for each in self.commands if each.name == name), None)


def find_commands(places: Iterable[Place], prefixes: dict[Path, str] | None = None) -> FoundCommands:
    """Return the commands in the folder `commands` of each place. Later places win."""
    init = Command("init", prompt("init"), "write an AGENTS.md for this repository", "what to stress")
    by_name = {init.name: init}
    refused: list[str] = []
    for place in places:
        prefix = (prefixes or {}).get(place.path, "")
        for folder, file in _files(place.below("commands"), DEEPEST):
            path = folder.path / file
            inside = path.relative_to(place.path / "commands").with_suffix("")
            try:
                command = _read(folder, path, ":".join(filter(None, (prefix, *inside.parts))))
            except (OSError, ValueError) as error:
                refused.append(f"{clean(str(path))}: {error}; the command is not used")
            else:
                by_name.pop(command.name, None)
                by_name[command.name] = command
    return FoundCommands(tuple(by_name.values()), tuple(refused))


def _files(folder: Place, depth: int) -> Iterator[tuple[Place, str]]:
    for name in folder.names()[:MOST_ENTRIES]:
        if name.endswith(".md"):
            yield folder, name
        elif depth and not name.startswith(".") and _is_folder(folder, folder.path / name):
            yield from _files(folder.below(name), depth - 1)


def _is_folder(place: Place, path: Path) -> bool:
    """Return whether to look into a folder. Not by a project's links: a thousand that lead back would never end."""
    return path.is_dir() and not (place.is_project and path.is_symlink())


def _read(folder: Place, path: Path, name: str) -> Command:
    if problem := folder.problem(path):
        raise ValueError(problem)
    text = clean(read_regular_file(path, MAX_BYTES).decode("utf-8-sig", errors="replace"))
    return read_command(name, text, path, folder.label)


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


async def expand_prompt(
    parts: Sequence[str | Attachment], commands: PromptCommands, servers: RunningServers | None
) -> list[str | Attachment]:
    """Return the prompt with what it calls in place of the name. Raises ConfigError or McpError, with what to do."""
    first = parts[0] if len(parts) == 1 else None
    if servers and isinstance(first, str) and is_prompt(first, servers):
        return await prompt_parts(first, servers)
    return await with_resources(await commands.expanded(parts), servers)


def calls_by_name(text: str, commands: PromptCommands, servers: RunningServers | None) -> bool:
    """Return whether the text calls something that `expand_prompt` puts in place of the name."""
    return is_prompt(text, servers) or commands.has(text)


def looks_like_command(text: str) -> bool:
    """Return whether the text begins with `/name`; a path at the beginning of a sentence does not."""
    word = text.split(maxsplit=1)[0] if text else ""
    return word.startswith("/") and "/" not in word[1:] and not os.path.lexists(word)


def unknown_command(text: str, names: Iterable[str]) -> str:
    """Return what to do about a prompt that begins with a name that nothing has."""
    from difflib import get_close_matches

    name, known = text[1:].split(maxsplit=1)[0], sorted(names)
    close = get_close_matches(name, known, 1)
    meant = f"did you mean /{close[0]}? " if close else ""
    there = f"There are: {', '.join(f'/{each}' for each in known)}."
    return f"there is no command or skill /{name}; {meant}{there} To send it as text, put a space before it"
