"""From the command line to the command: help everywhere, and the exit codes that are promised."""

from __future__ import annotations

import subprocess
import sys

import pytest

from outrider.cli import COMMANDS, USAGE, main
from tests.cli.program import clean_environment, outrider, run


def from_scratch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a command imports on its own is enough for it."""
    env = clean_environment()
    return run(
        *arguments, from_scratch=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=env, text=True,
    )  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_help_and_has_help_of_its_own(command: str) -> None:
    assert f"\n  {command} " in USAGE
    ended = from_scratch(command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: outrider {command} [-h]")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_no_command_has_is_wrong_usage(command: str) -> None:
    ended = from_scratch(command, "--unheard-of")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"usage: outrider {command}" in ended.stderr


@pytest.mark.parametrize("arguments", [["wires"], ["--versions"], ["--version", "demo"], [""]])
def test_an_unknown_command_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "see outrider --help" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"{sys.executable} -m outrider models | true; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=clean_environment(), timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "demo"])
def test_a_command_imports_no_http_library_before_it_asks_someone(command: str) -> None:
    script = f"import sys\nfrom outrider.cli import main\nmain(['{command}', '--help'])\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "httptools", "litellm", "PIL", "pypdf"} & set(loaded)


def test_words_in_a_pipe_are_answered_without_a_flag() -> None:
    ended = outrider(input=b"What is 2+2?\n", OUTRIDER_MODEL="demo")
    assert (ended.returncode, ended.stdout.strip()) == (0, "4")
