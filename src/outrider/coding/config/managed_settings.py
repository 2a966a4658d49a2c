"""The settings that only a managed file has: what the user and projects can choose at all."""

# No `from __future__ import annotations`: evaluating the annotations from strings takes twice as long.
import shlex
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec

from outrider.coding.config.declaration import Setting
from outrider.coding.config.value_types import TextList
from outrider.coding.permissions.question import Mode
from outrider.errors import ConfigError

if TYPE_CHECKING:
    from outrider.mcp.servers import McpServer
    from outrider.providers.base import Provider


def _managed(help: str, unset: str = "none") -> Setting:
    return Setting(help=help, unset=unset, consent=None, managed_only=True)


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
