"""The context window of a session as a bar and a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outrider.cli.styles import BOLD, CYAN, DIM, GREEN, RED, YELLOW, styled
from outrider.coding import sentences
from outrider.text import thousands

if TYPE_CHECKING:
    from outrider.runtime.context import ContextUsage

WIDEST_BAR = 50
_STYLES = {"system prompt": CYAN, "tools": YELLOW, "files": RED, "conversation": GREEN, "free": DIM}
_FULL, _FREE = "█", "░"


def context_lines(usage: ContextUsage, width: int) -> Iterator[str]:
    """Yield how full the window is, a bar with the share of each part, and a table of the parts."""
    parts = sentences.context_parts(usage)
    total = usage.window or usage.used
    yield styled(sentences.context_is(usage), BOLD)
    if usage.window:
        yield _bar(parts, total, max(10, min(WIDEST_BAR, width - 2)))
    yield ""
    for name, tokens in parts.items():
        mark = styled(_FREE if name == "free" else _FULL, _STYLES[name])
        yield f"{mark} {name:<14} {thousands(tokens):>8} {tokens / max(1, total):>6.1%}"


def _bar(parts: dict[str, int], total: int, width: int) -> str:
    """Return the bar. Each part ends where its running total does, so that all parts together are exactly as long."""
    bar, before, end = "", 0, 0
    for name, tokens in parts.items():
        before += tokens
        start, end = end, width if name == "free" else min(width, round(before / total * width))
        bar += styled((_FREE if name == "free" else _FULL) * max(0, end - start), _STYLES[name])
    return bar
