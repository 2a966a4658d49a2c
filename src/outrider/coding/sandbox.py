"""Bubblewrap around shell commands: the workspace can be written, the rest is read-only, the network is a choice."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from outrider.text import clean

TRIAL_SECONDS = 5.0

# Whoever reaches these sockets has others start programs outside the sandbox: a read-only file system is no obstacle.
_WAYS_OUT = (
    "/run/user",
    "/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/libvirt",
    "/run/incus",
)

_KEPT = (".git/hooks", ".git/config", ".outrider")
"""What others run or obey later, outside the sandbox: not to be changed from within."""


class Sandbox(msgspec.Struct, frozen=True):
    """How commands are fenced in."""

    program: str
    """The path of bwrap."""
    network: bool = True
    """Whether commands reach the network."""
    writable: tuple[str, ...] = ()
    """Folders besides the workspace that commands may change."""

    def wrap(self, argv: Sequence[str], folder: Path, cwd: Path, temporary: Path) -> list[str]:
        """The command that runs `argv` in the sandbox. `temporary` is made its /tmp.

        A /tmp of its own, since the sockets in the real one (of tmux, X11, ssh-agent) are ways out. It is the same for
        all commands of a session, since one leaves there what the next one reads.
        """
        within = ["--ro-bind", "/", "/", "--bind", str(temporary), "/tmp", "--dev", "/dev", "--proc", "/proc"]
        for place in _WAYS_OUT:
            if os.path.isdir(place):
                within += ["--tmpfs", place]
            elif os.path.exists(place):
                within += ["--ro-bind", "/dev/null", place]
        for place in self.writable:
            within += ["--bind-try", place, place]
        for own in (temporary, folder):
            within += ["--bind", str(own), str(own)]
        for kept in (folder / name for name in _KEPT):
            within += ["--ro-bind-try", str(kept), str(kept)]
        within += ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        within += [] if self.network else ["--unshare-net"]
        return [self.program, *within, "--chdir", str(cwd), "--", *argv]

    def __str__(self) -> str:
        """What holds for commands, in a sentence."""
        reach = "reach the network" if self.network else "do not reach the network"
        also = f" and {', '.join(self.writable)}" if self.writable else ""
        return f"Commands run in a sandbox: they can write to the workspace, a /tmp of their own{also}, and {reach}."


def find_sandbox(*, network: bool = True, writable: Sequence[str] = (), program: str | None = None) -> Sandbox | None:
    """A sandbox that works here, or None."""
    return try_sandbox(network=network, writable=writable, program=program)[0]


def try_sandbox(
    *, network: bool = True, writable: Sequence[str] = (), program: str | None = None
) -> tuple[Sandbox | None, str]:
    """A sandbox that works here, if there is one, and the sentence about it. Bubblewrap may be there and forbidden."""
    import shutil

    found = shutil.which(program or "bwrap")
    if found is None:
        return None, "commands run without a sandbox: bubblewrap is not installed"
    sandbox = Sandbox(found, network, tuple(writable))
    if fault := _fault(sandbox):
        return None, f"commands run without a sandbox: bubblewrap does not work here ({fault})"
    return sandbox, f"commands run in a sandbox (bubblewrap, {'with' if network else 'without'} network)"


def _fault(sandbox: Sandbox) -> str:
    """What keeps the sandbox from working; a command that does nothing finds out."""
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
