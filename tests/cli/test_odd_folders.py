"""Folders whose names are not UTF-8, and a folder that was deleted: they work, or one line says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.errors import LogError
from outrider.log.log import Log
from tests.cli.program import clean_environment


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    return folder


def outrider(*arguments: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = clean_environment() | {"OUTRIDER_HOME": str(home)}
    command = [sys.executable, "-P", "-m", "outrider", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


def test_a_home_that_is_not_utf_8_is_named(odd: Path, tmp_path: Path) -> None:
    ended = outrider("-p", "--model", "demo", "What is 2+2?", cwd=tmp_path, home=odd)
    assert ended.returncode != 0
    assert "whose name is not UTF-8; set OUTRIDER_HOME to another folder" in ended.stderr
    assert "internal error" not in ended.stderr
    with pytest.raises(LogError, match="UTF-8"):
        Log(odd)


def test_a_session_of_such_a_folder_is_continued(odd: Path, tmp_path: Path) -> None:
    first = outrider("-p", "--model", "demo", "What is 2+2?", cwd=odd, home=tmp_path / "home")
    assert first.returncode == 0, first.stderr
    second = outrider("-p", "-c", "--model", "demo", "And 3+3?", cwd=odd, home=tmp_path / "home")
    assert (second.returncode, second.stdout) == (0, "6\n"), second.stderr
    assert "does not exist" not in second.stderr


@pytest.mark.parametrize("arguments", [("-p", "--model", "demo", "Hi"), ("sessions",), ("acp",)])
def test_a_deleted_folder_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os, runpy, sys; os.rmdir(os.getcwd()); runpy.run_module('outrider', run_name='__main__')"
    environment = clean_environment() | {"OUTRIDER_HOME": str(tmp_path / "home")}
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        cwd=gone,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr == "outrider: the current folder was deleted; change to another folder and try again\n"
