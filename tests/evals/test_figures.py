"""The figures of an eval: shares, intervals, and whether a difference is one."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.evals.figures import compared, comparison_lines, figures_of, interval, sign_test, wilson
from outrider.evals.trial import Outcome, standing

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


def failed(task: str, repeat: int = 1, error: str = "HTTP 400") -> Outcome:
    return Outcome(task, "m", repeat, 0.0, "error", 0, 0, None, 9.0, "s", error)


def test_trials_that_ended_with_an_error_say_nothing_of_the_model() -> None:
    (figures,) = figures_of([outcome("a", 1), failed("a", 2), failed("b", error="HTTP 529")])
    assert (figures.tasks, figures.trials, figures.errors, figures.reason) == (1, 3, 2, "a: HTTP 400")
    assert (figures.solved, figures.turns, figures.seconds, figures.cost) == (1, 3, 2, 0.5)
    assert figures.is_known
    (nothing,) = figures_of([failed("a")])
    assert (nothing.is_known, nothing.interval) == (False, (0, 1))
    limit = Outcome("a", "m", 1, 0.0, "max_turns", 50, 100, 0.5, 2.0, "s")
    assert figures_of([limit])[0].errors == 0


def test_an_outage_is_no_loss_in_a_comparison() -> None:
    before = [outcome("a", 1), outcome("b", 1)]
    (said,) = comparison_lines([outcome("a", 1), failed("b")], before)
    assert said == "m: no difference at 1 task. Without trials that ended with an error (1 now, 0 earlier)."
    (said,) = comparison_lines(before, [failed("a"), failed("b")])
    assert "no task in common. Without trials that ended with an error (0 now, 2 earlier)." in said


def test_a_trial_that_was_started_again_counts_once() -> None:
    first, second, later = failed("a"), failed("a", error="HTTP 529"), outcome("a", 1)
    assert standing([first, second]) == [second]
    assert standing([first, later, second]) == [later]
    assert standing([outcome("a", 1), outcome("a", 0)]) == [outcome("a", 1), outcome("a", 0)]


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
