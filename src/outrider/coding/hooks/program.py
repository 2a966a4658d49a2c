"""Run the program of a hook: JSON on standard input, bounded output and time, ended with everything it started."""

from __future__ import annotations

import os
import select
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from outrider.processes.processes import Process, Processes, end

MOST_OUTPUT = 64 * 1024
"""Bytes of each stream that are kept. The rest is read and dropped."""
_POLL = 0.05


class ProgramResult(msgspec.Struct, frozen=True):
    """How a program ended."""

    exit_code: int | None
    """None if it did not end in time."""
    output: str
    errors: str


def run_program(
    processes: Processes,
    argv: list[str],
    mark: str,
    data: bytes,
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    stopped: threading.Event,
) -> ProgramResult:
    """Run a program to its end, or until its time is over or `stopped` is set. Blocks.

    Raises OSError if it cannot be started.
    """
    # Its input is not a pipe: a program that reads nothing must not block us.
    with tempfile.TemporaryFile() as given, _two_pipes() as (readers, writers):
        given.write(data)
        given.seek(0)
        process = processes.start(
            argv,
            mark,
            folder=folder,
            environment=environment,
            output=writers[0],
            errors=writers[1],
            input=given.fileno(),
        )
        while writers:
            os.close(writers.pop())
        try:
            return _follow(process, readers, time.monotonic() + seconds, stopped)
        finally:
            processes.forget(process)


@contextmanager
def _two_pipes() -> Iterator[tuple[list[int], list[int]]]:
    """Yield the ends to read from and those to write to. Those that are still listed at the end are closed."""
    readers: list[int] = []
    writers: list[int] = []
    try:
        for _ in range(2):
            reader, writer = os.pipe()
            readers.append(reader)
            writers.append(writer)
        yield readers, writers
    finally:
        for handle in (*readers, *writers):
            os.close(handle)


def _follow(process: Process, readers: list[int], deadline: float, stopped: threading.Event) -> ProgramResult:
    kept = dict.fromkeys(readers, b"")
    open_handles = set(readers)

    def read(wait: float) -> None:
        for handle in _readable(open_handles, wait):
            if data := os.read(handle, MOST_OUTPUT):
                kept[handle] = (kept[handle] + data)[:MOST_OUTPUT]
            else:
                open_handles.discard(handle)
        if not open_handles:
            time.sleep(min(wait, 0.01))

    try:
        while not process.ended() and time.monotonic() < deadline and not stopped.is_set():
            read(_POLL)
        in_time = process.ended()
    finally:
        _, left = end([process], read)
    for _ in range(100):  # what is left in the pipes
        if not _readable(open_handles, 0):
            break
        read(0)
    code = process.reap() if not left or process.ended() else None
    output, errors = (kept[handle].decode(errors="replace").strip() for handle in readers)
    return ProgramResult(code if in_time else None, output, errors)


def _readable(handles: set[int], seconds: float) -> list[int]:
    """Wait for something to read. Not by `select`, which fails for the handles of a process that has many open."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return [handle for handle, _ in poll.poll(seconds * 1000)] if handles else []
