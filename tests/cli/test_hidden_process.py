"""The program is not dumpable: another process of the same user cannot read its keys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and prctl are of Linux")

# Root reads everything with CAP_SYS_PTRACE, so both processes give their capabilities up.
WITHOUT_CAPABILITIES = """
import ctypes, os, sys
for capability in range(64):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""

# Waits for a line after it is hidden, and does what our code does with /proc/self.
PROGRAM = """
import os, subprocess, sys, tempfile
from pathlib import Path
from outrider.cli import hide_process
hide_process()
from outrider.descriptors import real_path
from outrider.log.sqlite.filesystem import network_file_system
from outrider.log.holder import Holder
from outrider.coding.toolbox.no_follow import opened_folder
with tempfile.TemporaryFile() as file:
    assert real_path(file.fileno()), "the path of an open file"
network_file_system(Path(tempfile.gettempdir()))
assert Holder.current().is_alive()
with opened_folder(Path(os.path.realpath(tempfile.gettempdir()))) as folder:
    assert subprocess.run(["pwd", "-P"], cwd=folder.reference, check=True, capture_output=True).stdout.strip()
assert b"hunter2" in subprocess.run(["sh", "-c", "cat /proc/$$/environ"], capture_output=True).stdout
print("ready", flush=True)
sys.stdin.readline()
"""


def started(**variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "MY_KEY": "hunter2", **variables}
    command = [sys.executable, "-c", WITHOUT_CAPABILITIES, sys.executable, "-c", PROGRAM]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def environ_of(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_CAPABILITIES, "cat", f"/proc/{process.pid}/environ"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_another_process_of_the_same_user_cannot_read_the_environment() -> None:
    with started() as process:
        read = environ_of(process)
        assert "hunter2" not in read.stdout
        assert "Permission denied" in read.stderr
        process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_a_debugger_can_attach_while_debugging_is_on(tmp_path: Path) -> None:
    with started(OUTRIDER_DEBUG=str(tmp_path / "log")) as process:
        assert "hunter2" in environ_of(process).stdout
        process.communicate("\n", timeout=60)


@pytest.mark.parametrize("arguments", [["-p", "hello", "--model", "demo"], ["acp"]])
def test_the_program_hides_itself(arguments: list[str], tmp_path: Path) -> None:
    program = (
        "import ctypes, sys, outrider.cli as cli\n"
        "cli._run_command = lambda name, arguments: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "print(cli.main(), cli.main(sys.argv[1:]))"
    )
    environment = {**os.environ, "OUTRIDER_HOME": str(tmp_path)}
    environment.pop("OUTRIDER_DEBUG", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "0", "not dumpable"


def test_a_program_that_calls_main_is_left_alone(tmp_path: Path) -> None:
    program = (
        "import ctypes, outrider.cli as cli\n"
        "cli._run_command = lambda name, arguments: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n"
        "print(cli.main(['-p', 'hello']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
