"""Which program a name means: one that neither a model nor a project can have written.

PATH often has entries inside the project, such as `.venv/bin` or `node_modules/.bin`. A program that Outrider starts
itself, or runs without a question, is never looked for there.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

SYSTEM_PATH = os.pathsep.join(("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"))
"""Where the system keeps its programs; the last is the folder of NixOS."""
ENVIRONMENTS = {each: os.path.realpath(each) for each in (sys.prefix, sys.base_prefix)}
"""The Python environments that run Outrider, by name, and where they are. They are resolved once, at the start: a
project may hold a link to one, as `.venv`, and the link may be changed later."""
_MOST_LINKS = 40


class ProgramNotFoundError(FileNotFoundError):
    """There is no such program, or only one inside a working folder."""

    def __init__(self, name: str, inside: str = "") -> None:
        advice = f"{inside} is inside the working folder and is not used by its name: write its path instead"
        super().__init__(advice if inside else f"there is no program {name}: install it, or add its folder to PATH")
        self.name = name
        self.inside = inside
        """The program in a working folder that was not used, or ""."""


class Programs:
    """The programs of a PATH, without those inside working folders.

    A path counts as inside if a lookup of it passes through something in a working folder, links included: that could
    be changed. The Python environment that runs Outrider is the exception, because no command may change it.
    """

    def __init__(self, folders: Iterable[str | Path], path: str | None = None) -> None:
        """`folders` are the working folders; the repositories around them count, too. `path` is PATH by default."""
        real = [os.path.realpath(each) for each in folders]
        self.folders = tuple(dict.fromkeys((*real, *filter(None, map(_repository, real)))))
        """The working folders and the repositories around them, resolved."""
        prefixes = dict.fromkeys(ENVIRONMENTS.values())
        self._own = tuple(each for each in prefixes if not any(_is_within(one, each) for one in self.folders))
        entries = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
        self._entries = tuple(dict.fromkeys(entry for entry in entries if os.path.isabs(entry)))

    @property
    def path(self) -> str:
        """The PATH without entries that are relative or inside a working folder."""
        return os.pathsep.join(entry for entry in self._entries if not self.is_inside(os.path.join(entry, "program")))

    def find(self, name: str) -> str | None:
        """Return the absolute path of a program, or None. A path instead of a name is taken as it is, if absolute."""
        if _is_path(name):
            return shutil.which(name) if os.path.isabs(name) else None
        return next((found for found in self._named(name, self._entries) if not self.is_inside(found)), None)

    def require(self, name: str) -> str:
        """Return the absolute path of a program. Raises ProgramNotFoundError."""
        if found := self.find(name):
            return found
        raise ProgramNotFoundError(name, "" if _is_path(name) else next(self._named(name, self._entries), ""))

    def is_shadowed(self, name: str, path: str | None = None) -> bool:
        """Return whether a shell with this PATH, or with ours, would run another program of this name."""
        entries = self._entries if path is None else path.split(os.pathsep)
        return next(self._named(name, entries), None) != self.find(name)

    def is_inside(self, path: str) -> bool:
        """Return whether a lookup of an absolute path passes through something that working folders hold."""
        identities = set(filter(None, map(_identity, self.folders)))
        known: dict[str, bool] = {}

        def holds(folder: str) -> bool:
            if folder not in known:
                known[folder] = folder in self.folders or _identity(folder) in identities
            return known[folder]

        try:
            places = list(_places(path))
        except OSError:
            return True  # links without end
        return any(any(map(holds, _above(place))) for place in places if not self._is_own(place))

    def _is_own(self, place: str) -> bool:
        """Return whether a place belongs to the Python environment that runs Outrider, or leads to it."""
        return any(_is_within(place, each) or _is_within(each, place) for each in self._own)

    @staticmethod
    def _named(name: str, entries: Iterable[str]) -> Iterator[str]:
        paths = (os.path.join(entry, name) for entry in entries if os.path.isabs(entry))
        return (found for path in paths if name and (found := shutil.which(path)))


def own_path(path: str) -> str:
    """Return where a file of the environment that runs Outrider is, without the links that lead to the environment."""
    named = (each for each in ENVIRONMENTS if _is_within(path, each))
    return next((ENVIRONMENTS[each] + path[len(each) :] for each in named), path)


def _is_path(name: str) -> bool:
    return os.path.basename(name) != name


def _places(path: str) -> Iterator[str]:
    """Yield everything that a lookup of an absolute path reads: folders, links, and what the links lead to.

    Raises OSError if there are too many links.
    """
    at, waiting = _split(path)
    links = 0
    while waiting:
        name = waiting.pop()
        if name == os.pardir:
            at = os.path.dirname(at)
        if name in ("", os.curdir, os.pardir):
            continue
        place = os.path.join(at, name)
        yield place
        try:
            target = os.readlink(place)
        except OSError:  # not a link
            at = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"too many links: {path}")
        top, names = _split(target)
        at = top or at
        waiting += names


def _split(path: str) -> tuple[str, list[str]]:
    """Return the root of a path, "" for a relative one, and its names, the last one first."""
    drive, rest = os.path.splitdrive(path.replace(os.altsep or os.sep, os.sep))
    return (drive + os.sep if rest.startswith(os.sep) else ""), rest.split(os.sep)[::-1]


def _above(place: str) -> Iterator[str]:
    while (parent := os.path.dirname(place)) != place:
        yield parent
        place = parent


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _identity(path: str) -> tuple[int, int] | None:
    """Return what a folder has in common under all its names: in another case, or mounted twice."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _repository(folder: str) -> str:
    """Return the root of the repository around a folder, unless that holds the user's home; "" if there is none."""
    home = os.path.realpath(os.path.expanduser("~"))
    for each in (folder, *_above(folder)):
        if os.path.lexists(os.path.join(each, ".git")):
            return "" if _is_within(home, each) else each
    return ""
