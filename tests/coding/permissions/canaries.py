"""Run a command line for real, where every program only writes down how it was called."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.coding.permissions.workspace import Ground

BASH = shutil.which("bash") or "/bin/bash"

PROGRAMS = ("ls", "cat", "echo", "git", "true", "false", "wc", "head", "forbidden", "env", "nohup", "timeout", "nice")
PROGRAMS += ("time", "xargs", "find", "sh", "bash", "command", "r", "m")

PROGRAM = """#!{bash}
printf '%s\\0' "${{0##*/}}" "$@" $'\\1' >> "$CANARY_LOG"
"""


class Cage:
    """A ground with programs that only tell of their calls."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._programs = ground.root / "programs"
        self._log = ground.root / "calls"
        self.canary = ground.outside / "canary"
        self._programs.mkdir()
        for name in PROGRAMS:
            program = self._programs / name
            program.write_text(PROGRAM.format(bash=BASH))
            program.chmod(0o755)

    def run(self, command: str) -> tuple[list[list[str]], str]:
        """The calls of programs, each with its arguments, and what was printed."""
        self._log.write_text("")
        self.canary.unlink(missing_ok=True)
        environment = {"PATH": str(self._programs), "CANARY_LOG": str(self._log), "HOME": str(self._ground.root)}
        shell = subprocess.Popen(
            [BASH, "--noprofile", "--norc", "-c", command],
            cwd=self._ground.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output = shell.communicate(timeout=60)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        return _calls(self._log), output.decode(errors="replace")


def _calls(log: Path) -> list[list[str]]:
    records = log.read_bytes().decode(errors="replace").split("\1\0")
    return [record.split("\0")[:-1] for record in records if record]
