"""Sentences that the chat, `outrider -p` and the editor agent share: one wording for each fact."""

from __future__ import annotations

from outrider.coding.permissions.question import MODE_WORDS, MODES, Mode

COMMANDS = {
    "model": "show or change the model",
    "effort": "show or change how much the model thinks",
    "permissions": "show or change the permission mode",
    "tools": "list the tools of the agent",
    "mcp": "show the MCP servers and their state",
    "cost": "show the tokens and cost of this session",
    "continue": "continue an interrupted turn",
}
"""What the commands do that the chat and editors both have."""
NOT_INTERRUPTED = "No turn was interrupted."
DEMO_ANSWERS = "No API key is set: using the demo model, which is not an LLM. See outrider doctor."


def model_is(name: str) -> str:
    """Return which model answers."""
    return f"Model: {name}."


def mode_is(mode: Mode) -> str:
    """Return the permission mode and what it means."""
    return f"Permissions: {mode}. {MODE_WORDS[mode]}"


def unknown_mode(name: str) -> str:
    """Return what to do about a mode that does not exist."""
    return f"Unknown permission mode {name!r}; choose one of {', '.join(MODES)}."
