"""Marks and figures of runs as notebooks show them. It is imported when something is shown."""

from __future__ import annotations

from outrider.conversation.messages import Usage

MARKS = {"done": "✅", "waiting": "⏳", "error": "❌", "cancelled": "⏹"}


def usage_line(usage: Usage) -> str:
    """Return tokens and cost in a few words."""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    return f"{usage.input_tokens:,} input and {usage.output_tokens:,} output tokens{cost}"
