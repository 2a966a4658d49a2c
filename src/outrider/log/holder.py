"""Who has a session open, and whether it still lives.

On one machine the process table answers that, and no clock is asked. Of a holder elsewhere (another machine, another
container) only its heartbeat is known: a counter, because clocks differ and jump.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from outrider.text import clean

BEAT_SECONDS = 10.0
"""How often a holder shows that it lives."""
STALE_SECONDS = 35.0
"""A holder elsewhere that has not been heard of for so long is looked at more closely."""


class Holder(msgspec.Struct, frozen=True):
    """A process that has a session open."""

    host: str
    boot: str
    """Which run of which machine: the process ids below mean something only there."""
    pid: int
    started: str
    """When the process began, as the system tells it: process ids are used again."""
    since: float
    program: str = ""
    log: str = ""
    """Which `Log` of the process."""

    @classmethod
    def here(cls, log: str = "") -> Holder:
        """This process."""
        pid = os.getpid()
        program = clean(Path(sys.argv[0]).name) if sys.argv and sys.argv[0] else ""
        return cls(_host(), _boot(), pid, _started(pid) or "", time.time(), program, log)

    def lives(self) -> bool | None:
        """Whether the process is there; None if that cannot be told from here."""
        boot = _boot()
        if not self.boot or not boot:
            return None
        if self.boot != boot:
            # Another run of the same machine: its processes are gone. Another room of this run: nobody knows.
            same_machine = self.host == _host() and not self.host.startswith("localhost")
            return False if same_machine and self.boot.split()[0] != boot.split()[0] else None
        started = _started(self.pid)
        return started is not None and started == self.started

    def __str__(self) -> str:
        here = " (this process)" if self.pid == os.getpid() and self.boot == _boot() else ""
        program = f"{self.program}, " if self.program else ""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"{program}process {self.pid}{here} on {self.host or 'an unnamed host'}, since {since}"


def _host() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    from socket import gethostname  # Windows; takes long to import

    return gethostname()


def _boot() -> str:
    """This run of this machine, and the room for process ids in it; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When the process began, in the kernel's ticks; None if it is not there or only waits to be buried."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *fields = stat.rpartition(b") ")[2].split()
    return None if state in (b"Z", b"X", b"x") else fields[18].decode()
