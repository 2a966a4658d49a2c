"""How late the lines of an agent are, and how late the machine made them.

`Stamps` notes when each line was read, in a thread that does nothing else. `Control` is a process that does nothing but
sleep, and measures how late it wakes up. It also reads, where the kernel tells it, how long threads waited for a CPU.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

PERIOD = 0.005
"""Seconds that the control sleeps."""


class Stamps:
    """The lines of a stream with the time at which each was read; they are passed on through a pipe."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, bytes]] = []
        self.thread_id = 0

    def tap(self, source: IO[bytes]) -> IO[bytes]:
        """Read the stream from now on; return the pipe to read it from instead."""
        reading, writing = os.pipe()
        begun = threading.Event()

        def read() -> None:
            self.thread_id = threading.get_native_id()
            begun.set()
            with source, os.fdopen(writing, "wb", buffering=0) as to:
                for line in source:
                    self.lines.append((time.monotonic(), line))
                    to.write(line)

        threading.Thread(target=read, daemon=True).start()
        begun.wait()
        return os.fdopen(reading, "rb", buffering=0)


class Sample(NamedTuple):
    """One sleep of the control."""

    woken: float
    late: float
    """Seconds that it woke up after the time that it wanted."""
    waited: float
    """Seconds that the watched threads have waited for a CPU so far."""


class Lateness:
    """What the control has measured."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def between(self, begin: float, end: float) -> float:
        """The seconds by which the machine may have delayed what happened in this time."""
        times = [sample.woken for sample in self._samples]
        assert times[0] <= begin <= end <= times[-1], "the control did not run at this time"
        meanwhile = self._samples[bisect_right(times, begin) - 1 : bisect_left(times, end) + 1]
        return max(sample.late for sample in meanwhile) + meanwhile[-1].waited - meanwhile[0].waited


@contextmanager
def controlled(watched: Sequence[str]) -> Iterator[list[Sample]]:
    """Run the control meanwhile; afterwards the list has its samples. `watched` are threads below /proc."""
    samples: list[Sample] = []
    command = [sys.executable, "-S", __file__, *watched]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as control:
        assert control.stdout
        try:
            control.stdout.readline()  # it runs
            yield samples
        finally:
            told, _ = control.communicate()
    samples += [Sample(*each) for each in json.loads(told)]


def _measure(threads: Sequence[str]) -> list[Sample]:
    samples, waits = [Sample(time.monotonic(), 0.0, 0.0)], [_wait_of(thread) for thread in threads]
    ended: list[int] = []
    while not ended:
        ended, _, _ = select.select([0], [], [], PERIOD)
        woken, before = time.monotonic(), samples[-1]
        seconds = woken - before.woken
        earlier, waits = waits, [_wait_of(thread) for thread in threads]
        # Now and then a kernel counts seconds at once: no thread can have waited for longer than this took.
        waited = sum(min(max(0.0, now - then), seconds) for now, then in zip(waits, earlier, strict=True))
        samples.append(Sample(woken, max(0.0, seconds - PERIOD), before.waited + waited))
    return samples


def _wait_of(thread: str) -> float:
    """The seconds that a thread has waited for a CPU: 0 where the kernel does not say."""
    try:
        return int(Path(thread, "schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


if __name__ == "__main__":
    print(flush=True)
    print(json.dumps(_measure(sys.argv[1:])))
