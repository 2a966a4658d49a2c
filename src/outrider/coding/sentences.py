"""Sentences that the chat, `outrider -p` and the editor agent share: one wording for each fact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.coding.permissions.question import MODE_WORDS, MODES, Mode
from outrider.log.entries import MessageEntry
from outrider.runtime.events import (
    Compacted,
    CompactionStarted,
    Event,
    GoalChecked,
    GoalCheckStarted,
    ResultsCleared,
    SubagentFinished,
)
from outrider.text import counted, dollars, thousands
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.conversation.usage import Usage
    from outrider.log.cache_losses import CacheLoss
    from outrider.log.reader import LogReader
    from outrider.runtime.context import ContextUsage
    from outrider.runtime.session import Session

COMMANDS = {
    "model": "show or change the model",
    "effort": "show or change how much the model thinks",
    "permissions": "show or change the permission mode",
    "tools": "list the tools of the agent",
    "context": "show what fills the context window, or with `turns` which turns lost their prompt cache",
    "compact": "summarise the conversation to make room",
    "mcp": "show the MCP servers and their state",
    "cost": "show the tokens and cost of this session",
    "goal": "work until a command succeeds: /goal COMMAND; /goal shows it, /goal off ends it",
    "tasks": "list commands and sub-agents in the background; /tasks N follows one, /tasks end N ends it",
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
    return f"Model: {name}."


def mode_is(mode: Mode) -> str:
    return f"Permissions: {mode}. {MODE_WORDS[mode]}"


def mode_not_restored(stored: Mode, mode: Mode) -> str:
    """Return why a loaded session does not have the mode that it had."""
    return f"This session was in the mode {stored}. It starts in {mode}, because your settings allow no more."


def unknown_mode(name: str, allowed: Sequence[Mode] = MODES) -> str:
    """Return what to do about a mode that does not exist, or is not allowed on this machine."""
    if name in MODES:
        return f"The permission mode {name} is not allowed on this machine; choose one of {', '.join(allowed)}."
    return f"Unknown permission mode {name!r}; choose one of {', '.join(allowed)}."


def subagent_ended(event: SubagentFinished) -> str:
    """Return that a sub-agent in the background has ended, how, and what became of its worktree."""
    known = {"done": "has finished", "cancelled": "was stopped"}
    how = known.get(event.status, f"did not finish ({event.status.replace('_', ' ')})")
    return f"{event.name}: {event.title} {how}. {event.note}".rstrip()


def compacting(tokens: int) -> str:
    return f"Compacting {thousands(tokens)} tokens"


def doing(event: Event) -> str:
    """Return what goes on from an event on that is neither a reply nor a call, or ""."""
    match event:
        case CompactionStarted(tokens=tokens):
            return compacting(tokens)
        case GoalCheckStarted(goal=goal):
            return f"checking the goal: {goal}"
    return ""


def goal_is(session: Session | None) -> str:
    """Return the goal of a session, and how to change it."""
    if session is None or not session.goal:
        return "There is no goal. /goal COMMAND sets one: the agent works until the command succeeds."
    return f"Goal: {session.goal}. The agent works until it succeeds; /goal off ends it."


def remark(event: Compacted | ResultsCleared | GoalChecked | SubagentFinished) -> str:
    """Return what was done between two replies."""
    if isinstance(event, SubagentFinished):
        return subagent_ended(event)
    if isinstance(event, GoalChecked):
        return f"{'✓' if event.passed else '✗'} {event.text}"
    return shortened(event)


def shortened(event: Compacted | ResultsCleared) -> str:
    """Return what a compaction or a clearing of old results has done."""
    if isinstance(event, ResultsCleared):
        return f"Cleared {counted(event.count, 'old result')}: {thousands(event.tokens)} tokens less"
    return f"Compacted: {thousands(event.tokens_before)} → {thousands(event.tokens_after)} tokens"


def context_is(usage: ContextUsage) -> str:
    if usage.window is None:
        return f"{thousands(usage.used)} tokens; the context window of this model is not known"
    return f"{thousands(usage.used)} of {thousands(usage.window)} tokens ({usage.used / usage.window:.0%})"


def cached_is(usage: Usage | None) -> str:
    """Return how much of the input came from the provider's cache, or "" if there was no input."""
    if usage is None or usage.cached_share is None:
        return ""
    return f"{usage.cached_share:.0%} of the input so far came from the provider's cache."


def cache_lines(log: LogReader, session: str, wanted: str) -> list[str]:
    """Return what /context says about the prompt cache: whether the newest request lost it, or all `turns` that did."""
    losses = log.cache_losses(session) if log.has(session) else []
    if wanted == "turns":
        return [f"{cache_losses(losses)}.", *(safe_line(f"turn {loss.turn}: {loss}") for loss in losses)]
    if not losses or any(isinstance(each.entry, MessageEntry) for each in log.after(session, losses[-1].seq)):
        return []
    return [safe_line(f"The newest request: {losses[-1]}.")]


def cache_losses(losses: Sequence[CacheLoss]) -> str:
    """Return what all requests of a session have lost of their cache."""
    if not losses:
        return "No request has paid again for tokens that were cached"
    tokens, cost = sum(each.tokens for each in losses), sum(each.cost or 0 for each in losses)
    lost = f"{thousands(tokens)} cached tokens paid again{f' (+{dollars(cost)})' if cost else ''}"
    return f"{lost} in {counted(len(losses), 'request')}"


def context_parts(usage: ContextUsage) -> dict[str, int]:
    """Return the tokens of each part of the context, with what is free if that is known."""
    parts = {
        "system prompt": usage.system,
        "tools": usage.tools,
        "files": usage.files,
        "conversation": usage.conversation,
    }
    return parts if usage.free is None else parts | {"free": usage.free}
