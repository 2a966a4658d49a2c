"""Slash commands that a user can type in the editor. Outrider runs them; the model does not see them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Container, Sequence
from functools import partial

from msgspec import UNSET

from outrider.acp.editor_session import DEFAULT_EFFORT, EditorSession, parse_effort
from outrider.acp.schema import AvailableCommand, AvailableCommandInput, ContentBlock, TextContent
from outrider.acp.tool_calls import fenced
from outrider.coding import sentences
from outrider.coding.commands import PromptCommands
from outrider.coding.mcp.server_offers import ServerPrompt, state_lines
from outrider.coding.permissions.question import parse_mode
from outrider.coding.rewind_points import PARSERS
from outrider.errors import OutriderError
from outrider.providers.base import EFFORT_CHOICES
from outrider.text import dollars, thousands

CONTINUE, COMPACT, GOAL, TASKS = "continue", "compact", "goal", "tasks"
"""The commands that the session runs itself, because they take a while."""


def available_commands(editor: EditorSession) -> list[AvailableCommand]:
    """Return our own commands, then those of the user and the project, as they are announced to the editor."""
    hints = {name: hint for name, (hint, _) in _COMMANDS.items()}
    hints |= {COMPACT: "what to keep", GOAL: "a command, or off"}
    hints |= {name: hint for name, (_, _, hint) in PARSERS.items()}
    hints |= {TASKS: "N, or end N", CONTINUE: ""}
    ours = [_announced(name, sentences.COMMANDS[name], hint) for name, hint in hints.items()]
    return [*ours, *_own_commands(editor.bench.prompt_commands, {each.name for each in ours})]


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
    return _announced(prompt.name, prompt.description, prompt.usage)


def _announced(name: str, description: str, hint: str) -> AvailableCommand:
    return AvailableCommand(name, description, AvailableCommandInput(hint) if hint else UNSET)


def _own_commands(commands: PromptCommands, taken: Container[str]) -> list[AvailableCommand]:
    """Return the commands and skills of the user and the project."""
    return [
        _announced(name, description or name, commands.hint(name) or "arguments")
        for name, description in commands.descriptions.items()
        if name not in taken
    ]


def run_command(session: EditorSession, text: str) -> str | None:
    """Run a command and return its output; None if the text is not a command."""
    name, _, argument = text.removeprefix("/").partition(" ")
    if name == CONTINUE and not session.session.is_unfinished:
        return sentences.NOT_INTERRUPTED
    if name == GOAL and argument.strip() in ("", "off"):
        session.session.set_goal("") if argument.strip() else None
        return sentences.goal_is(session.session)
    if name not in _COMMANDS:
        return None
    try:
        return _COMMANDS[name][1](session, argument.strip())
    except OutriderError as error:
        return str(error)


def _model(session: EditorSession, name: str) -> str:
    if name:
        session.set_model(name)
    return sentences.model_is(session.model)


def _effort(session: EditorSession, name: str) -> str:
    effort = parse_effort(name)
    if name and effort is None:
        return f"Unknown effort {name!r}; use one of {', '.join(EFFORT_CHOICES)}."
    if effort:
        session.set_effort(effort)
    return f"Effort: {session.session.agent.effort or DEFAULT_EFFORT}."


def _permissions(session: EditorSession, name: str) -> str:
    mode = parse_mode(name)
    if name and mode not in session.modes:
        return sentences.unknown_mode(name, session.modes)
    if mode:
        session.set_mode(mode)
    return sentences.mode_is(session.mode)


def _tools(session: EditorSession, _: str) -> str:
    servers = session.bench.servers
    tools = (*session.bench.tools, *(servers.tools() if servers else ()))
    described = [(tool.name, tool.description.partition("\n")[0]) for tool in tools]
    described += [(tool.name, sentences.SERVER_TOOL) for tool in session.session.server_tools]
    return "\n".join(f"- **{name}**: {text}" for name, text in described)


def _context(session: EditorSession, wanted: str) -> str:
    lost = sentences.cache_lines(session.log, session.id, wanted)
    if wanted == "turns":
        return "\n".join(f"- {line}" for line in lost)
    usage = session.session.context
    total = usage.window or usage.used
    rows = (
        f"| {name} | {thousands(tokens)} | {tokens / max(1, total):.1%} |"
        for name, tokens in sentences.context_parts(usage).items()
    )
    cached = sentences.cached_is(session.session.total_usage)
    table = ["| part | tokens | share |", "|---|---:|---:|", *rows]
    more = [f"\n{line}" for line in (cached, *lost) if line]
    return "\n".join([f"{sentences.context_is(usage)}.\n", *table, *more])


def _mcp(session: EditorSession, _: str) -> str:
    servers = session.bench.servers
    return "\n".join(f"- {line}" for line in state_lines(servers.statuses() if servers else ())) or "No MCP servers."


def _cost(session: EditorSession, _: str) -> str:
    usage = session.session.total_usage
    cost = dollars(usage.cost) or "unknown"
    spent = (f" {each.text}." for each in session.bench.spent_today(session.log))
    return f"{usage.input_tokens:,} input tokens, {usage.output_tokens:,} output tokens; cost {cost}.{''.join(spent)}"


def _config(session: EditorSession, words: str) -> str:
    from outrider.coding.config.editing import run_config
    from outrider.coding.config.loading import load

    try:
        lines = run_config(session.bench.folder, load(session.bench.folder, environment=os.environ), shlex.split(words))
    except ValueError as error:
        return f"/config: {error}"
    return fenced("\n".join(lines))


def _listed(name: str, session: EditorSession, _: str) -> str:
    from outrider.coding.listings import listed

    *lines, how = listed(name, session.bench)
    shown = fenced("\n".join(lines))
    return f"{shown}\n\n{how}"


_COMMANDS: dict[str, tuple[str, Callable[[EditorSession, str], str]]] = {
    "model": ("a model", _model),
    "effort": ("none, low, medium, high, max or default", _effort),
    "permissions": ("ask, edits, all or plan", _permissions),
    "tools": ("", _tools),
    "context": ("turns, or nothing", _context),
    "mcp": ("", _mcp),
    "cost": ("", _cost),
    "config": ("all, set KEY VALUE, or unset KEY", _config),
    **{name: ("", partial(_listed, name)) for name in ("hooks", "skills", "agents")},
}
"""The hint for the argument of each command, and its function."""
