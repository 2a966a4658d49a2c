"""The process that holds a session, and whether it is still alive.

On the same machine the process table decides, without a clock. A holder on another machine or in another container is
known only by its heartbeat: a counter, because clocks differ and jump.
"""

from __future__ import annotations

import os
import sys
import time

import msgspec

from outrider.text import clean

BEAT_SECONDS = 10.0
"""The interval between heartbeats."""
STALE_SECONDS = 35.0
"""The age of a remote holder's last heartbeat from which `lock` watches whether its counter still changes."""


class Holder(msgspec.Struct, frozen=True):
    """A process that has a session open."""

    host: str
    boot: str
    """The boot id and the pid namespace in which `pid` is valid."""
    pid: int
    started: str
    """The start time of the process in kernel ticks, because process ids are reused."""
    since: float
    program: str = ""
    log: str = ""
    """The token of the `Log` object in the process."""

    @classmethod
    def current(cls, log: str = "") -> Holder:
        """Return a holder that describes this process."""
        pid = os.getpid()
        program = clean(os.path.basename(sys.argv[0])) if sys.argv and sys.argv[0] else ""
        return cls(_host(), _boot(), pid, _started(pid) or "", time.time(), program, log)

    @property
    def encoded(self) -> str:
        """The holder as the session table has it."""
        return msgspec.json.encode(self).decode()

    @property
    def is_visible(self) -> bool:
        """Whether it runs where this process sees it: on this machine, in the same pid namespace."""
        return bool(self.boot) and self.boot == _boot()

    def is_alive(self) -> bool | None:
        """Return whether the process exists, or None if this process cannot know."""
        boot = _boot()
        if not self.boot or not boot:
            return None
        if self.boot != boot:
            # After a reboot of the same machine its processes are gone. In another pid namespace they are invisible.
            same_machine = self.host == _host() and not self.host.startswith("localhost")
            return False if same_machine and self.boot.split()[0] != boot.split()[0] else None
        started = _started(self.pid)
        return started is not None and started == self.started

    def __str__(self) -> str:
        here = " (this process)" if self.pid == os.getpid() and self.boot == _boot() else ""
        program = f"{self.program}, " if self.program else ""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"{program}process {self.pid}{here} on {self.host or 'an unnamed host'}, since {since}"


def seems_alive(holder: Holder | None, beaten: float) -> bool:
    """Return whether a holder lives, as far as can be told without waiting for its next heartbeat."""
    alive = holder.is_alive() if holder else False
    return abs(time.time() - beaten) < STALE_SECONDS if alive is None else alive


def _host() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    from socket import gethostname  # Windows; takes long to import

    return gethostname()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _boot() -> str:
    """Return the boot id and the pid namespace; empty where the system does not provide them."""
    try:
        boot = _read("/proc/sys/kernel/random/boot_id").decode().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return the start time of a process in kernel ticks, or None if it does not exist or is a zombie."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    state, *fields = stat.rpartition(b") ")[2].split()
    return None if state in (b"Z", b"X", b"x") else fields[18].decode()
