"""A process is killed at each commit around a compaction or a clearing: the next one goes on and loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.log.entries import CompactionEntry, ResultsClearedEntry
from outrider.log.log import Log
from tests.crash.compacting import TURNS, live
from tests.crash.ledger import lines_of
from tests.crash.nursery import Nursery
from tests.lengths import only_long

BEFORE, AFTER = 5, 5
"""Points that are tried before and after the moment at which observers are told."""


def around(points: list[str], moment: str, times: int) -> list[str]:
    """The points around a moment, for the first times that it comes."""
    found = [index for index, point in enumerate(points) if point.rpartition(":")[0] == moment][:times]
    return list(dict.fromkeys(point for at in found for point in points[max(0, at - BEFORE) : at + AFTER]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("moment", "clears", "times"),
    [
        ("Compacted is shown", False, 1),
        ("ResultsCleared is shown", True, 1),
        *only_long(
            ("CompactionStarted is shown", False, 3),
            ("Compacted is shown", False, 3),
            ("ResultsCleared is shown", True, 3),
        ),
    ],
)
def test_a_kill_around_a_compaction_loses_nothing(
    nursery: Nursery, quick_folder: Path, moment: str, clears: bool, times: int
) -> None:
    whole = nursery.run(live, str(quick_folder), clears=clears, record=True)
    assert (whole.error, whole.value["status"], len(whole.value["messages"])) == ("", "done", 2 * TURNS + 2)
    points = around([line["point"] for line in lines_of(quick_folder, "points", 1)], moment, times)
    assert any(point.startswith("before COMMIT") for point in points)
    assert any(point.startswith("after COMMIT") for point in points)
    found: set[int] = set()
    for number, point in enumerate(points):
        folder = quick_folder / str(number)
        folder.mkdir()
        first = nursery.run(live, str(folder), clears=clears, kill_at=point)
        assert not first.error, first.error
        entries = entries_of(folder)
        found.add(sum(isinstance(entry, CompactionEntry | ResultsClearedEntry) for entry in entries))
        second = nursery.run(live, str(folder), 2, clears=clears)
        assert not second.error, f"killed at {point}: {second.error}"
        assert (second.value["status"], second.value["messages"]) == ("done", whole.value["messages"]), point
        assert entries_of(folder)[: len(entries)] == entries
    assert {0, 1} <= found, "some are killed before it is on disk, and some after"


def entries_of(folder: Path) -> list[Any]:
    with Log(folder / "log") as log:
        return [record.entry for found in log.sessions() for record in log.records(found.id)]
