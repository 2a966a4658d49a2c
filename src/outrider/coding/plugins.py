"""Plugins: folders with a plugin.json (Agent Plugins 1.0.0), skills, MCP servers and more; the consent to them."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from outrider.coding.consent.command_line import server_fields, server_line
from outrider.coding.consent.item import ConsentItem, Consents, StartCheck
from outrider.coding.hooks.hook_files import HookCommand, read_hooks
from outrider.coding.places import Place
from outrider.coding.settings_files import MAX_BYTES, read_regular_file
from outrider.environment import config_file, data_folder
from outrider.errors import ConfigError
from outrider.filesystem import make_private
from outrider.mcp.servers import HttpServer, McpServer, StdioServer
from outrider.struct_types import described
from outrider.text import clean


class Plugin(msgspec.Struct, frozen=True):
    """One plugin."""

    manifest: Manifest
    place: Place
    """Its folder. Its skills, commands and sub-agents are texts, and need no consent."""
    servers: tuple[McpServer, ...] = ()
    hooks: tuple[HookCommand, ...] = ()
    remarks: tuple[str, ...] = ()
    """What of it is ignored or left out."""
    consent: ConsentItem | None = None
    """What the user agrees to before its servers and hooks are used; None for a plugin beside the user's settings."""
    is_waiting: bool = False
    """Whether the user has not agreed. Its servers and hooks are not used then."""
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
        return [server for each in self.plugins if not each.is_waiting for server in each.servers]

    @property
    def hooks(self) -> list[HookCommand]:
        """The hooks that may be used."""
        return [hook for each in self.plugins if not each.is_waiting for hook in each.hooks]

    @property
    def places(self) -> list[Place]:
        return [each.place for each in self.plugins]

    @property
    def prefixes(self) -> dict[Path, str]:
        """The name of each plugin, by its folder: it comes before the names of its skills and commands."""
        return {each.place.path: each.manifest.name for each in self.plugins}

    @property
    def waiting(self) -> list[ConsentItem]:
        return [each.consent for each in self.plugins if each.is_waiting and each.consent]


def find_plugins(places: Iterable[Place], folder: Path) -> FoundPlugins:
    """Return the plugins in the folder `plugins` of each place, for a session in a folder. Later places win.

    A project's plugin does not replace one of the user, whose hooks may be there to stop something.
    """
    by_name: dict[str, Plugin] = {}
    refused: list[str] = []
    for place in places:
        plugins = place.below("plugins")
        for name in plugins.names():
            root = plugins.path / name
            if not (root / "plugin.json").exists():
                continue
            try:
                plugin = _read(plugins, root, folder)
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


def _read(plugins: Place, root: Path, folder: Path) -> Plugin:
    if problem := plugins.problem(root):
        raise ValueError(problem)
    real = Path(os.path.realpath(root))
    manifest, remarks = read_manifest(read_json(_content(real, "plugin.json")))
    place = Place(real, f"{plugins.label}/{root.name}", real, plugins.owners)
    servers = _servers(real, manifest, remarks)
    hooks = _hooks(real, place.label, remarks)
    plugin = Plugin(manifest, place, tuple(servers), tuple(hooks), tuple(remarks), is_project=plugins.is_project)
    is_own = plugins.path == config_file().parent / "plugins"  # only the user puts something there
    return plugin if is_own or not (servers or hooks) else _consented(plugin, folder)


def _consented(plugin: Plugin, folder: Path) -> Plugin:
    """Return the plugin with its consent. Its programs check that consent before each start. Raises ValueError."""
    _check_links(plugin.place.path)
    item, consents = plugin_item(plugin, folder), Consents(data_folder())
    check = StartCheck(item, consents)
    servers = (
        msgspec.structs.replace(each, before_start=check) if isinstance(each, StdioServer) else each
        for each in plugin.servers
    )
    hooks = (msgspec.structs.replace(each, before_run=check) for each in plugin.hooks)
    return msgspec.structs.replace(
        plugin, servers=tuple(servers), hooks=tuple(hooks), consent=item, is_waiting=not consents.is_given(item)
    )


def plugin_item(plugin: Plugin, folder: Path) -> ConsentItem:
    """Return what the user agrees to: every file of the plugin, and what its command lines name elsewhere."""
    root = plugin.place.path
    shown: list[tuple[str, str]] = []
    for server in plugin.servers:
        shown += [(f"server {server.name}: {name}", value) for name, value in server_fields(server)]
    shown += [(f"hook {each.event} {each.matcher}".strip(), each.command) for each in plugin.hooks]
    servers = [server_line(each, folder) for each in plugin.servers if isinstance(each, StdioServer)]
    return ConsentItem(
        kind="plugin",
        name=plugin.manifest.name,
        file=root / "plugin.json",
        declaration=shown,
        fields=(
            *shown,
            ("runs", "servers with your rights, outside of the sandbox; hooks in it, unless hooks.access is full"),
        ),
        lines=(*servers, *(each.line(folder, folder) for each in plugin.hooks)),
        folders=(str(root),),
    )


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


def _check_links(root: Path) -> None:
    """Raise ValueError if a link leads out of the plugin."""
    for folder, folders, names in os.walk(root):
        for name in (*names, *folders):
            path = os.path.join(folder, name)
            if os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(root):
                raise ValueError(f"{clean(os.path.relpath(path, root))} is a link that leads out of the plugin")


SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
_NAME = r"^(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\Z"


class Author(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who made a plugin."""

    name: str = ""
    email: str = ""
    url: str = ""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a manifest."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=_NAME)]
    schema: str = msgspec.field(name="$schema")
    version: str = ""
    description: str = ""
    author: Author = Author()
    homepage: str = ""
    repository: str = ""
    license: str = ""
    keywords: list[str] = []
    extensions: dict[str, dict[str, Any]] = {}


_FIELDS = tuple(msgspec.structs.fields(Manifest))


def read_json(content: bytes) -> Any:
    """Return the value in a JSON file. Raises ValueError."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def read_manifest(data: Any) -> tuple[Manifest, list[str]]:
    """Return the manifest, and remarks about fields that are ignored. Raises ValueError if it is not valid.

    The specification wants unknown fields, and `extensions` that are not a table, to be ignored; all else is fatal.
    """
    if not isinstance(data, dict):
        raise ValueError("it must be a JSON object")
    remarks: list[str] = []
    known = {field.encode_name for field in _FIELDS}
    for name in sorted(data.keys() - known):
        remarks.append(f"the field {name[:60]!r} is not in the specification; it is ignored")
    if "extensions" in data and not isinstance(data["extensions"], dict):
        remarks.append("extensions is not a table; it is ignored")
        data = {name: value for name, value in data.items() if name != "extensions"}
    try:
        manifest = msgspec.convert({name: value for name, value in data.items() if name in known}, described(Manifest))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if manifest.schema != SCHEMA:
        raise ValueError(f"its $schema is not supported; write {SCHEMA}")
    return manifest, remarks


SERVERS_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
_CWD = r"^(?:\./|\$\{PLUGIN_ROOT\}(?:/|\Z)|\$\{PLUGIN_DATA\}(?:/|\Z))"
_RESERVED = ("PLUGIN_ROOT", "PLUGIN_DATA")


class StdioEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="stdio"):
    """A server that is a program."""

    command: Annotated[str, msgspec.Meta(min_length=1)]
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: Annotated[str, msgspec.Meta(pattern=_CWD)] = "${PLUGIN_ROOT}"


class HttpEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="streamable-http"):
    """A server at an address."""

    url: Annotated[str, msgspec.Meta(min_length=1)]
    headers: dict[str, str] = {}


class SseEntry(HttpEntry, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="sse"):
    """A server at an address, with the former transport. The client finds out which of the two a server has."""


def read_entry(fields: Any) -> StdioEntry | HttpEntry | SseEntry:
    """Return the entry of one server. Raises ValueError if it does not have the form of the specification."""
    try:
        entry = msgspec.convert(fields, described(StdioEntry | HttpEntry | SseEntry))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if isinstance(entry, StdioEntry) and (reserved := [name for name in _RESERVED if name in entry.env]):
        raise ValueError(f"env must not have {reserved[0]}, which every server of a plugin gets")
    return entry


def read_servers(data: Any, root: Path, folder_for_data: Callable[[], Path]) -> tuple[list[McpServer], list[str]]:
    """Return the servers of a plugin, and a note for each that is left out. Raises ValueError for the whole file."""
    if not isinstance(data, dict) or set(data) != {"$schema", "mcpServers"} or data["$schema"] != SERVERS_SCHEMA:
        raise ValueError(f'it must have "$schema": "{SERVERS_SCHEMA}" and "mcpServers", and nothing else')
    if not isinstance(data["mcpServers"], dict):
        raise ValueError("mcpServers must be a table of servers")
    servers: list[McpServer] = []
    notes: list[str] = []
    for name, fields in data["mcpServers"].items():
        try:
            servers.append(_server(name, read_entry(fields), root, folder_for_data))
        except (ValueError, ConfigError) as error:
            notes.append(f"the server {name[:60]!r} is left out: {error}")
    return servers, notes


def _server(
    name: str, entry: StdioEntry | HttpEntry | SseEntry, root: Path, folder_for_data: Callable[[], Path]
) -> McpServer:
    if isinstance(entry, HttpEntry):
        _check_address(entry)
        return HttpServer(name, entry.url, entry.headers)
    data = folder_for_data()

    def filled(text: str) -> str:
        # In one pass: what takes the place of a variable is not looked at again.
        parts = text.split("${PLUGIN_ROOT}")
        return str(root).join(part.replace("${PLUGIN_DATA}", str(data)) for part in parts)

    places = {"PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(data)}
    cwd = _inside(entry.cwd, root, data, filled)
    args = tuple(map(filled, entry.args))
    env = {key: filled(value) for key, value in entry.env.items()}
    return StdioServer(name, _program(entry.command, root), args, env | places, str(cwd))


def _program(command: str, root: Path) -> str:
    if not command.startswith("./"):
        if "/" in command or "\\" in command:
            raise ValueError("command must be the name of a program, or a path that begins with ./")
        return command
    path = Path(os.path.realpath(root / command))
    if not path.is_relative_to(root):
        raise ValueError("command leads out of the plugin")
    return str(path)


def _inside(cwd: str, root: Path, data: Path, filled: Callable[[str], str]) -> Path:
    top = Path(os.path.realpath(data)) if cwd.startswith("${PLUGIN_DATA}") else root
    path = Path(os.path.realpath(root / filled(cwd)))
    if not path.is_relative_to(top):
        raise ValueError("cwd leads out of the plugin")
    return path


def _check_address(entry: HttpEntry) -> None:
    parts = urlsplit(entry.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url must be an address that begins with https://")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("url must have no user name, password or fragment")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError("url must begin with https:// unless it is on this machine")
    names = [name.lower() for name in entry.headers]
    if len(set(names)) < len(names):
        raise ValueError("headers has the same name twice")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
