"""A third of the tasks wait for answers, workers are killed, and three processes answer at the same moment."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.batches.trial import Trial
from tests.lengths import only_long
from tests.postgres import new_database

CASES = ("tasks", "workers", "kills")


@pytest.mark.parametrize(CASES, [(60, 2, 4), *only_long((1_000, 4, 40))])
@pytest.mark.timeout(600)
async def test_each_task_goes_on_once_after_its_answer(tmp_path: Path, tasks: int, workers: int, kills: int) -> None:
    trial = Trial(tmp_path, str(tmp_path / "log"), tasks, workers, asking=True)
    await trial.run(kills, seed=5)
    assert trial.kills > 0
    trial.judge()


@pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
@pytest.mark.parametrize(CASES, [(30, 2, 2), *only_long((300, 4, 20))])
@pytest.mark.timeout(600)
async def test_each_task_goes_on_once_after_its_answer_on_postgres(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, tasks: int, workers: int, kills: int
) -> None:
    with new_database(tmp_path_factory) as url:
        trial = Trial(tmp_path, url, tasks, workers, queue=url, asking=True)
        await trial.run(kills, seed=9)
        assert trial.kills > 0
        trial.judge()
