"""What Task does with sub-agents in the background: their state, waiting for them, stopping them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.log.background import ID_CHARACTERS
from outrider.subagents.results import last_words
from outrider.text import counted, shorten
from outrider.tools.result import ToolResult

if TYPE_CHECKING:
    from outrider.log.entries import BackgroundTask
    from outrider.runtime.background import Background
    from outrider.runtime.session import Session

SHOWN_CHARACTERS = 2_000
"""Characters of a sub-agent's newest words that its state shows."""


async def manage(background: Background, task: BackgroundTask | None, action: str) -> ToolResult:
    """Do what the model wants with one sub-agent, or with all."""
    if action == "stop":
        if task is None:
            return ToolResult("Nothing was stopped: agent_id is missing.", is_error=True)
        was_working = await background.stop(task, quietly=True)
        return ToolResult(f"{named(task)} {'was stopped' if was_working else 'had ended already'}.")
    chosen = [task] if task else [*background]
    if action == "wait":
        await background.wait([each.session for each in chosen])
        return ToolResult("Ended. What you were not told yet follows." if chosen else "No sub-agent is at work.")
    if task and task.status and (answer := await background.answer(task)):
        is_json = answer[0] in "{["
        return ToolResult(answer, is_json=is_json, note=f"\n\n[{state_of(background, task)} This is its answer.]")
    lines = [state_of(background, each) for each in chosen]
    return ToolResult("\n\n".join(lines) or "There are no sub-agents in the background.")


def named(task: BackgroundTask) -> str:
    """Return a sub-agent by its id and its task."""
    return f"{task.session[:ID_CHARACTERS]} ({task.name}: {task.title})"


def state_of(background: Background, task: BackgroundTask) -> str:
    """Return what a sub-agent does, or how it ended."""
    if task.status:
        return f"{named(task)} has ended: {task.status}."
    child: Session | None = background.child(task)
    progress = progress_of(background, task)
    if child is None:
        return f"{named(task)} {progress}."
    words = shorten(last_words(child), SHOWN_CHARACTERS, "[…]")
    state = f"{named(task)} is at work: {progress}."
    return f"{state} It said last:\n{words}" if words else state


def progress_of(background: Background, task: BackgroundTask) -> str:
    """Return how far a sub-agent at work is, in a few words."""
    child: Session | None = background.child(task)
    if child is None:
        return "waits until another sub-agent ends"
    calls = [call.name for message in child.messages for call in message.tool_calls]
    return f"{counted(len(calls), 'call')}, the newest {calls[-1]}" if calls else "no calls yet"


def unknown(background: Background, id: str) -> ToolResult:
    """Return that no sub-agent has this id."""
    known = ", ".join(named(each) for each in background)
    return ToolResult(f"There is no sub-agent {id!r} in the background. There are: {known or 'none'}.", is_error=True)
