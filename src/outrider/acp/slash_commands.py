"""Slash commands that a user can type in the editor. Outrider runs them; the model does not see them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import UNSET

from outrider.acp.options import parse_effort
from outrider.acp.schema.content import ContentBlock, TextContent
from outrider.acp.schema.notifications import AvailableCommand, AvailableCommandInput
from outrider.coding import sentences
from outrider.coding.commands.prompting import PromptCommands
from outrider.coding.mcp.prompts import ServerPrompt
from outrider.coding.mcp.states import state_lines
from outrider.coding.permissions.question import Mode, parse_mode
from outrider.conversation.messages import Usage
from outrider.errors import OutriderError
from outrider.providers.base import EFFORT_CHOICES, EffortChoice
from outrider.runtime.context import ContextUsage
from outrider.text import dollars, thousands
from outrider.tools.server_tool import ServerTool
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.mcp.supervision import ServerStatus

CONTINUE, COMPACT, REWIND, TASKS = "continue", "compact", "rewind", "tasks"
"""The commands that the session runs itself, because they take a while."""


class CommandTarget(Protocol):
    """The session that a command reads or changes."""

    @property
    def model(self) -> str:
        """The name of the current model."""

    @property
    def mode(self) -> Mode:
        """The permission mode."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of the agent."""

    @property
    def server_tools(self) -> Sequence[ServerTool]:
        """The tools that the model's API runs."""

    @property
    def server_states(self) -> Sequence[ServerStatus]:
        """The state of each MCP server."""

    @property
    def total_usage(self) -> Usage:
        """The tokens and cost of the session so far."""

    @property
    def context(self) -> ContextUsage:
        """What fills the context window."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the last turn was interrupted and can be continued."""

    @property
    def effort(self) -> str:
        """How much the model thinks."""

    def set_effort(self, effort: EffortChoice) -> None:
        """Change how much the model thinks. Raises OutriderError."""

    def set_model(self, model: str) -> None:
        """Change the model. Raises OutriderError."""

    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode."""


def available_commands() -> list[AvailableCommand]:
    """Return the commands as they are announced to the editor."""
    commands = [
        AvailableCommand(name, sentences.COMMANDS[name], AvailableCommandInput(hint) if hint else UNSET)
        for name, (hint, _) in _COMMANDS.items()
    ]
    compact = AvailableCommand(COMPACT, sentences.COMMANDS[COMPACT], AvailableCommandInput("what to keep"))
    rewind = AvailableCommand(REWIND, sentences.COMMANDS[REWIND], AvailableCommandInput("N, N both, or undo"))
    tasks = AvailableCommand(TASKS, sentences.COMMANDS[TASKS], AvailableCommandInput("N, or end N"))
    return [*commands, compact, rewind, tasks, AvailableCommand(CONTINUE, sentences.COMMANDS[CONTINUE])]


def command_of(blocks: Sequence[ContentBlock]) -> str:
    """Return the text of a prompt that may be a command, without what is attached to it; empty if it is none."""
    text = "".join(block.text for block in blocks if isinstance(block, TextContent)).strip()
    return text if text.startswith("/") else ""


def argument_of(command: str, text: str) -> str | None:
    """Return what follows a command in a text, or "" if nothing does; None if the text is not this command."""
    name, _, argument = text.partition(" ")
    return argument.strip() if name == f"/{command}" else None


def prompt_command(prompt: ServerPrompt) -> AvailableCommand:
    """Return a prompt of an MCP server as it is announced to the editor."""
    return AvailableCommand(
        prompt.name, prompt.description, AvailableCommandInput(prompt.usage) if prompt.usage else UNSET
    )


def own_commands(commands: PromptCommands, taken: Container[str]) -> list[AvailableCommand]:
    """Return the commands and skills of the user and the project, as they are announced to the editor."""
    return [
        AvailableCommand(name, description or name, AvailableCommandInput(commands.hint(name) or "arguments"))
        for name, description in commands.descriptions.items()
        if name not in taken
    ]


def run_command(session: CommandTarget, text: str) -> str | None:
    """Run a command and return its output; None if the text is not a command."""
    name, _, argument = text.removeprefix("/").partition(" ")
    if name == CONTINUE and not session.is_unfinished:
        return sentences.NOT_INTERRUPTED
    if name not in _COMMANDS:
        return None
    try:
        return _COMMANDS[name][1](session, argument.strip())
    except OutriderError as error:
        return str(error)


def _model(session: CommandTarget, name: str) -> str:
    if name:
        session.set_model(name)
    return sentences.model_is(session.model)


def _effort(session: CommandTarget, name: str) -> str:
    effort = parse_effort(name)
    if name and effort is None:
        return f"Unknown effort {name!r}; use one of {', '.join(EFFORT_CHOICES)}."
    if effort:
        session.set_effort(effort)
    return f"Effort: {session.effort}."


def _permissions(session: CommandTarget, name: str) -> str:
    mode = parse_mode(name)
    if name and mode is None:
        return sentences.unknown_mode(name)
    if mode:
        session.set_mode(mode)
    return sentences.mode_is(session.mode)


def _tools(session: CommandTarget, _: str) -> str:
    described = [(tool.name, tool.description.partition("\n")[0]) for tool in session.tools]
    described += [(tool.name, sentences.SERVER_TOOL) for tool in session.server_tools]
    return "\n".join(f"- **{name}**: {text}" for name, text in described)


def _context(session: CommandTarget, _: str) -> str:
    usage = session.context
    total = usage.window or usage.used
    rows = (
        f"| {name} | {thousands(tokens)} | {tokens / max(1, total):.1%} |"
        for name, tokens in sentences.context_parts(usage).items()
    )
    return "\n".join([f"{sentences.context_is(usage)}.\n", "| part | tokens | share |", "|---|---:|---:|", *rows])


def _mcp(session: CommandTarget, _: str) -> str:
    return "\n".join(f"- {line}" for line in state_lines(session.server_states)) or "No MCP servers."


def _cost(session: CommandTarget, _: str) -> str:
    usage = session.total_usage
    cost = dollars(usage.cost) or "unknown"
    return f"{usage.input_tokens:,} input tokens, {usage.output_tokens:,} output tokens; cost {cost}."


_COMMANDS: dict[str, tuple[str, Callable[[CommandTarget, str], str]]] = {
    "model": ("a model", _model),
    "effort": ("none, low, medium, high, max or default", _effort),
    "permissions": ("ask, edits, all or plan", _permissions),
    "tools": ("", _tools),
    "context": ("", _context),
    "mcp": ("", _mcp),
    "cost": ("", _cost),
}
"""The hint for the argument of each command, and its function."""
