"""Find the plugins of a folder, and what of them the user has agreed to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from outrider.coding.config.consent import Consents
from outrider.coding.config.files import MAX_BYTES, read_regular_file
from outrider.coding.hooks.hook_command import HookCommand, read_hooks
from outrider.coding.places import Place
from outrider.coding.plugins.manifest import Manifest, read_json, read_manifest
from outrider.coding.plugins.servers import read_servers
from outrider.environment import config_file, data_folder
from outrider.filesystem import make_private
from outrider.mcp.servers import HttpServer, McpServer
from outrider.text import clean

MOST_FILES, MOST_BYTES = 2_000, 64 * 1024 * 1024
"""Files of a plugin that a consent covers, and their size together."""


class PluginConsent(msgspec.Struct, frozen=True):
    """The programs of a plugin, which need the user's consent."""

    file: Path
    content: bytes
    """What the consent covers: every file of the plugin as it is now."""

    def give(self) -> None:
        """Store the user's consent. Raises ConfigError if writing fails."""
        Consents(data_folder()).give(self.file, self.content)


class Plugin(msgspec.Struct, frozen=True):
    """One plugin."""

    manifest: Manifest
    place: Place
    """Its folder. Its skills, commands and sub-agents are texts, and need no consent."""
    servers: tuple[McpServer, ...] = ()
    hooks: tuple[HookCommand, ...] = ()
    remarks: tuple[str, ...] = ()
    """What of it is ignored or left out."""
    waiting: PluginConsent | None = None
    """Set while the user has not agreed to its servers and hooks. They are not used then."""
    is_project: bool = False
    """Whether it is the project's, and not the user's own."""

    @property
    def programs(self) -> list[str]:
        """What the plugin starts or reaches, for the person who is asked."""
        servers = [
            f"server {each.name}: {each.url if isinstance(each, HttpServer) else ' '.join((each.command, *each.args))}"
            for each in self.servers
        ]
        return [*servers, *(f"hook {each.event}: {each.command}" for each in self.hooks)]


class FoundPlugins(msgspec.Struct, frozen=True):
    """The plugins of a folder, and what was refused."""

    plugins: tuple[Plugin, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def servers(self) -> list[McpServer]:
        """The servers that may be used."""
        return [server for each in self.plugins if not each.waiting for server in each.servers]

    @property
    def hooks(self) -> list[HookCommand]:
        """The hooks that may be used."""
        return [hook for each in self.plugins if not each.waiting for hook in each.hooks]

    @property
    def places(self) -> list[Place]:
        """The folders of the plugins."""
        return [each.place for each in self.plugins]

    @property
    def prefixes(self) -> dict[Path, str]:
        """The name of each plugin, by its folder: it comes before the names of its skills and commands."""
        return {each.place.path: each.manifest.name for each in self.plugins}

    @property
    def waiting_note(self) -> str:
        """A sentence for the user if plugins wait for consent, or "". It contains nothing from the files."""
        count = sum(each.waiting is not None for each in self.plugins)
        if not count:
            return ""
        return f"Servers and hooks of {count} plugin{'s' if count > 1 else ''} wait for your consent: outrider plugins"


def find_plugins(places: Iterable[Place]) -> FoundPlugins:
    """Return the plugins in the folder `plugins` of each place. Later places win.

    A project's plugin does not replace one of the user, whose hooks may be there to stop something.
    """
    by_name: dict[str, Plugin] = {}
    refused: list[str] = []
    for place in places:
        folder = place.below("plugins")
        for name in folder.names():
            root = folder.path / name
            if not (root / "plugin.json").exists():
                continue
            try:
                plugin = _read(folder, root)
            except (OSError, ValueError) as error:
                refused.append(f"{clean(str(root))}: {error}; the plugin is not used")
                continue
            earlier = by_name.get(plugin.manifest.name)
            if earlier and place.is_project and not earlier.is_project:
                refused.append(f"{clean(str(root))}: you have a plugin of this name, which is used instead")
                continue
            by_name.pop(plugin.manifest.name, None)
            by_name[plugin.manifest.name] = plugin
    return FoundPlugins(tuple(by_name.values()), tuple(refused))


def _read(folder: Place, root: Path) -> Plugin:
    if problem := folder.problem(root):
        raise ValueError(problem)
    real = Path(os.path.realpath(root))
    manifest, remarks = read_manifest(read_json(_content(real, "plugin.json")))
    place = Place(real, f"{folder.label}/{root.name}", real, folder.owners)
    servers = _servers(real, manifest, remarks)
    hooks = _hooks(real, place.label, remarks)
    waiting = _consent(real) if (servers or hooks) and not _is_own(folder) else None
    return Plugin(manifest, place, tuple(servers), tuple(hooks), tuple(remarks), waiting, folder.is_project)


def _is_own(folder: Place) -> bool:
    """Return whether the plugin is beside the user's settings, where only the user puts something."""
    return folder.path == config_file().parent / "plugins"


def _content(root: Path, name: str) -> bytes:
    path = Path(os.path.realpath(root / name))
    if not path.is_relative_to(root):
        raise ValueError(f"{name} is a link that leads out of the plugin")
    return read_regular_file(path, MAX_BYTES)


def _servers(root: Path, manifest: Manifest, remarks: list[str]) -> list[McpServer]:
    if not os.path.lexists(root / "mcp.json"):
        return []
    try:
        servers, notes = read_servers(read_json(_content(root, "mcp.json")), root, lambda: _data(root, manifest))
    except (OSError, ValueError) as error:
        remarks.append(f"mcp.json: {error}; its servers are not used")
        return []
    remarks += [f"mcp.json: {note}" for note in notes]
    return servers


def _hooks(root: Path, label: str, remarks: list[str]) -> list[HookCommand]:
    name = "hooks/hooks.json"
    if not os.path.lexists(root / name):
        return []
    try:
        hooks, notes = read_hooks(read_json(_content(root, name)), f"{clean(label)}/{name}", root)
    except (OSError, ValueError) as error:
        remarks.append(f"{name}: {error}; its hooks are not used")
        return []
    remarks += notes
    return hooks


def _data(root: Path, manifest: Manifest) -> Path:
    """Return the folder where the plugin keeps what lasts, and create it."""
    digest = sha256(os.fsencode(root)).hexdigest()[:16]
    folder = data_folder() / "plugins" / f"{manifest.name}-{digest}"
    make_private(folder)
    return folder


def _consent(root: Path) -> PluginConsent | None:
    """Return the consent that is missing; None if the user has given it. Raises ValueError if it cannot be given."""
    digest = sha256()
    for name, content in _files(root):
        digest.update(repr((name, content)).encode(errors="backslashreplace"))
    consent = PluginConsent(root / "plugin.json", digest.digest())
    return None if Consents(data_folder()).is_given(consent.file, consent.content) else consent


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each file of a plugin with a digest of its content. Raises ValueError if a consent cannot cover all."""
    files = total = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted([*names, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]):
            path = os.path.join(folder, name)
            if not Path(os.path.realpath(path)).is_relative_to(root):
                raise ValueError(f"{clean(os.path.relpath(path, root))} is a link that leads out of the plugin")
            status = os.lstat(path)
            files, total = files + 1, total + status.st_size
            if files > MOST_FILES or total > MOST_BYTES:
                raise ValueError("it has too many files for you to agree to")
            shown = os.path.relpath(path, root)
            if stat.S_ISREG(status.st_mode):
                yield shown, sha256(read_regular_file(Path(path), MOST_BYTES)).hexdigest()
            else:
                yield shown, os.readlink(path) if stat.S_ISLNK(status.st_mode) else "not a file"
