"""The figures of an eval: shares, intervals, and whether a difference is one."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.evals.figures import compared, figures_of, interval, sign_test, wilson
from outrider.evals.trial import Outcome

shares = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=12)


def outcome(task: str, reward: float, model: str = "m", repeat: int = 1, cost: float | None = 0.5) -> Outcome:
    return Outcome(task, model, repeat, reward, "done", 3, 100, cost, 2.0, "s")


def test_each_task_counts_the_same_and_tasks_that_flip_are_named() -> None:
    found = [outcome("a", 1), outcome("a", 0, repeat=2), outcome("a", 0, repeat=3), outcome("b", 1), outcome("c", 0.5)]
    (figures,) = figures_of(found)
    assert (figures.tasks, figures.trials) == (3, 5)
    assert figures.solved == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert (figures.always, figures.sometimes) == (("b",), ("a",))
    assert (figures.turns, figures.tokens, figures.cost) == (3, 100, 2.5)
    assert figures_of([outcome("a", 1, cost=None)])[0].cost is None
    assert [each.model for each in figures_of([outcome("a", 1, "x"), outcome("a", 1, "y")])] == ["x", "y"]


@given(shares)
def test_an_interval_holds_the_mean_and_narrows_with_more_tasks(values: list[float]) -> None:
    mean = fmean(values)
    low, high = wilson(mean, len(values))
    assert 0 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1
    wider = wilson(mean, 4 * len(values))
    assert wider[1] - wider[0] < high - low
    low, high = interval(values)
    assert min(values) <= low <= high <= max(values)
    assert interval(values) == (low, high)


@given(st.integers(0, 30), st.integers(0, 30))
def test_chance_is_symmetric_and_rarer_for_uneven_splits(better: int, worse: int) -> None:
    assert sign_test(better, worse) == sign_test(worse, better)
    assert 0 < sign_test(better, worse) <= 1
    if better >= worse:
        assert sign_test(better + 1, worse) <= sign_test(better, worse)


def test_a_comparison_says_what_is_better_over_the_tasks_of_both() -> None:
    before = {"a": [0.0, 0.0], "b": [1.0], "c": [0.0], "gone": [1.0]}
    now = {"a": [1.0, 0.0], "b": [0.0], "c": [1.0], "new": [1.0]}
    found = compared(now, before)
    assert found is not None
    assert (found.tasks, found.better, found.worse) == (3, ("a", "c"), ("b",))
    assert found.difference == pytest.approx((0.5 - 1 + 1) / 3)
    assert not found.is_real
    assert compared({"x": [1.0]}, {"y": [1.0]}) is None
    many = {str(number): [1.0] for number in range(8)}
    real = compared(many, {key: [0.0] for key in many})
    assert real is not None
    assert real.is_real
