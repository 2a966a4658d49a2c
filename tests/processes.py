"""Processes of commands as the machine sees them, also those that run in a sandbox."""

from __future__ import annotations

import os
from pathlib import Path


def machine_pid(pid_file: Path) -> int:
    """The process id of a command that wrote its own to a file in its working directory; 0 if it does not run.

    In a sandbox, the command sees an id of the sandbox's own namespace.
    """
    text = pid_file.read_text().strip() if pid_file.exists() else ""
    folder = pid_file.parent.stat()
    found = (int(name) for name in os.listdir("/proc") if name.isdigit() and _is_process(name, text, folder))
    return next(found, 0) if text else 0


def is_running(pid_file: Path) -> bool:
    """Whether a command runs that wrote its process id to a file in its working directory."""
    return machine_pid(pid_file) != 0


def _is_process(name: str, pid: str, folder: os.stat_result) -> bool:
    try:
        status = Path("/proc", name, "status").read_text()
        cwd = os.stat(f"/proc/{name}/cwd")  # a process that has ended and was not waited for has none
    except OSError:
        return False
    ids = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
    return ids[-1] == pid and os.path.samestat(cwd, folder)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started, and that have not ended."""
    tasks = Path("/proc", str(pid), "task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split() if is_alive(int(child))]


def is_alive(pid: int) -> bool:
    """Whether a process has not ended. One that nobody waits for has."""
    try:
        return "\nState:\tZ" not in Path("/proc", str(pid), "status").read_text()
    except OSError:
        return False
