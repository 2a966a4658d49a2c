"""Running commands: each in its own session, and ended with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from outrider.processes.guard import Guard
from outrider.processes.process_tree import ProcessKey, can_list_processes, find_processes
from outrider.processes.starting import popen

GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL."""
KILL_SECONDS = 0.4
"""Seconds during which SIGKILL is repeated, because processes may start others meanwhile."""

DEVNULL = subprocess.DEVNULL

Pause: TypeAlias = Callable[[float], None]


Running: TypeAlias = "dict[Process, set[ProcessKey]]"


class Process:
    """A shell and all processes that it started."""

    def __init__(self, shell: subprocess.Popen[bytes], mark: str) -> None:
        self.pid = shell.pid
        self._shell = shell
        self._mark = mark
        self._reaped = False
        self.exit_handle = _exit_handle(shell.pid)
        """A pidfd, readable when the shell has ended; None if the system has none."""

    def ended(self) -> bool:
        """Return whether the shell has ended; processes that it started may still run."""
        if self.exit_handle is None:
            return self._shell.poll() is not None
        return _readable(self.exit_handle)

    def running(self, known: Iterable[ProcessKey] = ()) -> set[ProcessKey]:
        """Return the live processes. After the shell is reaped its id may be reused, so only the mark counts then."""
        if can_list_processes():
            return find_processes(None if self._reaped else self.pid, self._mark, known)
        self._shell.poll()
        try:
            os.killpg(self.pid, 0)
        except OSError:
            return set()
        return {ProcessKey(self.pid, 0)}

    def signal(self, members: Iterable[ProcessKey], number: signal.Signals) -> None:
        """Send a signal to these processes and to the group, which others may have joined meanwhile."""
        if not self._reaped:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)
        for member in members:
            with contextlib.suppress(OSError):
                os.kill(member.pid, number)

    def reap(self) -> int:
        """Wait for the shell. Return its exit code, negative for the signal that killed it."""
        code = self._shell.wait()
        self._reaped = True
        if self.exit_handle is not None:
            os.close(self.exit_handle)
            self.exit_handle = None
        return code


def end(processes: Iterable[Process], pause: Pause = time.sleep) -> tuple[int, int]:
    """End all processes, gently at first. Return how many there were and how many could not be ended.

    `pause` is called to wait, with the number of seconds.
    """
    left = _still_running({process: set() for process in processes})
    everyone = set().union(*left.values())
    _signal(left, signal.SIGTERM)
    deadline, moment = time.monotonic() + GRACE, 0.005
    while left and (remaining := deadline - time.monotonic()) > 0:
        pause(min(moment, remaining))
        moment *= 2
        left = _still_running(left)
    deadline = time.monotonic() + KILL_SECONDS
    while left and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        pause(0.01)
        left = _still_running(left)
        everyone = everyone.union(*left.values())
    return len(everyone), len(set().union(*left.values()))


def _still_running(known: Running) -> Running:
    found = {process: process.running(members) for process, members in known.items()}
    return {process: members for process, members in found.items() if members}


def _signal(families: Running, number: signal.Signals) -> None:
    for process, members in families.items():
        process.signal(members, number)


class Processes:
    """The running commands of one session, so that none outlives it."""

    def __init__(self) -> None:
        self._mark = os.urandom(8).hex()
        self._count = 0
        self._live: set[Process] = set()
        self._guard = Guard(self._mark)
        self._closing = weakref.finalize(self, _end_all, self._live, self._guard, os.getpid())

    def next_mark(self) -> str:
        """Return a new mark for the next command."""
        self._count += 1
        return f"{self._mark}-{self._count}"

    def start(
        self,
        argv: Sequence[str],
        mark: str,
        *,
        folder: Path | str | None,
        environment: Mapping[str, str] | None,
        output: int,
        errors: int = subprocess.STDOUT,
        input: int = subprocess.DEVNULL,
        handles: Sequence[int] = (),
    ) -> Process:
        """Start a command, by default with empty input. It begins with an absolute path.

        Raises OSError, or ValueError if it has a NUL.
        """
        shell = popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=input,
            stdout=output,
            stderr=errors,
            pass_fds=handles,
            start_new_session=True,
        )
        process = Process(shell, mark)
        self._live.add(process)
        self._update_guard()
        return process

    def forget(self, process: Process) -> None:
        """Remove a command that has ended with everything that it started."""
        self._live.discard(process)
        self._update_guard()

    def close(self) -> None:
        """End all running commands."""
        _end_all(self._live, self._guard, os.getpid())

    def _update_guard(self) -> None:
        with contextlib.suppress(OSError):  # commands run without a guard too
            self._guard.watch([process.pid for process in tuple(self._live)])


def _end_all(live: set[Process], guard: Guard, owner: int) -> None:
    """End the running commands. A forked child process must not end those of its parent."""
    if os.getpid() == owner:
        end(tuple(live))
        live.clear()
        guard.close()


def _exit_handle(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _readable(handle: int) -> bool:
    import select

    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))
