"""What a sandbox must know about the machine and the user, and the files that it needs while it is set up."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping

import msgspec

from outrider.temporary_folder import TemporaryFolder

_SOCKET_VARIABLES = ("SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "GPG_AGENT_INFO", "XDG_RUNTIME_DIR")
TEMPORARY = ("/tmp", "/var/tmp")
"""Folders that commands do not see, since sockets in them lead out of a sandbox."""
_SOCKET_PATH = re.compile(r"(?:^|[=:]|unix://)(/[^,;:]*)")


class Host(msgspec.Struct, frozen=True):
    """The facts of the user's environment that decide what is hidden."""

    home: str
    """The home folder, or ""."""
    sockets: tuple[str, ...] = ()
    """Sockets and folders of sockets that the environment names."""
    programs: tuple[str, ...] = ()
    """Folders of programs, and Python environments, below a temporary folder: commands see them, but change nothing."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Host:
        """Return the host that these variables describe."""
        home = environment.get("HOME") or os.path.expanduser("~")
        found = sorted({os.path.realpath(path) for path in _sockets(environment)} - {"/"})
        programs = tuple(dict.fromkeys(_program_folders(environment.get("PATH", ""))))
        return cls(os.path.realpath(home) if os.path.isabs(home) else "", tuple(found), programs)


def _sockets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if name in _SOCKET_VARIABLES or name.startswith("DBUS_"):
            yield from _SOCKET_PATH.findall(value)


def _program_folders(path: str) -> Iterator[str]:
    """Yield what PATH, and this Python, need below a temporary folder. What another user could change is none of it."""
    for entry in (*path.split(os.pathsep), os.path.join(sys.prefix, "bin")):
        real = os.path.realpath(entry) if os.path.isabs(entry) else ""
        top = next((each for each in TEMPORARY if real.startswith(f"{each}/")), None)
        if top is None or not os.path.isdir(real) or not _is_own(real, top):
            continue
        around = os.path.dirname(real)
        yield around if around != top and os.path.exists(f"{around}/pyvenv.cfg") else real


def _is_own(path: str, top: str) -> bool:
    """Return whether only the user and root can change a folder, or replace one around it up to `top`."""
    while path != top:
        found = os.stat(path)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
            return False
        path = os.path.dirname(path)
    return True


class RuntimeFiles:
    """A folder for the owner alone with the given files and an empty one.

    It is removed with this object or at the end of the process, and made anew if a cleaner of temporary files removes
    it.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = {**contents, "empty": b""}
        self.folder = self._make()

    @property
    def empty_file(self) -> str:
        return self.path("empty")

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def ensure(self) -> None:
        """Make the folder anew if a file of it is missing."""
        if not all(os.path.exists(self.path(name)) for name in self._contents):
            self.folder = self._make()

    def _make(self) -> str:
        self._temporary = TemporaryFolder()
        folder = str(self._temporary.path)
        for name, content in self._contents.items():
            handle = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
            with open(handle, "wb") as file:
                file.write(content)
        return folder
