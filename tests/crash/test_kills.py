"""A process is killed at any instant, and another goes on: nothing shown is lost, nothing is written twice."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.crash.ledger import lines_of
from tests.crash.nursery import Nursery
from tests.crash.trial import Trial
from tests.lengths import only_long

PARTS = 6
"""Into how many tests the points are divided, so that they can run side by side."""
SEED = os.environ.get("CRASH_SEED", "1")
MUST_BE_THERE = {
    "after COMMIT",
    "after MessageAdded is shown",
    "after ToolFinished is shown",
    "after os.replace",
    "before COMMIT",
    "before CREATE TABLE event",
    "before INSERT INTO event",
    "before ToolFinished is shown",
    "before os.fsync",
    "move begins",
    "paint has acted",
    "put has acted",
    "stamp has acted",
    "the model is asked",
}
"""Points without which the tests below would prove little."""
BEGUN = (
    "the model is asked:1",
    "put has acted:1",
    "before ToolFinished is shown:2",
    "move has acted:2",
    "paint has acted:1",
    "before os.replace:4",
    "report has acted:1",
    "after ToolFinished is shown:15",
)
"""Where a first life is killed before the one that takes over is killed as well."""


def points_of(trial: Trial, life: int) -> list[str]:
    """The points that a life passed, in order."""
    return [line["point"] for line in lines_of(trial.folder, "points", life)]


@pytest.fixture(scope="session")
def points(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every point of a whole life. How many commits there are depends on who waits together: three lives are asked."""
    found: set[str] = set()
    for _ in range(3):
        trial = Trial(nursery, tmp_path_factory.mktemp("points"))
        last = trial.live(record=True)
        assert trial.verdict(last) == []
        found.update(points_of(trial, 1))
    return found


def said(failures: dict[str, list[str]]) -> str:
    return "\n".join(f"killed at {point}:\n    " + "\n    ".join(faults) for point, faults in failures.items())


def test_the_points_are_where_the_contract_needs_them(points: set[str]) -> None:
    kinds = {point.rpartition(":")[0] for point in points}
    assert kinds >= MUST_BE_THERE


def one_of_each_kind(points: set[str]) -> list[str]:
    """A point of every kind that must be there."""
    found = {point.rpartition(":")[0]: point for point in sorted(points)}
    return [found[kind] for kind in sorted(MUST_BE_THERE)]


@pytest.mark.parametrize("part", [None, *only_long(*range(PARTS))])
def test_a_session_survives_a_kill_at_the_named_points(
    nursery: Nursery, points: set[str], quick_folder: Path, part: int | None
) -> None:
    failures: dict[str, list[str]] = {}
    ours = one_of_each_kind(points) if part is None else sorted(points)[part::PARTS]
    killed = 0
    for number, point in enumerate(ours):
        trial = Trial(nursery, quick_folder / str(number))
        killed += trial.live(kill_at=point).killed
        if found := trial.verdict(trial.live()):
            failures[point] = found
        else:
            trial.remove()
    assert not failures, said(failures)
    assert killed > 0.8 * len(ours), "most points are passed in every life"


@pytest.mark.parametrize(("part", "kills"), [(0, 8), *only_long((0, 50), (1, 50))])
def test_a_session_survives_a_kill_at_random_instants(
    nursery: Nursery, tmp_path: Path, quick_folder: Path, part: int, kills: int
) -> None:
    folder = tmp_path if part % 2 else quick_folder
    seed = f"{SEED}/{part}"
    instants = random.Random(seed)
    longest = Trial(nursery, folder / "whole").live().seconds
    failures: dict[str, list[str]] = {}
    killed = number = 0
    while killed < kills:
        number += 1
        assert number < 4 * kills, f"most instants are within a life (seed {seed})"
        trial = Trial(nursery, folder / str(number))
        delay = instants.uniform(0, longest)
        # Every other life moves its pages into the database all the time, so that kills fall into that as well.
        options = {"autocheckpoint": number % 2 * 2}
        first = trial.live(kill_after=delay, **options)
        if not first.killed:
            longest = min(longest, first.seconds)
        killed += first.killed
        if found := trial.verdict(trial.live(**options)):
            failures[f"{delay:.4f} s of {longest:.4f} s, seed {seed}, number {number}"] = found
        else:
            trial.remove()
    assert not failures, said(failures)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("every", [6, *only_long(1)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_session_on_a_network_file_system_survives_a_kill_at_every_commit(
    nursery: Nursery, quick_folder: Path, when: str, every: int
) -> None:
    """There the database has a journal to roll back with, and not one to go on with."""
    failures: dict[str, list[str]] = {}
    for commit in range(1, 23, every):
        trial = Trial(nursery, quick_folder / str(commit))
        assert trial.live(kill_at=f"{when} COMMIT:{commit}", on_network=True).killed
        assert not (trial.folder / "log" / "log.db-wal").exists()
        if found := trial.verdict(trial.live(on_network=True)):
            failures[f"{when} COMMIT:{commit}"] = found
        else:
            trial.remove()
    assert not failures, said(failures)


@pytest.mark.long
@pytest.mark.parametrize("begun", [*BEGUN[:2], *only_long(*BEGUN[2:])])
def test_the_process_that_takes_over_may_be_killed_as_well(nursery: Nursery, quick_folder: Path, begun: str) -> None:
    first = Trial(nursery, quick_folder / "first")
    assert first.live(kill_at=begun).killed
    rehearsal = first.copy(quick_folder / "rehearsal")
    assert rehearsal.verdict(rehearsal.live(record=True)) == []
    failures: dict[str, list[str]] = {}
    # Lives that take over have most of their points in common: every other one will do, in turns.
    for number, point in list(enumerate(until_it_has_caught_up(points_of(rehearsal, 2))))[BEGUN.index(begun) % 2 :: 2]:
        trial = first.copy(quick_folder / str(number))
        trial.live(kill_at=point)
        if found := trial.verdict(trial.live()):
            failures[f"{begun}, then {point}"] = found
        else:
            trial.remove()
    assert not failures, said(failures)


def until_it_has_caught_up(points: Iterable[str]) -> Iterable[str]:
    """The points of a life up to the moment when it is where the one before it was: it asks the model."""
    for point in points:
        yield point
        if point == "the model is asked:1":
            return


@pytest.mark.long
@pytest.mark.parametrize("point", ["before COMMIT:3", *only_long("after COMMIT:3", "after COMMIT:4")])
def test_a_session_whose_every_process_is_killed_still_comes_to_its_end(
    nursery: Nursery, quick_folder: Path, point: str
) -> None:
    trial = Trial(nursery, quick_folder / "trial")
    for _ in range(60):
        last = trial.live(kill_at=point)
        if not last.killed:
            break
    assert trial.verdict(last) == []
    assert len(trial.states) > 5


@pytest.mark.long
@pytest.mark.parametrize(
    "point", ["put has acted:1", *only_long("before COMMIT:9", "after COMMIT:12", "after os.replace:3")]
)
def test_interpreters_of_their_own_fare_no_worse(nursery: Nursery, tmp_path: Path, point: str) -> None:
    trial = Trial(nursery, tmp_path / "trial")
    assert trial.live_in_an_interpreter_of_its_own(point).killed
    assert trial.verdict(trial.live_in_an_interpreter_of_its_own()) == []
