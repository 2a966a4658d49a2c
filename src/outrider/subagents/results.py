"""What the parent reads of a sub-agent: what it does in the background, and its result."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import files_in
from outrider.conversation.store import read_stored
from outrider.errors import AttachmentError
from outrider.log.background import ID_CHARACTERS
from outrider.runtime.run import RunResult
from outrider.text import counted, shorten
from outrider.tools.result import ToolResult

if TYPE_CHECKING:
    from outrider.log.entries import BackgroundTask
    from outrider.runtime.background import Background
    from outrider.runtime.session import Session
    from outrider.subagents.profile import Profile


_STATUS_TEXTS = {
    "max_turns": "its turns were used up",
    "max_total_tokens": "the tokens were used up",
    "max_cost": "the budget was used up",
    "budget": "today's budget was used up",
    "max_seconds": "its time was used up",
    "max_repeats": "it repeated the same calls again and again",
    "cancelled": "it was cancelled",
}


def tool_result(profile: Profile, child: Session, result: RunResult[Any], note: str = "") -> ToolResult:
    """Return the last words of the sub-agent, or its data as JSON. `note` is what became of its worktree."""
    details: dict[str, Any] = {
        "session": child.id,
        "profile": profile.name,
        "status": result.status,
        "turns": result.turns,
        "cost": result.usage.cost,
    }
    after = f"\n\n{note}" if note else ""
    if note:
        details |= {"worktree": note.strip("[]")}
    if result.value is not UNSET:
        details |= {"structured_output": result.structured_output}
        return ToolResult(result.text, details=details, is_json=True, note=after)
    words = result.text if result.text.strip() else last_words(child)
    if result.status == "done":
        files = _files(child, result)
        answer = words or ("" if files else "(The sub-agent returned no text.)")
        return ToolResult(answer, files, details=details, note=after)
    why = _reason(result)
    last = f"\n\nIts last message was:\n{words}" if words and words not in why else ""
    return ToolResult(f"The sub-agent did not finish: {why}.{last}", is_error=True, details=details, note=after)


def _files(child: Session, result: RunResult[Any]) -> list[Attachment]:
    """Return the files of the last reply, such as pictures that the model made, or of the final result."""
    found: list[Attachment] = []
    for block in files_in(result.messages[-1]) if result.messages else ():
        with suppress(AttachmentError):  # its bytes are gone: the parent has the words all the same
            found.append(Attachment(read_stored(child.store, block), block.mime_type, block.name, block.description))
    return found


def without_denial(result: RunResult[Any]) -> RunResult[Any]:
    """Return the result of a run. One that a denial has ended was cancelled, and the denial is no answer."""
    last = result.messages[-1].tool_results if result.status == "done" else ()
    if result.value is not UNSET or not any(each.is_error for each in last):
        return result
    return msgspec.structs.replace(result, status="cancelled", error=result.text, text="")


def last_words(child: Session) -> str:
    """Return the newest text of the sub-agent: its last reply may be empty."""
    said = (message.text for message in reversed(child.messages) if message.role == "assistant")
    return next((text for text in said if text.strip()), "")


def _reason(result: RunResult[Any]) -> str:
    """Return why a sub-agent did not finish. An error that says more than a limit comes with it or in its place."""
    limit = _STATUS_TEXTS.get(result.status, "")
    if result.status == "max_repeats" and result.error:
        return result.error
    return ": ".join(filter(None, (limit, result.error))) or result.status


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
