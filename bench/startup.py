"""How long a person waits for the program: for `--version`, `--help`, the prompt of the chat, and the first request."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.figure import Figure

ROUNDS = 9
PROMPT = "› ".encode()
ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c"}
"""What every terminal answers to the questions where its cursor is and what it is."""
DEADLINE = 20.0
READY = 2.0
"""Seconds that a chat has before the first message, as a person who types it gives it."""
PROGRAM = (sys.executable, "-P", "-m", "outrider")


def measure() -> Iterator[Figure]:
    """Minima of several processes each, started in turn in a terminal of their own, with compiled bytecode."""
    waits = {
        "bare": ((sys.executable, "-c", "print('ready')"), b"ready"),
        "version": ((*PROGRAM, "--version"), b"outrider "),
        "help": ((*PROGRAM, "--help"), b"--version"),
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
    yield Figure("outrider --help, over bare Python", (best["help"] - best["bare"]) * 1e3, "ms", 60, bare)
    yield Figure("first prompt of the chat, over bare Python", (best["chat"] - best["bare"]) * 1e3, "ms", 200, bare)
    yield Figure(
        "CPU of `outrider -p` until its request leaves", _cpu_until_request() * 1e3, "ms", 350, f"best of {ROUNDS}"
    )

    ready, printed = _waits_for_request()
    yield Figure("first request of a chat whose prompt is there", ready * 1e3, "ms", 300, f"best of {ROUNDS}")
    yield Figure("the same, beside a fresh `outrider -p`", ready / printed, "times", 0.5, f"{printed * 1e3:.0f} ms")


# The first request


def _waits_for_request() -> tuple[float, float]:
    """Wall seconds until a model on loopback has a request: from Enter in a chat, from the start of `-p`; minima."""
    with _listening() as (model, next_request), tempfile.TemporaryDirectory() as home:
        chats, prints = [], []
        for _ in range(ROUNDS + 1):
            chats.append(_seconds_from_enter(model, next_request, home))
            started = time.perf_counter()
            with _printing(model, home):
                next_request()
                prints.append(time.perf_counter() - started)
        return min(chats), min(prints)


def _seconds_from_enter(model: str, next_request: Callable[[], None], home: str) -> float:
    """In a chat that had READY seconds to prepare."""
    with _terminal((*PROGRAM, "--model", model), home) as terminal:
        _read_until(terminal, PROMPT, time.perf_counter() + DEADLINE)
        with suppress(TimeoutError):
            _read_until(terminal, b"\0", time.perf_counter() + READY)
        os.write(terminal, b"What is 2+2?\r")
        started = time.perf_counter()
        next_request()
        return time.perf_counter() - started


@contextmanager
def _printing(model: str, home: str) -> Iterator[int]:
    """A process of `-p`: its id."""
    argv = (*PROGRAM, "-p", "What is 2+2?", "--model", model)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OUTRIDER_HOME": home, "XDG_CONFIG_HOME": home}
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=nothing, stdout=nothing, stderr=nothing, env=environment, cwd=home)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _cpu_until_request() -> float:
    """The CPU seconds of a fresh process with a prompt, from its start until a model on loopback has its request."""
    with _listening() as (model, next_request), tempfile.TemporaryDirectory() as home:
        return min(_cpu_of_one(model, next_request, home) for _ in range(ROUNDS + 1))


def _cpu_of_one(model: str, next_request: Callable[[], None], home: str) -> float:
    with _printing(model, home) as process:
        next_request()
        return _cpu_seconds(process)


def _cpu_seconds(pid: int) -> float:
    """What all threads of a process have used. The kernel counts it in nanoseconds; `times()` would count in ticks."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


@contextmanager
def _listening() -> Iterator[tuple[str, Callable[[], None]]]:
    """A server that takes requests and never answers: the name of its model, and a wait for the next request."""
    taken, ended = threading.Semaphore(0), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Know nothing about models."""
            self.send_error(404)

        def do_POST(self) -> None:
            """Take the whole request."""
            self.rfile.read(int(self.headers["content-length"]))
            taken.release()
            ended.wait(DEADLINE)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    def wait() -> None:
        if not taken.acquire(timeout=DEADLINE):
            raise TimeoutError("no request came")

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1#silent", wait
        ended.set()
        server.shutdown()


# A program in a terminal


def _seconds_until(argv: Sequence[str], mark: bytes, home: str) -> float:
    """From the start of a program in a terminal until it has written the mark."""
    started = time.perf_counter()
    with _terminal(argv, home) as terminal:
        _read_until(terminal, mark, started + DEADLINE)
        return time.perf_counter() - started


@contextmanager
def _terminal(argv: Sequence[str], home: str) -> Iterator[int]:
    """A program in a terminal of its own."""
    child, terminal = pty.fork()
    if child == 0:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        own = {"OUTRIDER_HOME": home, "OUTRIDER_MODEL": "demo", "TERM": "xterm-256color"}  # it asks for no key
        os.chdir(home)
        os.execve(argv[0], list(argv), environment | own)
    try:
        yield terminal
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
        for question, answer in ANSWERS.items():
            if question in seen:
                seen = seen.replace(question, b"")
                os.write(terminal, answer)
