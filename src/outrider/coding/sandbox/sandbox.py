"""What every sandbox does, and what it must know about the machine and the folder that a command works in."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec

from outrider.coding.access import Access
from outrider.coding.own_places import OwnPlaces
from outrider.coding.protected_paths import PROTECTED, SECRETS, bare_head, present_configuration, repository_paths
from outrider.filesystem import is_within, real_path
from outrider.temporary_folder import TemporaryFolder

_ENTRIES = tuple(dict.fromkeys(name.partition("/")[0] for name in PROTECTED))


class Confinement(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The places of one command. Links are followed once."""

    folder: Path
    """The project's folder, which access `write` may change."""
    cwd: Path
    """Where the command starts."""
    temporary: Path
    """A private folder that becomes the command's /tmp. All commands of a session share it."""
    writable: tuple[Path, ...] = ()
    """More working folders, as `permissions.folders` names them."""
    secrets: tuple[str, ...] = SECRETS
    """Patterns of the files that no command may read."""
    kept: tuple[Path, ...] = ()
    """More files that no command may change: those that Outrider itself runs or obeys."""
    own: OwnPlaces = OwnPlaces()
    """Outrider's data and settings, which are not there for a command."""
    accepted: tuple[str, ...] | None = None
    """The doubts about the sandbox that the user has accepted; None for all of them."""
    has_terminal: bool = False
    """Whether the command has a terminal of its own."""

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """The real paths of the working folders that exist."""
        real = dict.fromkeys(real_path(each) for each in (self.folder, *self.writable))
        return tuple(path for path in real if os.path.isdir(path))

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The working folders that commands may change, without those that are inside another one.

        Outrider's own folders, such as that of the log, are none: a command that writes there could approve calls.
        """
        kept = [real_path(each) for each in self.kept]
        folders = [one for one in self.folders if not any(is_within(one, each) for each in kept)]
        folders = [one for one in folders if not self.own.hides(one)]
        return tuple(one for one in folders if not any(is_inside(one, each) for each in folders))

    def shown(self, programs: Iterable[str]) -> list[str]:
        """Return the folders of programs that are there, outside of the working folders and of Outrider's own."""
        outside = (one for one in programs if not any(is_within(one, each) for each in self.folders))
        return [one for one in outside if os.path.isdir(one) and not self.own.hides(one)]

    @property
    def protected(self) -> tuple[str, ...]:
        """The entries of the working folders that no command may change, present or not.

        Of the less usual names of configuration, those that are there.

        A protected path stands for the whole entry that holds it: an entry below could be renamed away with its folder.
        """
        entries = [(folder, name) for folder in self.folders for name in (*_ENTRIES, *present_configuration(folder))]
        found = {f"{folder.rstrip('/')}/{name}": None for folder, name in entries}
        found.update((head, None) for head in map(bare_head, self.folders) if head)
        repositories = (*map(repository_paths, map(Path, self.folders)),)
        for path in (*(path for paths in repositories for path in paths), *self.kept, *map(Path, self.own.hidden)):
            absolute = os.path.abspath(path)
            if holder := max((each for each in self.folders if is_inside(absolute, each)), key=len, default=""):
                first = os.path.relpath(absolute, holder).split("/")[0]
                found[f"{holder.rstrip('/')}/{first}"] = None
        return tuple(found)


def is_inside(path: str, folder: str) -> bool:
    """Return whether an absolute path is below a folder, and not the folder itself."""
    return path != folder and path.startswith(f"{folder.rstrip('/')}/")


class DoubtError(Exception):
    """The sandbox cannot keep what it promises, and the user has not accepted that. The message says why."""


def check_doubts(doubts: Sequence[str], places: Confinement) -> None:
    """Raise DoubtError if there are doubts that the user has not accepted."""
    if places.accepted is not None and (new := [each for each in doubts if each not in places.accepted]):
        raise DoubtError("; ".join(new))


class Sandbox(Protocol):
    """A way to run commands with less than the user's rights."""

    @property
    def name(self) -> str:
        """The mechanism, such as `bubblewrap`."""
        ...

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        """Return the arguments that run `argv` with an access level. With `full`, return `argv` itself.

        The result must work from any parent process, also an editor's terminal: it inherits no descriptor. Raises
        DoubtError if there are doubts that `places` does not accept.
        """
        ...

    def doubts(self, access: Access, places: Confinement) -> tuple[str, ...]:
        """Return why commands with an access level may do more than it says, for the user. Most often there is none.

        What the last command found is used again, so that this is quick; `wrap` decides.
        """
        ...


FindSandbox = Callable[[], Sandbox | None]
"""Returns the sandbox, which may be tried only now."""


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
