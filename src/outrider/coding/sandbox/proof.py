"""Prove a sandbox by trying to leave it."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

import msgspec

from outrider.coding.sandbox.sandbox import Confinement, Sandbox
from outrider.processes.programs import SYSTEM_PATH
from outrider.processes.starting import run
from outrider.text import clean

SECONDS = 20.0
_VISIBLE = "/var/tmp"
"""Where the attempts see what they must not change. In /tmp, they would not even find it."""

# Runs inside. Each attempt must raise, or return a false value, where the sandbox holds.
_ATTEMPTS = """
import ctypes, json, os, socket, sys

base, port, pid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
call = ctypes.CDLL(None).syscall
keys, unshare = (250, 272) if os.uname().machine == "x86_64" else (219, 97)


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
        for folder in ("folder/.git", "outside", "tmp"):
            (base / folder).mkdir(parents=True)
        (base / "folder" / ".env").write_text("secret")
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
            local.bind(f"{base}/outside/socket")
            local.listen()
            return _run(sandbox, base, server.getsockname()[1])


def _run(sandbox: Sandbox | None, base: Path, port: int) -> dict[str, bool]:
    folder = base / "folder"
    python = os.path.realpath(sys.executable)
    argv = [python, "-I", "-S", "-c", _ATTEMPTS, str(base), str(port), str(os.getpid())]
    if sandbox:
        argv = sandbox.wrap(argv, "write", Confinement(folder=folder, cwd=folder, temporary=base / "tmp"))
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
