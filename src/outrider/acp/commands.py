"""What can be typed after a slash in the editor, for Outrider itself instead of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from outrider.acp.options import as_mode
from outrider.acp.schema.notifications import Command, CommandInput
from outrider.coding.permissions.question import MODES
from outrider.errors import OutriderError
from outrider.text import dollars

if TYPE_CHECKING:
    from outrider.acp.editor_session import EditorSession

CONTINUE = "continue"
"""Not for this file alone: it runs a turn."""


def available() -> list[Command]:
    """The commands, as the editor is told of them."""
    known = [
        Command(name, purpose, CommandInput(hint) if hint else UNSET) for name, (purpose, hint, _) in _COMMANDS.items()
    ]
    return [*known, Command(CONTINUE, "let a turn that was cut off go on")]


def carried_out(held: EditorSession, text: str) -> str | None:
    """What a command has to say; None if the text is not one."""
    name, _, rest = text.strip().removeprefix("/").partition(" ")
    if text.strip() == f"/{CONTINUE}" and not held.session.is_unfinished:
        return "Nothing was cut off."
    if not text.startswith("/") or name not in _COMMANDS:
        return None
    try:
        return _COMMANDS[name][2](held, rest.strip())
    except OutriderError as error:
        return str(error)


def _model(held: EditorSession, name: str) -> str:
    if name:
        held.use_model(name)
    return f"{held.model} answers."


def _permissions(held: EditorSession, name: str) -> str:
    mode = as_mode(name)
    if name and mode is None:
        return f"There is no mode {name!r}; there are {', '.join(MODES)}."
    if mode:
        held.use_mode(mode)
    return f"Permissions: {held.mode}."


def _tools(held: EditorSession, _: str) -> str:
    return "\n".join(f"- **{tool.name}**: {tool.description.partition(chr(10))[0]}" for tool in held.bench.tools)


def _cost(held: EditorSession, _: str) -> str:
    usage = held.session.total_usage
    cost = dollars(usage.cost) or "not known"
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out; cost {cost}."


_COMMANDS: dict[str, tuple[str, str, Callable[[EditorSession, str], str]]] = {
    "model": ("who answers, or another model", "a model", _model),
    "permissions": ("what is allowed without asking", "ask, edits, all or plan", _permissions),
    "tools": ("what the model can do here", "", _tools),
    "cost": ("what this session has used", "", _cost),
}
