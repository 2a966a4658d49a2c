"""The terminal program, run as a user runs it."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_a_reader_that_has_gone_is_no_error(argument: str) -> None:
    source, sink = os.pipe()
    os.close(source)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "outrider", argument], stdout=sink, stderr=subprocess.PIPE, text=True, timeout=60
        )
    finally:
        os.close(sink)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_a_full_disk_behind_the_output_is_one_line(argument: str) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "outrider", argument], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (ended.returncode, ended.stderr) == (1, "outrider: the output: No space left on device\n")


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
runpy.run_module("outrider", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["outrider.cli", "outrider.cli.log_option"])
def test_a_signal_during_the_imports_leaves_no_traceback(module: str) -> None:
    arguments = [sys.executable, "-c", INTERRUPTED_IMPORT, module]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stderr) == (130, "\nInterrupted.\n")
