"""Sessions and results of runs as HTML, for notebooks. It is imported when something is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.conversation.html import conversation_html, folded, markdown, plain, preformatted
from outrider.conversation.messages import Usage

if TYPE_CHECKING:
    from outrider.runtime.run import RunResult
    from outrider.runtime.session import Session

MARKS = {"done": "✅", "error": "❌", "cancelled": "⏹"}


def usage_line(usage: Usage) -> str:
    """Return tokens and cost in a few words."""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    return f"{usage.input_tokens:,} input and {usage.output_tokens:,} output tokens{cost}"


def result_html(result: RunResult) -> str:
    """Return the outcome of a run: its status and answer, with the conversation folded."""
    head = f"<p>{MARKS.get(result.status, '⚠')} <b>{plain(result.status)}</b> after {result.turns} turns, "
    head += f"{usage_line(result.usage)}</p>"
    error = preformatted(result.error) if result.error else ""
    conversation = folded("conversation", conversation_html(result.messages, result.store))
    return head + error + markdown(result.text) + conversation


def session_html(session: Session) -> str:
    """Return a session: its model and usage, and the conversation."""
    head = f"<p><b>{plain(session.agent.name)}</b> with {plain(session.provider.name)}, "
    head += f"{len(session.messages)} messages, {usage_line(session.total_usage)}</p>"
    return head + conversation_html(session.messages, session.store)
