"""The acceptance index cannot lie: every line has tests, they exist, and a whole run in which one did not run fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.acceptance_index import INDEX, LONG, PARTS, SHORT, read_index, read_needs
from tests.lengths import only_long

ROOT = Path(__file__).parents[1]
LINES = read_index((ROOT / INDEX).read_text())


@cache
def functions_in(path: Path) -> frozenset[str]:
    """The functions on the first level of a file: those that pytest collects under their own names."""
    return frozenset(re.findall(r"^(?:async )?def (\w+)", path.read_text(), re.M))


def test_every_line_is_there_in_order_and_names_a_test() -> None:
    assert list(LINES) == list(range(1, len(LINES) + 1))
    assert [number for number, tests in LINES.items() if not tests] == []


def test_every_part_that_a_test_needs_is_known() -> None:
    assert set(read_needs((ROOT / INDEX).read_text()).values()) <= set(PARTS)


@pytest.mark.parametrize("number", LINES)
def test_the_tests_of_a_line_exist(number: int) -> None:
    for name in LINES[number]:
        path, _, function = name.partition("::")
        assert Path(path).name.startswith("test_"), name
        assert (ROOT / path).is_file(), name
        assert function.startswith("test_"), name
        assert function.partition("[")[0] in functions_in(ROOT / path), name


# What a run says that leaves one out: a small suite of its own, run by a pytest of its own

SUITE = """
import pytest

def test_plain(): pass

@pytest.mark.parametrize("n", [1, 2])
def test_each(n): pass

@pytest.mark.parametrize("n", [1, 2])
def test_some(n):
    if n == 2: pytest.skip("there is no 2 here")

@pytest.mark.skip
def test_skipped(): pass

@pytest.mark.xfail
def test_wrong(): assert False

def test_left_out(): pass
"""


def run_suite(folder: Path, index: str, *arguments: str, suite: str = SUITE) -> tuple[int, list[str]]:
    """The exit code of a run, and what it said of the index."""
    (folder / INDEX).parent.mkdir(exist_ok=True)
    (folder / INDEX).write_text(index)
    (folder / "checks").mkdir(exist_ok=True)
    (folder / "checks" / "conftest.py").write_text('pytest_plugins = ["tests.acceptance_index"]\n')
    (folder / "checks" / "test_it.py").write_text(suite)
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = checks\nmarkers =\n    long\n    hypothesis\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return ended.returncode, [line for line in ended.stdout.splitlines() if line.startswith(str(INDEX))]


def index_of(*names: str) -> str:
    """An index with a line for each test."""
    return "# Index\n\n" + "".join(
        f"{number}. It holds.\n    - `checks/test_it.py::{name}`\n" for number, name in enumerate(names, 1)
    )


WORKERS = ("-p", "tests.workers", "--workers", "2")


@pytest.mark.parametrize("processes", [WORKERS, *only_long(((),))], ids=["workers", "alone"])
def test_a_whole_run_that_leaves_out_a_named_test_fails_and_says_which(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    names = ["test_plain", "test_each", "test_each[2]", "test_some", "test_skipped", "test_wrong", "test_left_out"]
    index = index_of(*names, "test_missing", "test_each[3]", "test_skipped")
    deselected = ("--deselect", "checks/test_it.py::test_left_out")
    assert run_suite(tmp_path, index, *processes, *deselected) == (
        1,
        [
            f"{INDEX}, line {number}: checks/test_it.py::{name}, so nothing is shown by it."
            for number, name in [
                ("4", "test_some was skipped"),
                ("5, 10", "test_skipped was skipped"),
                ("6", "test_wrong was skipped"),
                ("7", "test_left_out did not run"),
                ("8", "test_missing did not run"),
                ("9", "test_each[3] did not run"),
            ]
        ],
    )


@pytest.mark.long
@pytest.mark.parametrize(("programs", "code"), [((), 0), (("chromium",), 1)], ids=["without it", "with it"])
def test_a_test_may_be_skipped_where_the_part_that_it_needs_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: tuple[str, ...], code: int
) -> None:
    (tmp_path / "bin").mkdir()
    for name in programs:
        (tmp_path / "bin" / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    index = index_of("test_plain", "test_skipped").replace("test_skipped`", "test_skipped` (needs Chromium)")
    assert run_suite(tmp_path, index)[0] == code


def test_a_whole_run_in_which_all_named_tests_ran_is_a_success(tmp_path: Path) -> None:
    assert run_suite(tmp_path, index_of("test_plain", "test_each", "test_each[2]")) == (0, [])


HALVES = """
import pytest

def test_short(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.hypothesis
def test_property(): pass

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.long)])
def test_both(n): pass

@pytest.mark.long
def test_long_and_left_out(): pass

def test_short_and_left_out(): pass
"""


@pytest.mark.long
@pytest.mark.parametrize("processes", [WORKERS, ()], ids=["workers", "alone"])
@pytest.mark.parametrize(("half", "left_out"), [(SHORT, "test_short_and_left_out"), (LONG, "test_long_and_left_out")])
def test_each_half_of_a_run_answers_for_its_own_tests(
    tmp_path: Path, processes: tuple[str, ...], half: str, left_out: str
) -> None:
    names = ["test_short", "test_long", "test_property", "test_both", "test_both[1]", "test_both[2]"]
    index = index_of(*names, "test_long_and_left_out", "test_short_and_left_out", "test_missing")
    deselected = [f"--deselect=checks/test_it.py::test_{length}_and_left_out" for length in ("short", "long")]
    code, said = run_suite(tmp_path, index, *processes, "-m", half, *deselected, suite=HALVES)
    assert (code, [line.partition("::")[2].partition(",")[0] for line in said]) == (
        1,
        [f"{left_out} did not run", "test_missing did not run"],
    )


def test_the_two_halves_are_those_that_make_and_the_ci_run() -> None:
    recipes = (ROOT / "Makefile").read_text()
    assert f'-m "{SHORT}"' in recipes.partition("\ntest: ")[2].partition("\n\n")[0]
    assert f'-m "{LONG}"' in recipes.partition("\ntest-long: ")[2].partition("\n\n")[0]
    run = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line for line in run if line in ("make test", "make test-long")] == ["make test", "make test-long"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "arguments", [("-k", "plain"), ("-m", "not hypothesis"), ("checks/test_it.py",), ("--co",)], ids=" ".join
)
def test_a_run_of_a_part_is_left_alone(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert run_suite(tmp_path, index_of("test_missing", "test_skipped"), *arguments) == (0, [])


def test_a_run_that_ends_at_its_first_failure_says_that_alone(tmp_path: Path) -> None:
    suite = "def test_first(): assert False\n" + SUITE
    assert run_suite(tmp_path, index_of("test_plain"), "-x", suite=suite) == (1, [])


def test_a_line_that_stands_there_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 1 of the index stands there twice"):
        read_index("1. It holds.\n1. It holds again.\n")
