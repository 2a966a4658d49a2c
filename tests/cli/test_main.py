"""The terminal program, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from outrider.version import __version__


def outrider(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "outrider", *arguments], capture_output=True, text=True, timeout=60)


def test_version() -> None:
    ended = outrider("--version")
    assert (ended.returncode, ended.stdout) == (0, f"outrider {__version__}\n")


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ()])
def test_help(arguments: tuple[str, ...]) -> None:
    ended = outrider(*arguments)
    assert ended.returncode == 0
    assert "usage: outrider" in ended.stdout


def test_a_wrong_word_is_a_usage_error_that_points_to_the_help() -> None:
    ended = outrider("dmeo")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'dmeo'" in ended.stderr
    assert "--help" in ended.stderr
