"""What the parent reads of a sub-agent that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from outrider.runtime.run import RunResult
from outrider.tools.result import ToolResult

if TYPE_CHECKING:
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
        answer = words or "(The sub-agent returned no text.)"
        return ToolResult(answer, details=details, note=after)
    why = _reason(result)
    last = f"\n\nIts last message was:\n{words}" if words and words not in why else ""
    return ToolResult(f"The sub-agent did not finish: {why}.{last}", is_error=True, details=details, note=after)


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
