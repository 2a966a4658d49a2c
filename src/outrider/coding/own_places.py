"""Outrider's own data and settings, which no tool opens and no sandbox shows: sessions, snapshots, keys, tokens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from outrider.environment import config_file, data_folder, log_place
from outrider.filesystem import is_within

_SHOWN_DATA = ("skills",)
"""Parts of the data folder that commands read: the index of skills."""
_SHOWN_SETTINGS = ("skills", "commands", "agents", "plugins", "hooks")
"""Parts of the settings folder that commands read and run: scripts of skills, hooks and plugins."""
_SERVERS = ("mcp.json", ".mcp.json")
"""Files that may hold tokens, also those of plugins."""


class OwnPlaces(msgspec.Struct, frozen=True):
    """Files and folders that are hidden with everything in them, and parts of them that are shown.

    The deepest of the places around a path decides.
    """

    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Can be read, and not changed."""

    def hides(self, path: str) -> bool:
        """Return whether an absolute path is hidden. Case does not count: some file systems ignore it."""
        folded = path.casefold()
        around = max((each for each in self.hidden if is_within(folded, each.casefold())), key=len, default="")
        return bool(around) and not any(len(each) > len(around) and is_within(path, each) for each in self.shown)

    def hiding(self, folder: Path) -> OwnPlaces:
        """Return the places with another folder of which nothing is shown."""
        real = os.path.realpath(folder)
        hidden = dict.fromkeys((*self.hidden, real))
        return OwnPlaces(tuple(hidden), tuple(each for each in self.shown if not is_within(each, real)))


def own_places(working: Iterable[Path]) -> OwnPlaces:
    """Return the places of this user. Working folders inside of the data or the settings are shown."""
    default = {name: value for name, value in os.environ.items() if name not in ("OUTRIDER_HOME", "OUTRIDER_CONFIG")}
    data = [os.path.realpath(data_folder(each)) for each in (os.environ, default)]
    settings = os.path.realpath(config_file(default).parent)
    own_file = config_file(os.environ)
    files = [os.path.realpath(own_file.parent / name) for name in (own_file.name, *_SERVERS)]
    files += [os.path.realpath(f"{settings}/{name}") for name in ("config.toml", *_SERVERS)]
    plugins = _entries(f"{settings}/plugins")
    servers = [os.path.realpath(f"{each.path}/{name}") for each in plugins for name in _SERVERS]
    hidden = dict.fromkeys([*data, settings, *files, *servers])
    shown = [f"{folder}/{name}" for folder in data for name in _SHOWN_DATA]
    shown += [f"{settings}/{name}" for name in _SHOWN_SETTINGS]
    own = (*data, settings)
    inside = [
        each for each in map(os.path.realpath, working) if any(each != one and is_within(each, one) for one in own)
    ]
    shown += [*_programs(settings), *inside]
    places, log = OwnPlaces(tuple(hidden), tuple(dict.fromkeys(shown))), log_place()
    return places if isinstance(log, str) and "://" in log else places.hiding(Path(log))


def _programs(settings: str) -> Iterator[str]:
    """Yield the programs in the settings folder itself, which hooks may name."""
    for entry in _entries(settings):
        if entry.is_file() and os.access(entry.path, os.X_OK) and not entry.name.endswith((".json", ".toml")):
            yield entry.path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return []
