"""Processes that another program started for us, found by their mark alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from outrider.coding.toolbox.shell.following import DRAIN_SECONDS
from outrider.processes.process_tree import ProcessKey, can_list_processes, find_processes
from outrider.processes.processes import Process, end


class MarkedProcesses(Process):
    """All processes on this machine that carry a mark. There is no shell of ours to wait for."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._reaped = True  # there is no process id to signal
        self.exit_handle = None

    def running(self, known: Iterable[ProcessKey] = ()) -> set[ProcessKey]:
        """Return the live processes; empty if the system has no process table."""
        return find_processes(None, self._mark, known) if can_list_processes() else set()

    def signal(self, members: Iterable[ProcessKey], number: signal.Signals) -> None:
        """Send a signal, to parents first, so that they report less about their children's end."""
        super().signal(sorted(members), number)

    def finish(self) -> tuple[int, int]:
        """Wait briefly for the processes, then end them. Return how many there were and how many still live."""
        until, moment = time.monotonic() + DRAIN_SECONDS, 0.005
        while self.running() and (remaining := until - time.monotonic()) > 0:
            time.sleep(min(moment, remaining))
            moment *= 2
        return self.end()

    def end(self) -> tuple[int, int]:
        """End the processes, gently at first. Return how many there were and how many still live."""
        return end([self])

    def end_repeatedly(self, seconds: float) -> None:
        """End the processes again and again for `seconds`, because a starting process may not carry its mark yet."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.end()
            time.sleep(0.02)
