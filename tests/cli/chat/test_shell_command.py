"""`!command` leaves nothing behind, also if the program is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

CODE = """
import asyncio, pathlib, sys
from outrider.cli.chat.own_command import run_shell_command
asyncio.run(run_shell_command(sys.argv[1], pathlib.Path(".")))
"""


def test_a_command_ends_with_the_program_that_is_killed(tmp_path: Path) -> None:
    seen = tmp_path / "pid"
    command = f"sleep 600 & echo $! > {seen}.new; mv {seen}.new {seen}; wait"
    ours, terminal = os.openpty()
    argv = [sys.executable, "-c", CODE, command]
    program = subprocess.Popen(argv, cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal)
    try:
        while not seen.exists():
            assert program.poll() is None
            time.sleep(0.01)
    finally:
        program.kill()
        program.wait()
        os.close(ours)
        os.close(terminal)
    sleeping = int(seen.read_text())
    while is_running(sleeping):  # the time limit of the test is the limit
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
