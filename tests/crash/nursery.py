"""A warm process that forks children, because starting an interpreter for each of hundreds would take minutes.

The process has one thread and no open log, so that a fork of it is as good as a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import msgspec

DEADLINE = 60.0
"""Seconds after which a child counts as hanging."""
ROOT = Path(__file__).parents[2]


class Job(msgspec.Struct):
    """A function to be called in a child."""

    module: str
    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kill_after: float | None = None
    """Seconds after which the child is killed."""


class Ended(msgspec.Struct):
    """How a child ended."""

    signal: int
    """By which signal, or 0."""
    seconds: float
    value: Any = None
    """What the function returned."""
    error: str = ""
    """What it raised."""

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL


class Nursery:
    """Has functions called in children of a process that is kept for that."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, function: Callable[..., Any], *args: Any, kill_after: float | None = None, **kwargs: Any) -> Ended:
        """Call the function, which must stand in a module, in a child, and wait for its end."""
        module = sys.modules[function.__module__]
        job = Job(module.__name__, function.__name__, args, kwargs, kill_after)
        source, sink = self._pipes
        sink.write(msgspec.json.encode(job) + b"\n")
        sink.flush()
        return msgspec.json.decode(source.readline(), type=Ended)

    def close(self) -> None:
        for pipe in reversed(self._pipes):
            pipe.close()
        self._process.wait(DEADLINE)

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdout
        assert self._process.stdin
        return self._process.stdout, self._process.stdin


def serve() -> None:
    """Fork a child for each job that comes in, and say how it ended."""
    for name in ("hmac", "jsonschema_rs", "outrider.log.resume", "tests.crash.child"):
        import_module(name)  # what each child would have to import for itself

    for line in sys.stdin.buffer:
        ended = _bear(msgspec.json.decode(line, type=Job))
        sys.stdout.buffer.write(msgspec.json.encode(ended) + b"\n")
        sys.stdout.buffer.flush()


def _bear(job: Job) -> Ended:
    source, sink = os.pipe()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        _live(job, sink)
    os.close(sink)
    said = _listen(source, pid, start + (DEADLINE if job.kill_after is None else job.kill_after))
    _, status = os.waitpid(pid, 0)
    os.close(source)
    seconds = time.monotonic() - start
    if os.WIFSIGNALED(status):
        error = f"the child hung, and was killed after {DEADLINE} seconds" if seconds > DEADLINE else ""
        return Ended(os.WTERMSIG(status), seconds, error=error)
    value, error = msgspec.json.decode(said)
    return Ended(0, seconds, value, error)


def _live(job: Job, sink: int) -> None:
    value, error = None, ""
    try:
        value = getattr(import_module(job.module), job.function)(*job.args, **job.kwargs)
    except BaseException:
        error = traceback.format_exc()
    said = memoryview(msgspec.json.encode((value, error)))
    while said:
        said = said[os.write(sink, said) :]
    os._exit(0)


def _listen(source: int, pid: int, until: float) -> bytes:
    """What the child says to its end, which comes at the latest at the given time."""
    said = b""
    while True:
        left = None if until == float("inf") else max(0, until - time.monotonic())
        if select.select([source], [], [], left)[0]:
            piece = os.read(source, 2**16)
            if not piece:
                return said
            said += piece
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            until = float("inf")  # it may have come to its end this very moment: then what it says counts


if __name__ == "__main__":
    serve()
