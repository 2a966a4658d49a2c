"""What an eval shows: how many tasks a model solves, how sure that is, what it costs; and against an earlier one."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb, sqrt
from statistics import fmean

import msgspec

from outrider.evals.trial import Outcome
from outrider.text import counted
from outrider.text.visible import safe_line

Z = 1.96
"""Standard deviations to either side that hold 95 % of a normal distribution."""

Rewards = Mapping[str, Sequence[float]]
"""The rewards of the trials of each task."""
RESAMPLES = 2_000
UNLIKELY = 0.05
"""A difference that chance brings about less often than this is one."""


class Figures(msgspec.Struct, frozen=True):
    """The figures of one model."""

    model: str
    tasks: int
    """Those with a trial that did not end with an error."""
    trials: int
    solved: float
    """The share of trials that solved their task; each task counts the same. Errors do not count here and below."""
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
    errors: int = 0
    """The trials that ended with an error, of the API for example: they say nothing of the model."""
    reason: str = ""
    """The task and the text of the first of those errors."""

    @property
    def is_known(self) -> bool:
        """Whether any trial counts. Else the share and the means say nothing."""
        return self.errors < self.trials


def figures_of(outcomes: Iterable[Outcome]) -> list[Figures]:
    """Return the figures of each model, in the order in which models come."""
    by_model: dict[str, list[Outcome]] = {}
    for each in outcomes:
        by_model.setdefault(each.model, []).append(each)
    return [_figures(model, found) for model, found in by_model.items()]


def _figures(model: str, outcomes: Sequence[Outcome]) -> Figures:
    counting = [each for each in outcomes if not each.is_error]
    errors = [f"{each.task}: {each.error}" for each in outcomes if each.is_error]
    costs = [each.cost for each in outcomes if each.tokens or not each.is_error]
    shares = {task: fmean(found) for task, found in rewards_of(counting).items()}
    solved = _mean(shares.values())
    return Figures(
        model,
        len(shares),
        len(outcomes),
        solved,
        wilson(solved, len(shares)) if shares else (0.0, 1.0),
        _mean(each.turns for each in counting),
        _mean(each.tokens for each in counting),
        _mean(each.seconds for each in counting),
        None if None in costs else sum(cost for cost in costs if cost is not None),
        tuple(task for task, share in shares.items() if share == 1),
        tuple(task for task, share in shares.items() if 0 < share < 1),
        len(errors),
        errors[0] if errors else "",
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0


def rewards_of(outcomes: Iterable[Outcome]) -> dict[str, list[float]]:
    """Return for each task whether its trials solved it, as 1 or 0. Those that ended with an error do not count."""
    found: dict[str, list[float]] = {}
    for each in outcomes:
        if not each.is_error:
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


class Comparison(msgspec.Struct, frozen=True):
    """One eval against an earlier one, over the tasks that both have."""

    tasks: int
    difference: float
    """The share of solved trials, minus that of the earlier eval."""
    interval: tuple[float, float]
    better: tuple[str, ...]
    """The tasks that are solved more often now."""
    worse: tuple[str, ...]
    chance: float
    """How often chance alone would give as uneven a split into better and worse."""

    @property
    def is_real(self) -> bool:
        """Whether chance is an unlikely reason."""
        return self.chance < UNLIKELY


def compared(now: Rewards, before: Rewards) -> Comparison | None:
    """Compare two evals. None if they have no task in common."""
    both = [task for task in now if before.get(task)]
    if not both:
        return None
    changes = {task: fmean(now[task]) - fmean(before[task]) for task in both}
    better = tuple(task for task, change in changes.items() if change > 0)
    worse = tuple(task for task, change in changes.items() if change < 0)
    found = list(changes.values())
    return Comparison(len(both), fmean(found), interval(found), better, worse, sign_test(len(better), len(worse)))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of a mean (95 %), by resampling. The same values always give the same interval."""
    chosen = random.Random(0)
    means = sorted(fmean(chosen.choices(values, k=len(values))) for _ in range(RESAMPLES))
    outside = round(0.025 * RESAMPLES)
    return means[outside], means[-1 - outside]


def sign_test(better: int, worse: int) -> float:
    """Return how often a fair coin falls at least as unevenly.

    >>> sign_test(5, 0), sign_test(3, 3)
    (0.0625, 1.0)
    """
    total, most = better + worse, max(better, worse)
    ways = sum(comb(total, count) for count in range(most, total + 1))
    return min(1.0, 2 * ways / float(2**total))


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
        said = _said(found) if found else "the two evals have no task in common."
        yield safe_line(f"{model}{against}: {said}{_left_out(now, model, before, other)}")


def _rewards(outcomes: Sequence[Outcome], model: str) -> Rewards:
    return rewards_of(each for each in outcomes if each.model == model)


def _left_out(now: Sequence[Outcome], model: str, before: Sequence[Outcome], other: str) -> str:
    """Return a sentence about the trials that ended with an error, if there are some."""
    here = sum(each.is_error for each in now if each.model == model)
    there = sum(each.is_error for each in before if each.model == other)
    ended = f"trials that ended with an error ({here} now, {there} earlier)"
    return f" Without {ended}." if here or there else ""


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
