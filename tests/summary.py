"""What a run of tests says beside dots, a plugin for pytest: each failed test at once, and why tests were skipped."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest


class FailuresAtOnce:
    """Names each failed test when it fails: a run that is stopped before its end has no summary."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\nfailed: {report.nodeid}")


@pytest.hookimpl(trylast=True)  # once there is a terminal reporter
def pytest_configure(config: pytest.Config) -> None:
    if terminal := config.pluginmanager.getplugin("terminalreporter"):
        config.pluginmanager.register(FailuresAtOnce(terminal))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was skipped, a line for each reason."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, number in sorted(reasons.items()):
        terminalreporter.write_line(f"{number} skipped: {reason}")
