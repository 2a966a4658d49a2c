"""A warm process that forks into the program, because starting an interpreter for each of hundreds would take minutes.

The process has one thread, has imported what the program imports, and has done nothing else. A fork of it gets the
folder, the environment and the streams that it would have been started with, runs `python -m outrider` from its first
line, and ends as an interpreter ends. What differs is that the modules are there already, and that objects which are
left at the end are not freed; `test_warm.py` compares.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import inspect
import os
import pickle
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
IMPORTED_WHEN_NEEDED = (
    "PIL.Image",
    "httptools",
    "jsonschema_rs",
    "pypdf",
    "rich.markdown",
)
_NUMBER = struct.Struct("q")
_PARAMETERS = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


class Job(NamedTuple):
    """What a process is born with, besides its streams."""

    module: str
    arguments: list[str]
    cwd: str
    environment: dict[str, str]
    umask: int
    new_session: bool
    has_terminal: bool


class Warm:
    """The warm process, as its owner sees it. It ends with its owner."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def bear(self, job: Job, streams: list[int], told: int) -> None:
        """Have a process forked; its id, and in the end its status, are written to `told`."""
        said = pickle.dumps(tuple(job))
        with self._lock:
            socket.send_fds(self._socket, [_NUMBER.pack(len(said))], [*streams, told])
            self._socket.sendall(said)

    def close(self) -> None:
        """Wait for its end."""
        self._socket.close()
        self._process.wait(60)


class Fork(subprocess.Popen[Any]):
    """The program, started from a warm process. All that can be done with a process can be done with this one."""

    def __init__(self, warm: Warm, command: list[str], *, has_terminal: bool, **options: Any) -> None:
        self._warm = warm
        self._has_terminal = has_terminal
        super().__init__(command, **options)

    def _execute_child(self, *values: Any) -> None:
        given = _PARAMETERS.bind(self, *values).arguments
        job = Job(
            given["args"][2],
            given["args"][3:],
            os.path.abspath(given["cwd"] or "."),
            given["env"],
            _umask(),
            given["start_new_session"],
            self._has_terminal,
        )
        streams = [
            number if given[name] == -1 else given[name]
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        self._hears, told = os.pipe()
        try:
            self._warm.bear(job, streams, told)
        finally:
            os.close(told)
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]
        self.pid = self._hear()
        self._child_created = True

    def _hear(self) -> int:
        said = os.read(self._hears, _NUMBER.size)
        assert said, "the warm process has ended"
        return int(_NUMBER.unpack(said)[0])

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        return self._wait_for_status(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._wait_for_status(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _wait_for_status(self, timeout: float | None) -> int | None:
        """Like a wait for a child of one's own; several threads may wait."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = 0.05 if end is None else min(0.05, max(0, end - time.monotonic()))
            with self._waitpid_lock:  # type: ignore[attr-defined]
                if self.returncode is None and select.select([self._hears], [], [], left)[0]:
                    self.returncode = os.waitstatus_to_exitcode(self._hear())
                    os.close(self._hears)
            if self.returncode is None and end is not None and time.monotonic() >= end:
                return None
        return self.returncode


def is_possible() -> bool:
    """Whether this system has what it takes."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux"


def _umask() -> int:
    """That of this process; asking the system for it would change it for a moment."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:"))
    return int(line.split()[1], 8)


def take_terminal() -> None:
    """In the child: the pseudo-terminal is what Ctrl-C and a change of size come from."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def serve(requests: socket.socket) -> str:
    """Fork for each job that comes in, and say when and how the fork has ended. In a fork, return the job's module."""
    _import_everything()
    faulthandler.enable()  # a program that hangs says where, on SIGABRT
    signal.signal(signal.SIGINT, signal.default_int_handler)
    living: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([requests, *living], [], [])[0]:
            if ready is not requests:
                _bury(*living.pop(ready))  # type: ignore[call-overload]
                os.close(ready)
                continue
            length, descriptors, _, _ = socket.recv_fds(requests, _NUMBER.size, 4)
            if not length:
                os._exit(0)
            job = Job(*pickle.loads(_read(requests, *_NUMBER.unpack(length))))
            pid = os.fork()
            if not pid:
                requests.detach()
                _become(job, descriptors)
                return job.module
            *streams, told = descriptors
            for stream in streams:
                os.close(stream)
            living[os.pidfd_open(pid)] = (pid, told)
            with suppress(BrokenPipeError):
                os.write(told, _NUMBER.pack(pid))


def _import_everything() -> None:
    import outrider

    ours = (module.name for module in walk_packages(outrider.__path__, "outrider."))
    for name in (*ours, *IMPORTED_WHEN_NEEDED):
        with suppress(ImportError):  # whoever needs it will say so
            if not name.endswith("__main__"):
                import_module(name)
    gc.freeze()  # at its end a fork looks only at what it has made itself
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a fork of a process with several threads is not as good as one of its own"


def _read(requests: socket.socket, length: int) -> bytes:
    said = b""
    while len(said) < length:
        said += requests.recv(length - len(said))
    return said


def _bury(pid: int, told: int) -> None:
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(told, _NUMBER.pack(status))
    os.close(told)


def _become(job: Job, descriptors: list[int]) -> None:
    """In the fork: be as a process is that was just started."""
    for number, stream in enumerate(descriptors[:3]):
        os.dup2(stream, number)
    os.closerange(3, max(int(number) for number in os.listdir("/proc/self/fd")) + 1)
    if job.new_session:
        os.setsid()
    if job.has_terminal:
        take_terminal()
    os.chdir(job.cwd)
    os.umask(job.umask)
    os.environ.clear()
    os.environ.update(job.environment)
    time.tzset()
    sys.path[0] = os.getcwd()
    sys.argv[1:] = job.arguments
    sys.stdin = sys.__stdin__ = _stream(sys.stdin, "r")
    sys.stdout = sys.__stdout__ = _stream(sys.stdout, "w")
    sys.stderr = sys.__stderr__ = _stream(sys.stderr, "w")


def _stream(before: Any, mode: str) -> TextIOWrapper:
    """A standard stream as the interpreter makes it at its start."""
    number, is_output = before.fileno(), mode == "w"
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    binary: Any = open(  # noqa: SIM115 - it stays open
        number, f"{mode}b", buffering=0 if is_output and is_unbuffered else -1, closefd=False
    )
    getattr(binary, "raw", binary).name = before.name
    is_line_buffered = not is_unbuffered and (number == 2 or binary.isatty())
    newline = "\n" if is_output else None
    text = TextIOWrapper(binary, before.encoding, before.errors, newline, is_line_buffered, is_unbuffered)
    text.mode = mode  # type: ignore[misc]
    return text


def run(module: str) -> None:
    """Run the program, and end as an interpreter ends, but leave the memory to the system: freeing it takes longest.

    An exception, and output that cannot be written, are left to the interpreter.
    """
    ended = SystemExit(0)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        ended = error
    if not isinstance(ended.code, int | None):
        raise ended
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        raise ended from None
    os._exit((ended.code or 0) & 0xFF)


if __name__ == "__main__":
    run(serve(socket.socket(fileno=int(sys.argv[1]))))
