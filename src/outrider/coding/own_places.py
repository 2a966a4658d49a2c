"""Outrider's own data and settings, which no tool opens and no sandbox shows: sessions, snapshots, keys, tokens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from outrider.environment import config_file, data_folder, log_place

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
        around = max((each for each in self.hidden if _holds(each.casefold(), folded)), key=len, default="")
        return bool(around) and not any(len(each) > len(around) and _holds(each, path) for each in self.shown)

    def hiding(self, folder: Path) -> OwnPlaces:
        """Return the places with another folder of which nothing is shown."""
        real = os.path.realpath(folder)
        hidden = dict.fromkeys((*self.hidden, real))
        return OwnPlaces(tuple(hidden), tuple(each for each in self.shown if not _holds(real, each)))


def own_places(working: Iterable[Path], environment: Mapping[str, str] | None = None) -> OwnPlaces:
    """Return the places of this user. Working folders inside of the data or the settings are shown."""
    variables = os.environ if environment is None else environment
    default = {name: value for name, value in variables.items() if name not in ("OUTRIDER_HOME", "OUTRIDER_CONFIG")}
    data = [os.path.realpath(data_folder(each)) for each in (variables, default)]
    settings = os.path.realpath(config_file(default).parent)
    files = [
        os.path.realpath(config_file(variables).parent / name) for name in (config_file(variables).name, *_SERVERS)
    ]
    files += [os.path.realpath(f"{settings}/{name}") for name in ("config.toml", *_SERVERS)]
    hidden = dict.fromkeys([*data, settings, *files, *_plugin_servers(settings)])
    shown = [f"{folder}/{name}" for folder in data for name in _SHOWN_DATA]
    shown += [f"{settings}/{name}" for name in _SHOWN_SETTINGS]
    shown += [*_programs(settings), *_inside((*data, settings), working)]
    places, log = OwnPlaces(tuple(hidden), tuple(dict.fromkeys(shown))), log_place()
    return places if isinstance(log, str) and "://" in log else places.hiding(Path(log))


def _plugin_servers(settings: str) -> Iterator[str]:
    for plugin in _entries(f"{settings}/plugins"):
        yield from (os.path.realpath(f"{plugin.path}/{name}") for name in _SERVERS)


def _programs(settings: str) -> Iterator[str]:
    """Yield the programs in the settings folder itself, which hooks may name."""
    for entry in _entries(settings):
        if entry.is_file() and os.access(entry.path, os.X_OK) and not entry.name.endswith((".json", ".toml")):
            yield entry.path


def _inside(own: Iterable[str], working: Iterable[Path]) -> Iterator[str]:
    real = [os.path.realpath(each) for each in working]
    yield from (folder for folder in real if any(folder != each and _holds(each, folder) for each in own))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return []


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
