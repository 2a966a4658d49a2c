"""Sentences that the chat, `outrider -p` and the editor agent share: one wording for each fact."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.coding.permissions.question import MODE_WORDS, MODES, Mode
from outrider.runtime.events import Compacted, ResultsCleared
from outrider.text import counted, thousands

if TYPE_CHECKING:
    from outrider.runtime.context import ContextUsage

COMMANDS = {
    "model": "show or change the model",
    "effort": "show or change how much the model thinks",
    "permissions": "show or change the permission mode",
    "tools": "list the tools of the agent",
    "context": "show what fills the context window",
    "compact": "summarise the conversation to make room",
    "mcp": "show the MCP servers and their state",
    "cost": "show the tokens and cost of this session",
    "tasks": "list commands that run in the background; /tasks N follows one, /tasks end N ends it",
    "rewind": "go back to an earlier message; /rewind N shows what it does, /rewind undo",
    "undo": "undo the last turn: its message and its changes to files; again goes further back",
    "redo": "take back the last undo",
    "config": "show the settings that differ from the defaults; /config all, /config set KEY VALUE",
    "hooks": "list the hooks and where they come from",
    "skills": "list the skills and where they come from",
    "agents": "list the sub-agents and where they come from",
    "continue": "continue an interrupted turn",
}
"""What the commands do that the chat and editors both have."""
SERVER_TOOL = "The model's API runs it."
NOT_INTERRUPTED = "No turn was interrupted."
NO_KEY = (
    "No API key is set. To enter one: outrider login. To look around without one: /model demo, which is not an LLM."
)


def model_is(name: str) -> str:
    """Return which model answers."""
    return f"Model: {name}."


def mode_is(mode: Mode) -> str:
    """Return the permission mode and what it means."""
    return f"Permissions: {mode}. {MODE_WORDS[mode]}"


def stored_rules(rules: Sequence[str], file: Path, *, is_repository: bool) -> str:
    """Return which rules an "always" has stored, where, and how to remove them."""
    scope = "this repository, with its subfolders and worktrees" if is_repository else "this folder"
    undo = shlex.join(("outrider", "config", "forget", *rules))
    return (
        f"Stored for {scope}: {', '.join(rules)} (in {file}). "
        f"To undo it: {undo} (an open session keeps it until it ends)."
    )


def mode_not_restored(stored: Mode, mode: Mode) -> str:
    """Return why a loaded session does not have the mode that it had."""
    return f"This session was in the mode {stored}. It starts in {mode}, because your settings allow no more."


def unknown_mode(name: str) -> str:
    """Return what to do about a mode that does not exist."""
    return f"Unknown permission mode {name!r}; choose one of {', '.join(MODES)}."


def compacting(tokens: int) -> str:
    """Return that the conversation is being summarised."""
    return f"Compacting {thousands(tokens)} tokens"


def shortened(event: Compacted | ResultsCleared) -> str:
    """Return what a compaction or a clearing of old results has done."""
    if isinstance(event, ResultsCleared):
        return f"Cleared {counted(event.count, 'old result')}: {thousands(event.tokens)} tokens less"
    return f"Compacted: {thousands(event.tokens_before)} → {thousands(event.tokens_after)} tokens"


def context_is(usage: ContextUsage) -> str:
    """Return how full the context window is."""
    if usage.window is None:
        return f"{thousands(usage.used)} tokens; the context window of this model is not known"
    return f"{thousands(usage.used)} of {thousands(usage.window)} tokens ({usage.used / usage.window:.0%})"


def context_parts(usage: ContextUsage) -> dict[str, int]:
    """Return the tokens of each part of the context, with what is free if that is known."""
    parts = {
        "system prompt": usage.system,
        "tools": usage.tools,
        "files": usage.files,
        "conversation": usage.conversation,
    }
    return parts if usage.free is None else parts | {"free": usage.free}
