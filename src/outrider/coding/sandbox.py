"""A bubblewrap sandbox for commands: the workspace is writable, the rest is read-only, the network is optional."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from outrider.text import clean

TRIAL_SECONDS = 5.0

# Through these sockets, programs can be started outside the sandbox; a read-only file system does not prevent it.
_ESCAPES = (
    "/run/user",
    "/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/libvirt",
    "/run/incus",
)

_PROTECTED = (".git/hooks", ".git/config", ".outrider")
"""Files that programs outside the sandbox run or obey later, so commands must not change them."""


class Sandbox(msgspec.Struct, frozen=True):
    """A sandbox for commands."""

    program: str
    """The path of bwrap."""
    network: bool = True
    """Whether commands can use the network."""
    writable: tuple[str, ...] = ()
    """Folders besides the workspace that commands may change."""

    def wrap(self, argv: Sequence[str], folder: Path, cwd: Path, temporary: Path) -> list[str]:
        """Return the arguments that run `argv` in the sandbox, with `temporary` as its /tmp.

        The sandbox has its own /tmp because sockets in the real one (of tmux, X11, ssh-agent) lead out of it. All
        commands of a session share it, because one may read what another has left there.
        """
        options = ["--ro-bind", "/", "/", "--bind", str(temporary), "/tmp", "--dev", "/dev", "--proc", "/proc"]
        for place in _ESCAPES:
            if os.path.isdir(place):
                options += ["--tmpfs", place]
            elif os.path.exists(place):
                options += ["--ro-bind", "/dev/null", place]
        for place in self.writable:
            options += ["--bind-try", place, place]
        for own in (temporary, folder):
            options += ["--bind", str(own), str(own)]
        for kept in (folder / name for name in _PROTECTED):
            options += ["--ro-bind-try", str(kept), str(kept)]
        options += ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        options += [] if self.network else ["--unshare-net"]
        return [self.program, *options, "--chdir", str(cwd), "--", *argv]

    def __str__(self) -> str:
        """Return a sentence that describes the sandbox."""
        reach = "reach the network" if self.network else "do not reach the network"
        also = f" and {', '.join(self.writable)}" if self.writable else ""
        return f"Commands run in a sandbox: they can write to the workspace, a /tmp of their own{also}, and {reach}."


def find_sandbox(*, network: bool = True, writable: Sequence[str] = (), program: str | None = None) -> Sandbox | None:
    """Return a sandbox that works here, or None."""
    return try_sandbox(network=network, writable=writable, program=program)[0]


def try_sandbox(
    *, network: bool = True, writable: Sequence[str] = (), program: str | None = None
) -> tuple[Sandbox | None, str]:
    """Return a working sandbox or None, and a sentence about it. Bubblewrap may be installed but forbidden."""
    import shutil

    found = shutil.which(program or "bwrap")
    if found is None:
        return None, "commands run without a sandbox: bubblewrap is not installed"
    sandbox = Sandbox(found, network, tuple(writable))
    if error := _trial_error(sandbox):
        return None, f"commands run without a sandbox: bubblewrap does not work here ({error})"
    return sandbox, f"commands run in a sandbox (bubblewrap, {'with' if network else 'without'} network)"


def _trial_error(sandbox: Sandbox) -> str:
    """Run an empty command in the sandbox and return why it failed, or ""."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        argv = sandbox.wrap(["/bin/sh", "-c", ":"], folder, folder, folder)
        try:
            trial = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_SECONDS, cwd="/")
        except subprocess.TimeoutExpired:
            return f"it did not answer within {TRIAL_SECONDS:g} seconds"
        except OSError as error:
            return error.strerror or str(error)
    if trial.returncode == 0:
        return ""
    lines = clean(trial.stderr.decode(errors="replace")).strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {trial.returncode}"
