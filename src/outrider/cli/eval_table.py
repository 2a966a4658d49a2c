"""The figures of an eval as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.cli.styles import fit
from outrider.evals.figures import Figures, figures_of
from outrider.evals.trial import Outcome
from outrider.text import dollars, thousands
from outrider.text.visible import safe_line

LONGEST_MODEL = 36


def table_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a row for each model, and the tasks whose trials disagree."""
    found = figures_of(outcomes)
    rows = [["model", "solved", "95 %", "trials", "turns", "tokens", "seconds", "cost"], *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        name, *figures = row
        cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True))]
        lines.append("  ".join(cells))
    for each in found:
        if each.sometimes:
            lines.append(safe_line(f"{each.model}: some trials solve {', '.join(each.sometimes)}; others do not."))
    return lines


def _row(figures: Figures) -> list[str]:
    low, high = figures.interval
    return [
        fit(safe_line(figures.model), LONGEST_MODEL),
        f"{figures.solved:.0%}",
        f"{low:.0%}-{high:.0%}",
        str(figures.trials),
        f"{figures.turns:.1f}",
        thousands(round(figures.tokens)),
        f"{figures.seconds:.1f}",
        "unknown" if figures.cost is None else dollars(figures.cost) or "$0",
    ]
