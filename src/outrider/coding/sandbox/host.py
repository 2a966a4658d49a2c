"""What a sandbox must know about the machine and the user."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping

import msgspec

_SOCKET_VARIABLES = ("SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "GPG_AGENT_INFO", "XDG_RUNTIME_DIR")
_SYSTEM_PATH = "/usr/bin:/bin"
_SOCKET_PATH = re.compile(r"(?:^|[=:]|unix://)(/[^,;:]*)")


class Host(msgspec.Struct, frozen=True):
    """The facts of the user's environment that decide what is hidden."""

    home: str
    """The home folder, or ""."""
    sockets: tuple[str, ...] = ()
    """Sockets and folders of sockets that the environment names."""
    path: str = os.defpath
    """Where programs are looked for."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Host:
        """Return the host that these variables describe."""
        home = environment.get("HOME") or os.path.expanduser("~")
        found = sorted({os.path.realpath(path) for path in _sockets(environment)} - {"/"})
        search = f"{_SYSTEM_PATH}:{environment.get('PATH', '')}"
        return cls(os.path.realpath(home) if os.path.isabs(home) else "", tuple(found), search)

    def program(self, name: str) -> str | None:
        """Return the absolute path of a program. A relative entry of PATH could lead into a project."""
        found = shutil.which(name, path=self.path)
        return found if found and os.path.isabs(found) else None


def _sockets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if name in _SOCKET_VARIABLES or name.startswith("DBUS_"):
            yield from _SOCKET_PATH.findall(value)
