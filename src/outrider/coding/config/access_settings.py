"""The settings that say what agents may do: permissions, sandbox, web and hooks; what a managed file allows at all."""

# No `from __future__ import annotations`: evaluating the annotations from strings takes twice as long.
# QQ""""""

import shlex
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from outrider.coding.access import Access
from outrider.coding.config.declaration import (
    FREE,
    Setting,
    if_adds,
    if_adds_hosts,
    if_exposes_secrets,
    if_looser,
    if_on,
)
from outrider.coding.config.value_types import Folders, Hosts, JsonFiles, PathPatterns, Rules, TextList
from outrider.coding.permissions.question import Mode
from outrider.errors import ConfigError

if TYPE_CHECKING:
    from outrider.mcp.servers import McpServer
    from outrider.providers.base import Provider


SandboxUse: TypeAlias = Literal["auto", "off", "require"]
WebSearchUse: TypeAlias = Literal["ask", "on", "off"]


class PermissionSettings(msgspec.Struct, frozen=True):
    """Which calls run, need approval, or are denied."""

    mode: Annotated[
        Mode,
        Setting(
            '`"plan"`, `"ask"`, `"edits"` or `"all"` ([modes](permissions.md))',
            variable="OUTRIDER_PERMISSIONS",
            flag="--permissions",
        ),
        if_looser("plan", "ask", "edits", "all", why="more is done without asking you"),
    ] = "ask"
    allow: Annotated[
        Rules,
        Setting("rules for calls that run without asking", flag="--allow"),
        if_adds("these calls run without asking you"),
    ] = ()
    ask: Annotated[Rules, Setting("rules for calls that ask even if another rule allows them"), FREE] = ()
    deny: Annotated[Rules, Setting("rules for calls that are denied, above all others"), FREE] = ()
    folders: Annotated[
        Folders, Setting("more working folders"), if_adds("these folders count as part of the project")
    ] = ()
    secrets: Annotated[
        PathPatterns | None,
        Setting("patterns of files hidden from the model, instead of the built-in ones", unset="built in"),
        if_exposes_secrets("the model may read files that are hidden now"),
    ] = None

    def working_folders(self, folder: Path) -> tuple[Path, ...]:
        """Return the project's folder and those that are set, resolved."""
        folder = folder.resolve()
        return (folder, *((folder / Path(each).expanduser()).resolve() for each in self.folders))


class SandboxSettings(msgspec.Struct, frozen=True):
    """How shell commands are sandboxed."""

    use: Annotated[
        SandboxUse,
        Setting(
            '`"auto"` runs commands in a sandbox where there is one; `"require"` runs none without; `"off"`',
            variable="OUTRIDER_SANDBOX",
        ),
        if_looser("require", "auto", "off", why="commands may run without a sandbox"),
    ] = "auto"
    pass_env: Annotated[
        tuple[str, ...],
        TextList("names of variables"),
        Setting("variables that commands see although they look like secrets, such as `GITHUB_TOKEN`"),
        if_adds("commands see these variables, which may hold keys"),
    ] = ()
    allow_hosts: Annotated[
        Hosts,
        Setting("the only hosts that commands with access `network` reach; empty for all"),
        if_adds_hosts("commands with access `network` reach more hosts"),
    ] = ()


class WebSettings(msgspec.Struct, frozen=True):
    """What WebFetch may fetch, and whether the model may search."""

    private_addresses: Annotated[
        bool,
        Setting("let WebFetch reach this machine and the local network", variable="OUTRIDER_PRIVATE_ADDRESSES"),
        if_on("WebFetch may reach this machine and the local network"),
    ] = False
    search: Annotated[
        WebSearchUse,
        Setting(
            'web search by the model\'s API, at its price: `"ask"` (once a session), `"on"` or `"off"`',
            variable="OUTRIDER_WEB_SEARCH",
        ),
        if_looser("off", "ask", "on", why="the model searches the web without asking you, at a price"),
    ] = "ask"


class HookSettings(msgspec.Struct, frozen=True):
    """How hooks run."""

    access: Annotated[
        Access,
        Setting(
            'the access of hooks in the sandbox: `"read"`, `"write"`, `"network"`; `"full"` is outside of it',
            variable="OUTRIDER_HOOKS_ACCESS",
            users_only=True,
        ),
        FREE,
    ] = "write"
    files: Annotated[
        JsonFiles, Setting("more JSON files with hooks"), if_adds("the programs in these files run on their own")
    ] = ()


def _managed(help: str, unset: str = "none") -> Setting:
    return Setting(help, unset=unset, managed_only=True)


class ManagedSettings(msgspec.Struct, frozen=True):
    """What the administrator of a machine allows. A user's or a project's file cannot have this section."""

    locked: Annotated[
        tuple[str, ...],
        TextList("keys of settings"),
        _managed("keys whose value in the managed file, or default, nothing else changes, not even to a stricter one"),
    ] = ()
    max_mode: Annotated[
        Mode, _managed("the loosest permission mode; `permissions.mode` in the managed file counts as well")
    ] = "all"
    models: Annotated[
        tuple[str, ...] | None,
        TextList("patterns of models"),
        _managed('the only models, as in `["anthropic/*"]`; `[]` for none', unset="all"),
    ] = None
    model_hosts: Annotated[
        tuple[str, ...] | None,
        TextList("names of hosts"),
        _managed(
            'the only hosts that requests to models go to, as in `["api.anthropic.com", "*.example.com"]`', unset="all"
        ),
    ] = None
    mcp_servers: Annotated[
        tuple[str, ...] | None,
        TextList("patterns of servers"),
        _managed(
            'the only MCP servers, by URL or command line, as in `["https://mcp.example.com/*"]`; `[]` for none',
            unset="all",
        ),
    ] = None
    own_hooks: Annotated[
        bool,
        _managed("whether hooks of the user, of projects and of plugins run, besides the `hooks.files` of this file"),
    ] = True

    def check_model(self, provider: "Provider") -> None:
        """Raise ConfigError if a model, or the host that it is asked at, is not allowed."""
        name = provider.name
        if self.models is not None and not _matches(name, self.models):
            raise ConfigError(f"the model {name} is not allowed on this machine; allowed: {_listed(self.models)}")
        url = getattr(provider, "base_url", None)
        host = urlsplit(url).hostname or "" if isinstance(url, str) else ""
        if self.model_hosts is not None and name.partition("/")[0] != "demo" and not _matches(host, self.model_hosts):
            where = f"{name} at {host}" if host else f"{name}, whose host is not known,"
            raise ConfigError(f"{where} is not allowed on this machine; allowed hosts: {_listed(self.model_hosts)}")

    def allows_server(self, server: "McpServer") -> bool:
        """Return whether an MCP server may be used. Its name does not count: anyone can choose it."""
        if self.mcp_servers is None:
            return True
        from outrider.mcp.servers import HttpServer  # few machines are managed

        command = server.url if isinstance(server, HttpServer) else shlex.join([server.command, *server.args])
        return _matches(command, self.mcp_servers)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text.lower(), pattern.lower()) for pattern in patterns)


def _listed(patterns: Iterable[str]) -> str:
    return ", ".join(patterns) or "none"
