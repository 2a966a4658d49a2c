"""Lines made by chance: what runs without a sandbox and without asking leaves no effect when it is run for real."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from outrider.coding.permissions.question import Mode
from tests.coding.permissions.canaries import BASH
from tests.coding.permissions.shell_lines import HELP, options_of, shell_line
from tests.coding.permissions.workspace import Ground

MODES: tuple[Mode, ...] = ("ask", "edits", "plan")
DRIVER = 'for line in "$@"; do ( eval "$line" ) & wait $!; done'
"""Runs each line in a shell of its own."""


def allowed_lines(ground: Ground, seed: int, count: int) -> list[str]:
    """The lines that run without asking, in a mode that is not `all`, without a sandbox and without rules."""
    random = Random(seed)
    lines = [shell_line(random) for _ in range(count)]
    return [line for line in lines if ground.bash(line, random.choice(MODES)).verdict == "allow"]


def state_of(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder that a command could change."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            stat = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else _digest(path)
            found[path] = (stat.st_mode, stat.st_size if not os.path.isdir(path) else 0, stat.st_mtime_ns, content)
    return found


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if os.path.isfile(path) else ""


def run(ground: Ground, lines: Sequence[str]) -> str:
    """Run the lines for real, in the folder of the ground, and return what they print."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(ground.root / "home"),
        "SECRET": "SECRET-CONTENT",
    }
    shell = subprocess.Popen(
        [BASH, "--noprofile", "--norc", "-c", DRIVER, "driver", *lines],
        cwd=ground.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return shell.communicate(timeout=120)[0].decode(errors="replace")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def assert_no_effect(ground: Ground, lines: Sequence[str]) -> None:
    """Run the lines, all at once first. If something happened, find the line that did it."""
    (ground.root / "home").mkdir(exist_ok=True)
    (ground.work / "run").write_text("#!/bin/sh\ntouch new\n")
    (ground.work / "run").chmod(0o755)
    before = state_of(ground.root)
    for start in range(0, len(lines), 200):
        some = lines[start : start + 200]
        output = run(ground, some)
        if state_of(ground.root) != before or "CONTENT" in output:
            guilty = [line for line in some if "CONTENT" in run(ground, [line]) or state_of(ground.root) != before]
            raise AssertionError(f"these lines ran without asking: {guilty[:1] or some}")


def test_hundreds_of_lines_leave_no_effect(own_ground: Ground) -> None:
    lines = allowed_lines(own_ground, 20_260_101, 500)
    assert len(lines) > 25
    assert_no_effect(own_ground, lines)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_thirty_thousand_lines_leave_no_effect(own_ground: Ground, seed: int) -> None:
    assert_no_effect(own_ground, allowed_lines(own_ground, seed, 5_000))


def test_an_effect_would_be_noticed(own_ground: Ground) -> None:
    for line in ("sed -n 'w new' notes.txt", "./run", "cat .env", "touch notes.txt", "echo $SECRET", "cat to_file"):
        with pytest.raises(AssertionError, match="without asking"):
            assert_no_effect(own_ground, ["ls", line, "pwd"])
        (own_ground.work / "new").unlink(missing_ok=True)


@pytest.mark.parametrize("program", HELP)
def test_options_come_from_the_programs_themselves(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    assert len(options_of(program)) > 9
