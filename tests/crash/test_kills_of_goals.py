"""A process is killed at any commit, request or check of a run with a goal: the next one goes on and loses nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from outrider.log.entries import GoalChecked
from tests.crash.ledger import lines_of
from tests.crash.nursery import Nursery
from tests.crash.pursuing import CHECKS, live
from tests.crash.test_kills_while_compacting import entries_of
from tests.lengths import only_long


@pytest.mark.parametrize(("seed", "count"), [(1, 12), *only_long((2, 1_000))])
def test_a_goal_survives_a_kill_at_random_instants(nursery: Nursery, quick_folder: Path, seed: int, count: int) -> None:
    whole = nursery.run(live, str(quick_folder), record=True)
    assert (whole.error, whole.value["status"], whole.value["goal"]) == ("", "done", "")
    assert len(whole.value["messages"]) == 2 * CHECKS
    points = [line["point"] for line in lines_of(quick_folder, "points", 1)]
    begun = next(index for index, point in enumerate(points) if point == "the model is asked:1")
    checked = [point for point in points if point.startswith("the goal is checked")]
    assert len(checked) == CHECKS
    for number, point in enumerate(
        [checked[1], *random.Random(seed).sample(points[begun:], min(count, len(points) - begun))]
    ):
        folder = quick_folder / str(number)
        folder.mkdir()
        assert not nursery.run(live, str(folder), kill_at=point).error
        kept = entries_of(folder)
        second = nursery.run(live, str(folder), 2)
        assert not second.error, f"killed at {point}: {second.error}"
        assert second.value == whole.value, point
        entries = entries_of(folder)
        assert entries[: len(kept)] == kept
        checks = [entry.passed for entry in entries if isinstance(entry, GoalChecked)]
        assert checks == [False] * (CHECKS - 1) + [True], point
