"""Prove a sandbox by trying to leave it."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from outrider.coding.own_places import OwnPlaces
from outrider.coding.sandbox.sandbox import Confinement, Sandbox
from outrider.processes.programs import SYSTEM_PATH
from outrider.processes.starting import run
from outrider.text import clean

SECONDS = 20.0
_NEW_SEGMENT, _REMOVE_SEGMENT = 0o1600, 0
_VISIBLE = "/var/tmp"
"""Where the attempts see what they must not change. In /tmp, they would not even find it."""

# Runs inside. Each attempt must raise, or return a false value, where the sandbox holds.
_ATTEMPTS = """
import ctypes, json, os, socket, sys

base, port, pid, terminal, key = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
call = ctypes.CDLL(None).syscall
keys, unshare, shmget = (250, 272, 29) if os.uname().machine == "x86_64" else (219, 97, 194)


def connected(family, address):
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect(address)
    return True


attempts = {
    "writing outside the folder": lambda: open(f"{base}/outside/file", "w"),
    "changing .git": lambda: open(f"{base}/folder/.git/config", "w"),
    "moving .git away": lambda: os.rename(f"{base}/folder/.git", f"{base}/folder/moved") or True,
    "creating .vscode": lambda: os.mkdir(f"{base}/folder/.vscode") or True,
    "reading .env": lambda: open(f"{base}/folder/.env").read(),
    "reading Outrider's data": lambda: open(f"{base}/data/log.db").read(),
    "reading snapshots": lambda: open(f"{base}/data/snapshots/ab/abcd").read(),
    "reading Outrider's settings": lambda: open(f"{base}/settings/mcp.json").read(),
    "opening a terminal": lambda: os.open(terminal, os.O_RDWR | os.O_NOCTTY),
    "finding shared memory": lambda: call(shmget, key, 0, 0) >= 0,
    "reaching a Unix socket": lambda: connected(socket.AF_UNIX, f"{base}/outside/socket"),
    "reaching the network": lambda: connected(socket.AF_INET, ("127.0.0.1", port)),
    "signalling another process": lambda: os.kill(pid, 0) or True,
    "changing kernel settings": lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "reading kernel keys": lambda: call(keys, 0, -3, 0) > 0,
    "making a namespace": lambda: call(unshare, 0x10000000) == 0,
}
succeeded = {}
for name, attempt in attempts.items():
    try:
        succeeded[name] = bool(attempt())
    except OSError:
        succeeded[name] = False
print(json.dumps(succeeded))
"""


class SandboxProofError(Exception):
    """The attempts did not run."""


def try_escapes(sandbox: Sandbox | None) -> dict[str, bool]:
    """Try to leave a sandbox with access `write`. Return each attempt and whether it succeeded.

    None tries without a sandbox. Raises SandboxProofError.
    """
    with tempfile.TemporaryDirectory(dir=_VISIBLE if os.access(_VISIBLE, os.W_OK) else None) as name:
        base = Path(os.path.realpath(name))
        for folder in ("folder/.git", "outside", "tmp", "data/snapshots/ab", "settings"):
            (base / folder).mkdir(parents=True)
        for file in ("folder/.env", "data/log.db", "data/snapshots/ab/abcd", "settings/mcp.json"):
            (base / file).write_text("secret")
        with ExitStack() as opened:
            server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            local = opened.enter_context(socket.socket(socket.AF_UNIX))
            local.bind(f"{base}/outside/socket")
            local.listen()
            terminal, key = opened.enter_context(_terminal()), opened.enter_context(_shared_memory())
            return _run(sandbox, base, (server.getsockname()[1], os.getpid(), terminal, key))


@contextmanager
def _terminal() -> Iterator[str]:
    """Yield the path of a terminal that is open."""
    leader, follower = os.openpty()
    try:
        yield os.ttyname(follower)
    finally:
        os.close(leader)
        os.close(follower)


@contextmanager
def _shared_memory() -> Iterator[int]:
    """Yield the key of System V shared memory."""
    import ctypes

    libc, key = ctypes.CDLL(None), int.from_bytes(os.urandom(3), "big") + 1
    segment = libc.shmget(key, 4096, _NEW_SEGMENT)
    try:
        yield key
    finally:
        libc.shmctl(segment, _REMOVE_SEGMENT, None)


def _run(sandbox: Sandbox | None, base: Path, facts: Sequence[object]) -> dict[str, bool]:
    folder = base / "folder"
    python = os.path.realpath(sys.executable)
    argv = [python, "-I", "-S", "-c", _ATTEMPTS, str(base), *map(str, facts)]
    if sandbox:
        own = OwnPlaces((f"{base}/data", f"{base}/settings"))
        places = Confinement(folder=folder, cwd=folder, temporary=base / "tmp", own=own)
        argv = sandbox.wrap(argv, "write", places)
    try:
        ended = run(argv, environment={"PATH": SYSTEM_PATH}, seconds=SECONDS, folder=folder)
        return msgspec.json.decode(ended.output, type=dict[str, bool])
    except TimeoutError:
        raise SandboxProofError(f"no answer within {SECONDS:g} seconds") from None
    except OSError as error:
        raise SandboxProofError(error.strerror or str(error)) from None
    except msgspec.DecodeError:
        said = clean(ended.errors.decode(errors="replace")).strip().splitlines()
        raise SandboxProofError(said[-1][:200] if said else f"exit code {ended.code}") from None
