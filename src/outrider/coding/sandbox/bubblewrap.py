"""The bubblewrap sandbox: namespaces and bind mounts around a command (Linux)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from outrider.coding.access import Access
from outrider.coding.sandbox.sandbox import Confinement

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


class Bubblewrap(msgspec.Struct, frozen=True):
    """Confine commands with namespaces and bind mounts."""

    program: str
    """The path of bwrap."""

    @property
    def name(self) -> str:
        """The mechanism."""
        return "bubblewrap"

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        """Return the arguments that run `argv` with an access level, with its own /tmp.

        The sandbox has its own /tmp because sockets in the real one (of tmux, X11, ssh-agent) lead out of it. All
        commands of a session share it, because one may read what another has left there.
        """
        if access == "full":
            return list(argv)
        options = ["--ro-bind", "/", "/", "--bind", str(places.temporary), "/tmp", "--dev", "/dev", "--proc", "/proc"]
        for place in _ESCAPES:
            if os.path.isdir(place):
                options += ["--tmpfs", place]
            elif os.path.exists(place):
                options += ["--ro-bind", "/dev/null", place]
        options += ["--bind", str(places.temporary), str(places.temporary)]
        if access != "read":
            for own in (*places.writable, places.folder):
                options += ["--bind-try", str(own), str(own)]
            for kept in (places.folder / name for name in _PROTECTED):
                options += ["--ro-bind-try", str(kept), str(kept)]
        options += ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        options += [] if access == "network" else ["--unshare-net"]
        return [self.program, *options, "--chdir", str(places.cwd), "--", *argv]
