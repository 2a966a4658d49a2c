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


def test_the_demo_shows_the_work_and_ends_well() -> None:
    ended = outrider("demo")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "demo model, not an LLM" in ended.stdout
    assert "chart.png: a picture of 640 × 400 pixels" in ended.stdout
    assert "report.pdf: a PDF of 2 pages" in ended.stdout
    assert "3 × tool_result (with 2 files)" in ended.stdout
    assert "\x1b" not in ended.stdout, "no colours where there is no terminal"


def test_the_demo_fails_loudly_if_something_in_it_does(tmp_path) -> None:  # type: ignore[no-untyped-def]
    broken = (
        "import sys, pathlib, outrider.cli.demo as demo\n"
        f"demo.SAMPLE = pathlib.Path({str(tmp_path)!r})\n"
        "sys.exit(demo.demo())"
    )
    (tmp_path / "notes.txt").write_text("alone")
    ended = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "✗" in ended.stdout
