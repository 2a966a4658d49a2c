"""The acceptance index (docs/acceptance.md), held against what a run of the tests has really done.

A plugin for pytest. After a run of the whole suite each test that the index names must have run, and none of its cases
may have been skipped; otherwise the run has failed, however green it is. Runs of a part of the suite are left alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

INDEX = Path("docs") / "acceptance.md"
PARTIAL = ("keyword", "markexpr", "lf", "stepwise", "collectonly", "setupplan")
"""Options with which a part of the suite is run, or nothing at all."""
_LINE = re.compile(r"^(\d+)\. (.+)$")
_TEST = re.compile(r"^    - `(.+?)`$")


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


class Witness:
    """Sees each report of a run, those of other processes included, and says in the end what was not shown."""

    def __init__(self, named: dict[str, list[int]]) -> None:
        self._named = named
        """Each named test with the lines that name it."""
        self._ran: set[str] = set()
        self._skipped: set[str] = set()
        self.complaints: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One step of one test."""
        for name in (report.nodeid, report.nodeid.partition("[")[0]):
            if name in self._named and report.skipped:
                self._skipped.add(name)
            elif name in self._named and report.when == "call":
                self._ran.add(name)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        """All have reported."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or session.shouldfail:
            return
        for name, lines in self._named.items():
            if name in self._skipped or name not in self._ran:
                what = "was skipped" if name in self._skipped else "did not run"
                numbers = ", ".join(map(str, lines))
                self.complaints.append(f"{INDEX}, line {numbers}: {name} {what}, so nothing is shown by it.")
        if self.complaints:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why the run has failed."""
        for complaint in self.complaints:
            terminalreporter.write_line(complaint, red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Watch, if the whole suite is about to run; under xdist in the process that gets all reports."""
    index = config.rootpath / INDEX
    if _runs_all(config) and not hasattr(config, "workerinput") and index.exists():
        named: dict[str, list[int]] = {}
        for number, tests in read_index(index.read_text()).items():
            for name in tests:
                named.setdefault(name, []).append(number)
        config.pluginmanager.register(Witness(named), "acceptance index")


def _runs_all(config: pytest.Config) -> bool:
    """Whether nothing was asked for by name or condition. To deselect a test or to ignore a file is no such wish."""
    is_partial = any(getattr(config.option, name, False) for name in PARTIAL)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not is_partial
