"""The same as `test_kills`, with the log in Postgres: processes are killed, and Postgres itself."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery
from tests.crash.places import keep_in
from tests.crash.test_kills import SEED, points_of, said
from tests.crash.trial import Trial
from tests.lengths import only_long
from tests.log import until
from tests.postgres import Server, new_database, own_server

PARTS = 2
MUST_BE_THERE = {
    "after WITH created AS",
    "after MessageAdded is shown",
    "after WITH held AS",
    "after WITH given AS",
    "before ToolFinished is shown",
    "before WITH given AS",
    "put has acted",
    "the model is asked",
}


CHOSEN = (
    "after WITH created AS:1",
    "before WITH held AS:2",
    "after WITH held AS:5",
    "put has acted:1",
)
"""Points for the short form."""


class Trials:
    """Trials of which each has a database of its own."""

    def __init__(self, nursery: Nursery, folder: Path, databases: pytest.TempPathFactory) -> None:
        self._nursery, self._folder, self._databases = nursery, folder, databases
        self.failures: dict[str, list[str]] = {}
        self.longest = 0.0
        """The seconds of a whole life."""

    def record(self) -> set[str]:
        """Return every point of a whole life."""
        with new_database(self._databases) as url:
            keep_in(self._folder / "whole", url)
            trial = Trial(self._nursery, self._folder / "whole")
            last = trial.live(record=True)
            assert trial.verdict(last) == []
            self.longest = last.seconds
            return set(points_of(trial, 1))

    def judge(self, name: str, **options: object) -> bool:
        """Have a life killed and another go on. Return whether the first was killed."""
        folder = self._folder / name.replace("/", " ")
        with new_database(self._databases) as url:
            keep_in(folder, url)
            trial = Trial(self._nursery, folder)
            killed = trial.live(**options).killed
            if found := trial.verdict(trial.live()):
                self.failures[name] = found
        return killed


@pytest.fixture
def trials(nursery: Nursery, quick_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Trials:
    return Trials(nursery, quick_folder, tmp_path_factory)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", CHOSEN)
def test_a_session_survives_a_kill_at_a_named_point(trials: Trials, point: str) -> None:
    assert trials.judge(point, kill_at=point), "the point is passed in every life"
    assert not trials.failures, said(trials.failures)


@pytest.mark.parametrize("part", only_long(*range(PARTS)))
@pytest.mark.timeout(1800)
def test_a_session_survives_a_kill_at_all_points(trials: Trials, part: int) -> None:
    """An event of each kind is shown the same way as with a folder (`test_kills`): one of them will do."""
    kinds: dict[str, list[str]] = {}
    for point in sorted(trials.record()):
        kinds.setdefault(point.rpartition(":")[0], []).append(point)
    assert kinds.keys() >= MUST_BE_THERE
    chosen = [points[:1] if kind.endswith("is shown") else points for kind, points in kinds.items()]
    ours = [point for points in chosen for point in points][part::PARTS]
    killed = sum(trials.judge(point, kill_at=point) for point in ours)
    assert not trials.failures, said(trials.failures)
    assert killed > 0.7 * len(ours), "most points are passed in every life"


@pytest.mark.parametrize(("part", "kills"), [(0, 1), *only_long((0, 20), (1, 20))])
@pytest.mark.timeout(1800)
def test_a_session_survives_a_kill_at_random_instants(trials: Trials, part: int, kills: int) -> None:
    instants = random.Random(f"{SEED}/{part}")
    trials.record()
    killed = number = 0
    while killed < kills:
        number += 1
        assert number < 8 * kills, "most instants are within a life"
        killed += trials.judge(str(number), kill_after=instants.uniform(0, trials.longest))
    assert not trials.failures, said(trials.failures)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.mark.parametrize(("part", "kills"), [(0, 1), *only_long((0, 10), (1, 10))])
@pytest.mark.timeout(1800)
def test_a_session_goes_on_while_postgres_is_killed(
    nursery: Nursery, server: Server, quick_folder: Path, part: int, kills: int
) -> None:
    instants = random.Random(f"{SEED}/{part}")
    for number in range(kills):
        name = f"killed_{part}_{kills}_{number}"
        server.execute(f"CREATE DATABASE {name}")
        keep_in(quick_folder / name, server.url(name))
        trial = Trial(nursery, quick_folder / name)
        delay = instants.uniform(0, 0.5)

        def kill(delay: float = delay, marks: Path = trial.folder / "marks.jsonl") -> None:
            until(marks.exists)  # it has reached the server: one that was never reached is told at once
            time.sleep(delay)
            server.kill()
            server.start()

        killer = threading.Thread(target=kill)
        trial.settle = killer.join
        killer.start()
        try:
            last = trial.live()
        finally:
            killer.join()
        assert trial.verdict(last) == [], f"after {delay:.3f} s"
