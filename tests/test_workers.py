"""Tests in forked workers (tests/workers.py): all of them run once, whatever becomes of a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_suite(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    """Run a pytest of its own with two workers, and return its exit code and what it said."""
    (folder / "checks").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = checks\n")
    for name, text in files.items():
        (folder / "checks" / f"{name}.py").write_text(text)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"),
            *("-p", "tests.workers", "--workers", "2", *arguments),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ended.returncode, ended.stdout + ended.stderr


SHARED = """
import pytest
from pathlib import Path

@pytest.fixture(scope="module")
def shared():
    with Path("made").open("a") as file:
        file.write("x")

@pytest.mark.parametrize("n", range(60))
def test_each(n, shared, tmp_path):
    (tmp_path / "file").touch(exist_ok=False)
"""
MANY = """
import os, pytest, warnings

@pytest.mark.parametrize("n", range(60))
def test_each(n):
    print("said by", n)
    if n == 7: os._exit(3)
    if n == 50: os.kill(os.getpid(), 9)
    if n == 20: warnings.warn("careful")
    assert n != 30
    if n == 31: pytest.skip("no 31")
    print(f"ran-{n}-", file=open("ran", "a"))
"""


def test_all_tests_run_once_though_workers_die(tmp_path: Path) -> None:
    code, said = run_suite(tmp_path, "-p", "tests.summary", test_shared=SHARED, test_many=MANY)
    assert code == 1
    assert "failed: checks/test_many.py::test_each[30]\n" in said
    assert "1 skipped: no 31\n" in said
    assert "3 failed, 116 passed, 1 skipped" in said, said
    assert "The worker died with the exit code 3." in said
    assert "The worker died with the exit code -9." in said
    assert "test_each[20]: UserWarning: careful" in said
    assert said.partition("test_each[30] ___")[2].partition("Captured stdout call")[2].split()[1:4] == [
        "said",
        "by",
        "30",
    ]
    ran = (tmp_path / "ran").read_text().split()
    assert sorted(ran) == sorted(f"ran-{number}-" for number in range(60) if number not in (7, 30, 31, 50))
    assert (tmp_path / "made").read_text() == "x", "a fixture that is shared is made once"


BROWSER = """
import pytest

@pytest.fixture(scope="session")
async def browser():
    with open("made", "a") as file:
        file.write("x")
    yield
"""
USES = """
import pytest

@pytest.mark.parametrize("n", range(5))
async def test_each(n, browser):
    pass

@pytest.mark.parametrize("n", range(5))
def test_without(n):
    pass
"""


def test_an_async_fixture_of_the_session_is_made_once(tmp_path: Path) -> None:
    files = {"conftest": BROWSER, "test_one": USES, "test_two": USES}
    code, said = run_suite(tmp_path, "-p", "tests.event_loops", **files)
    assert (code, "20 passed" in said) == (0, True), said
    assert (tmp_path / "made").read_text() == "x"


MEETING = """
import time
from pathlib import Path

def test_meet():
    Path("MINE").touch()
    end = time.monotonic() + 30
    while not Path("OTHER").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
"""


def test_two_workers_run_at_once(tmp_path: Path) -> None:
    one = MEETING.replace("MINE", "a").replace("OTHER", "b")
    two = MEETING.replace("MINE", "b").replace("OTHER", "a")
    assert run_suite(tmp_path, test_one=one, test_two=two)[0] == 0


LONG = """
import pytest, time
from pathlib import Path

@pytest.fixture(scope="session", autouse=True)
def server(tmp_path_factory):
    with open("log", "a") as file: file.write("begun\\n")
    yield
    with open("log", "a") as file: file.write("ended\\n")

def test_first():
    while not Path("other").exists(): time.sleep(0.01)
    assert False
"""
OTHER = """
from pathlib import Path
import time

def test_other():
    Path("other").touch()
    time.sleep(60)
"""


def test_a_run_that_stops_at_a_failure_takes_down_what_its_workers_have_set_up(tmp_path: Path) -> None:
    code, said = run_suite(
        tmp_path, "-x", conftest=LONG.partition("def test_first")[0], test_first=LONG, test_second=OTHER
    )
    assert code == 1, said
    assert "1 failed" in said
    assert sorted((tmp_path / "log").read_text().split()) == ["begun", "begun", "ended", "ended"]
