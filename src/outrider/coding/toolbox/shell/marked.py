"""What somebody else started for us: known by its mark alone, and ended as our own processes are."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from outrider.coding.toolbox.shell.family import Kin, can_be_listed, family
from outrider.coding.toolbox.shell.following import LAST_WORDS
from outrider.coding.toolbox.shell.processes import Process, end


class Marked(Process):
    """All that carries a mark, as far as it lives on this machine. There is no shell of ours to wait for."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._reaped = True  # no process id stands for it
        self.exit_handle = None

    def family(self, known: Iterable[Kin] = ()) -> set[Kin]:
        """All that live of it; nobody where the system has no table of processes."""
        return family(None, self._mark, known) if can_be_listed() else set()

    def signal(self, members: Iterable[Kin], number: signal.Signals) -> None:
        """Send it to these: to parents first, who have less to say then about the end of their children."""
        super().signal(sorted(members), number)

    def finish(self) -> tuple[int, int]:
        """End what lives when the shell has ended, after a moment for last words: how many, and how many still live."""
        until, moment = time.monotonic() + LAST_WORDS, 0.005
        while self.family() and (remaining := until - time.monotonic()) > 0:
            time.sleep(min(moment, remaining))
            moment *= 2
        return self.end()

    def end(self) -> tuple[int, int]:
        """End it, first gently: how many there were, and how many still live."""
        return end([self])

    def end_as_it_comes(self, seconds: float) -> None:
        """End it, also what is only being started: for so long, since it may not carry its mark yet."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.end()
            time.sleep(0.02)
