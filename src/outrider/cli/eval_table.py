"""The figures of an eval as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.cli.styles import fit
from outrider.evals.figures import Comparison, Figures, Rewards, compared, figures_of, rewards_of
from outrider.evals.trial import Outcome
from outrider.text import counted, dollars, thousands
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


def comparison_lines(now: Sequence[Outcome], before: Sequence[Outcome]) -> Iterator[str]:
    """Yield sentences about what has changed, model by model; models with other names are compared if there is one."""
    models, others = ({each.model: None for each in outcomes} for outcomes in (now, before))
    for model in models:
        other = model if model in others else next(iter(others)) if len(others) == len(models) == 1 else None
        if other is None:
            yield safe_line(f"{model}: the earlier eval does not have it.")
            continue
        found = compared(_rewards(now, model), _rewards(before, other))
        against = "" if other == model else f" against {other}"
        yield safe_line(f"{model}{against}: {_said(found) if found else 'the two evals have no task in common.'}")


def _rewards(outcomes: Sequence[Outcome], model: str) -> Rewards:
    return rewards_of(each for each in outcomes if each.model == model)


def _said(found: Comparison) -> str:
    if not found.better and not found.worse:
        return f"no difference at {counted(found.tasks, 'task')}."
    low, high = found.interval
    split = f"better at {counted(len(found.better), 'task')}, worse at {len(found.worse)} of {found.tasks}"
    sure = "so chance is an unlikely reason" if found.is_real else "which chance explains as well"
    return (
        f"{found.difference * 100:+.0f} points ({low * 100:+.0f} to {high * 100:+.0f}); {split}, {sure} "
        f"(p = {found.chance:.2f})."
        + (f" Better: {', '.join(found.better)}." if found.better else "")
        + (f" Worse: {', '.join(found.worse)}." if found.worse else "")
    )
