"""How long a person waits for the program: for `--version`, and for the first prompt of the chat, over bare Python."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from bench.figure import Figure

ROUNDS = 9
PROMPT = "› ".encode()
WHERE_IS_THE_CURSOR = b"\x1b[6n"
DEADLINE = 20.0
PROGRAM = (sys.executable, "-m", "outrider")


def measure() -> Iterator[Figure]:
    """Minima of several processes each, started in turn in a terminal of their own, with compiled bytecode."""
    waits = {
        "bare": ((sys.executable, "-c", "print('ready')"), b"ready"),
        "version": ((*PROGRAM, "--version"), b"outrider "),
        "chat": (PROGRAM, PROMPT),
    }
    best = dict.fromkeys(waits, float("inf"))
    with tempfile.TemporaryDirectory() as home:
        for number in range(ROUNDS + 1):
            for name, (argv, mark) in waits.items():
                seconds = _seconds_until(argv, mark, home)
                if number:  # the first round compiles
                    best[name] = min(best[name], seconds)
    bare = f"bare Python {best['bare'] * 1e3:.0f} ms"
    yield Figure("outrider --version, over bare Python", (best["version"] - best["bare"]) * 1e3, "ms", 60, bare)
    yield Figure("first prompt of the chat, over bare Python", (best["chat"] - best["bare"]) * 1e3, "ms", 250, bare)


def _seconds_until(argv: Sequence[str], mark: bytes, home: str) -> float:
    """From the start of a program in a terminal until it has written the mark."""
    started = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        os.chdir(home)
        os.execve(argv[0], list(argv), environment | {"OUTRIDER_HOME": home, "TERM": "xterm-256color"})
    try:
        _read_until(terminal, mark, started + DEADLINE)
        return time.perf_counter() - started
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def _read_until(terminal: int, mark: bytes, deadline: float) -> None:
    seen = b""
    while mark not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.perf_counter()))
        if not ready:
            raise TimeoutError(f"{mark!r} did not come: {seen!r}")
        seen += os.read(terminal, 65536)
        if WHERE_IS_THE_CURSOR in seen:
            seen = seen.replace(WHERE_IS_THE_CURSOR, b"")
            os.write(terminal, b"\x1b[1;1R")
