"""Commands that run: each in a session of its own, and ended with all that it started."""

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

from outrider.coding.toolbox.shell.family import Kin, can_be_listed, family
from outrider.coding.toolbox.shell.guard import Guard

GRACE = 0.3
"""Seconds that a command has to clean up after it was asked to end; then it is killed."""
PERSISTENCE = 0.4
"""Seconds during which those that still live are killed again: they may be starting others meanwhile."""

Pause: TypeAlias = Callable[[float], None]


Families: TypeAlias = "dict[Process, set[Kin]]"


class Process:
    """A shell, and all that came of it."""

    def __init__(self, shell: subprocess.Popen[bytes], mark: str) -> None:
        self.pid = shell.pid
        self._shell = shell
        self._mark = mark
        self._reaped = False
        self.exit_handle = _exit_handle(shell.pid)
        """Readable when the shell has ended, where the system has such a thing."""

    def ended(self) -> bool:
        """Whether the shell has ended; others that it started may live."""
        if self.exit_handle is None:
            return self._shell.poll() is not None
        return _readable(self.exit_handle)

    def family(self, known: Iterable[Kin] = ()) -> set[Kin]:
        """All that live of it. Once the shell is reaped, its number may be another's: then the mark alone counts."""
        if can_be_listed():
            return family(None if self._reaped else self.pid, self._mark, known)
        self._shell.poll()
        try:
            os.killpg(self.pid, 0)
        except OSError:
            return set()
        return {Kin(self.pid, 0)}

    def signal(self, members: Iterable[Kin], number: signal.Signals) -> None:
        """Send it to these, and to whoever joined the group meanwhile."""
        if not self._reaped:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)
        for member in members:
            with contextlib.suppress(OSError):
                os.kill(member.pid, number)

    def reap(self) -> int:
        """Wait for the shell and give its exit code, or the number of the signal that killed it, negative."""
        code = self._shell.wait()
        self._reaped = True
        if self.exit_handle is not None:
            os.close(self.exit_handle)
            self.exit_handle = None
        return code


def end(processes: Iterable[Process], pause: Pause = time.sleep) -> tuple[int, int]:
    """End all that lives of them, first gently. Gives how many there were, and how many could not be ended.

    `pause` is what to do in between, for so many seconds.
    """
    left = _living({process: set() for process in processes})
    everyone = set().union(*left.values())
    _signal(left, signal.SIGTERM)
    deadline, moment = time.monotonic() + GRACE, 0.005
    while left and (remaining := deadline - time.monotonic()) > 0:
        pause(min(moment, remaining))
        moment *= 2
        left = _living(left)
    deadline = time.monotonic() + PERSISTENCE
    while left and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        pause(0.01)
        left = _living(left)
        everyone = everyone.union(*left.values())
    return len(everyone), len(set().union(*left.values()))


def _living(known: Families) -> Families:
    found = {process: process.family(members) for process, members in known.items()}
    return {process: members for process, members in found.items() if members}


def _signal(families: Families, number: signal.Signals) -> None:
    for process, members in families.items():
        process.signal(members, number)


class Processes:
    """The commands of one session that run, so that none outlives it."""

    def __init__(self) -> None:
        self._mark = os.urandom(8).hex()
        self._count = 0
        self._live: set[Process] = set()
        self._guard = Guard(self._mark)
        self._closing = weakref.finalize(self, _end_all, self._live, self._guard, os.getpid())

    def next_mark(self) -> str:
        """The mark of the command that is started next."""
        self._count += 1
        return f"{self._mark}-{self._count}"

    def start(
        self,
        argv: Sequence[str],
        mark: str,
        *,
        folder: Path,
        environment: Mapping[str, str] | None,
        output: int,
        handles: Sequence[int] = (),
    ) -> Process:
        """Start a command that reads nothing and prints to one place. Raises OSError, or ValueError for a NUL in it."""
        shell = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=handles,
            start_new_session=True,
        )
        process = Process(shell, mark)
        self._live.add(process)
        self._tell_guard()
        return process

    def forget(self, process: Process) -> None:
        """It has ended, with all that it started."""
        self._live.discard(process)
        self._tell_guard()

    def close(self) -> None:
        """End all that run."""
        _end_all(self._live, self._guard, os.getpid())

    def _tell_guard(self) -> None:
        with contextlib.suppress(OSError):  # without a guard commands run all the same
            self._guard.watch([process.pid for process in tuple(self._live)])


def _end_all(live: set[Process], guard: Guard, owner: int) -> None:
    """End what runs. In the copy of a process that forked, nothing is its own to end."""
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
