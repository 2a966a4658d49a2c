"""Workers are killed while they run tasks: each result comes once, and no write effect happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batches.trial import Trial
from tests.lengths import only_long


@pytest.mark.parametrize(("tasks", "workers", "kills"), [(30, 2, 3), *only_long((400, 4, 40))])
async def test_results_and_effects_come_once_though_workers_are_killed(
    tmp_path: Path, tasks: int, workers: int, kills: int
) -> None:
    trial = Trial(tmp_path, str(tmp_path / "log"), tasks, workers)
    await trial.run(kills, seed=7)
    assert trial.kills > 0
    trial.judge()
