"""What an eval shows: how many tasks a model solves, how sure that is, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean

import msgspec

from outrider.evals.trial import Outcome

Z = 1.96
"""Standard deviations to either side that hold 95 % of a normal distribution."""

Rewards = Mapping[str, Sequence[float]]
"""The rewards of the trials of each task."""


class Figures(msgspec.Struct, frozen=True):
    """The figures of one model."""

    model: str
    tasks: int
    trials: int
    solved: float
    """The share of trials that solved their task; each task counts the same."""
    interval: tuple[float, float]
    """Between which values that share lies, with 95 % confidence, for tasks like these."""
    turns: float
    """A trial, in the mean; so are the following."""
    tokens: float
    seconds: float
    cost: float | None
    """US dollars for all trials; None if a price is not known."""
    always: tuple[str, ...]
    """The tasks that every trial solved."""
    sometimes: tuple[str, ...]
    """The tasks that some trials solved, and others did not."""


def figures_of(outcomes: Iterable[Outcome]) -> list[Figures]:
    """Return the figures of each model, in the order in which models come."""
    by_model: dict[str, list[Outcome]] = {}
    for each in outcomes:
        by_model.setdefault(each.model, []).append(each)
    return [_figures(model, found) for model, found in by_model.items()]


def _figures(model: str, outcomes: Sequence[Outcome]) -> Figures:
    solved = rewards_of(outcomes)
    costs = [each.cost for each in outcomes]
    shares = {task: fmean(found) for task, found in solved.items()}
    return Figures(
        model,
        len(solved),
        len(outcomes),
        fmean(shares.values()),
        wilson(fmean(shares.values()), len(shares)),
        fmean(each.turns for each in outcomes),
        fmean(each.tokens for each in outcomes),
        fmean(each.seconds for each in outcomes),
        None if None in costs else sum(cost for cost in costs if cost is not None),
        tuple(task for task, share in shares.items() if share == 1),
        tuple(task for task, share in shares.items() if 0 < share < 1),
    )


def rewards_of(outcomes: Iterable[Outcome]) -> dict[str, list[float]]:
    """Return for each task whether its trials solved it, as 1 or 0."""
    found: dict[str, list[float]] = {}
    for each in outcomes:
        found.setdefault(each.task, []).append(float(each.is_solved))
    return found


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the interval of a share of so many tasks (Wilson's, 95 %).

    >>> [round(end, 2) for end in wilson(0.5, 20)], [round(end, 2) for end in wilson(1.0, 20)]
    ([0.3, 0.7], [0.84, 1.0])
    """
    spread = Z * sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    middle, scale = share + Z**2 / (2 * count), 1 + Z**2 / count
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
