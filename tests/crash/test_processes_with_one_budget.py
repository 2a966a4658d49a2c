"""Four processes share a dollar a day, and one is killed: they exceed it by one request each at most."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from outrider.log.log import Log
from outrider.log.usage_tables import day_of
from tests.crash.nursery import ROOT
from tests.crash.spending import PRICE
from tests.postgres import new_database

PROCESSES, DOLLARS, DEADLINE = 4, 1.0, 60.0


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "log")
    else:
        with new_database(tmp_path_factory) as url:
            yield url


def start(place: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.spending", place, str(DOLLARS)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_they_exceed_it_by_one_request_each_at_most(place: str) -> None:
    if 86_400 - time.time() % 86_400 < DEADLINE:  # midnight in most time zones
        pytest.skip("the day is about to end")
    with ExitStack() as stack:
        processes = [stack.enter_context(start(place)) for _ in range(PROCESSES)]
        for each in processes:
            stack.callback(each.kill)
        for each in processes:
            assert each.stdout
            each.stdout.readline()
        for each in processes:
            assert each.stdin
            each.stdin.write("go\n")
            each.stdin.flush()
        killed, *others = processes
        assert killed.stdout
        for _ in range(2):
            killed.stdout.readline()
        killed.kill()  # while its third request is under way
        asked = [each.communicate(timeout=DEADLINE)[0].splitlines() for each in others]
    assert [lines[-1] for lines in asked] == ["budget"] * len(others)
    with Log(place) as log:
        spent = log.spent(*day_of(time.time()))
        assert DOLLARS <= spent <= DOLLARS + PROCESSES * PRICE + 1e-9
        counted = sum(summary.usage.cost or 0.0 for summary in log.sessions())
        assert spent == pytest.approx(counted)
