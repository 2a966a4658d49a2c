"""What a sandbox must know about the machine and the user."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

import msgspec

_SOCKET_VARIABLES = ("SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "GPG_AGENT_INFO", "XDG_RUNTIME_DIR")
_SOCKET_PATH = re.compile(r"(?:^|[=:]|unix://)(/[^,;:]*)")


class Host(msgspec.Struct, frozen=True):
    """The facts of the user's environment that decide what is hidden."""

    home: str
    """The home folder, or ""."""
    sockets: tuple[str, ...] = ()
    """Sockets and folders of sockets that the environment names."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Host:
        """Return the host that these variables describe."""
        home = environment.get("HOME") or os.path.expanduser("~")
        found = sorted({os.path.realpath(path) for path in _sockets(environment)} - {"/"})
        return cls(os.path.realpath(home) if os.path.isabs(home) else "", tuple(found))


def _sockets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if name in _SOCKET_VARIABLES or name.startswith("DBUS_"):
            yield from _SOCKET_PATH.findall(value)
