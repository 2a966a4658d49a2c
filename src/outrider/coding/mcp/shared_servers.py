"""MCP servers that sessions of one process use, and may share, as the tasks of a batch do; their stored logins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outrider.environment import data_folder
from outrider.mcp.servers import McpServer, StdioServer

if TYPE_CHECKING:
    from outrider.mcp.channel import Authorization
    from outrider.mcp.oauth import OpenUrl
    from outrider.mcp.running import RunningServers
    from outrider.mcp.servers import HttpServer
    from outrider.mcp.tokens import TokenStore


MOST_IDLE = 4
"""Folders whose servers run on while no session uses them: the next task may work there."""


class _Use:
    """The servers of one folder, and how many sessions use them."""

    def __init__(self, folder: Path, described: list[McpServer], running: RunningServers) -> None:
        self.folder, self.described, self.running = folder, described, running
        self.sessions = 0


class SharedServers:
    """Servers by the folder in which they were found. Every method is safe from any thread."""

    def __init__(self, most_idle: int = MOST_IDLE) -> None:
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._uses: list[_Use] = []
        """The one that was used last is at the end."""

    def take(self, folder: Path, servers: Sequence[McpServer], start: Callable[[], RunningServers]) -> RunningServers:
        """Return servers with these descriptions in this folder, which `start` starts if there are none."""
        described = [_description(server) for server in servers]
        with self._lock:
            found = next((use for use in self._uses if (use.folder, use.described) == (folder, described)), None)
            use = found or _Use(folder, described, start())
            if found is None:
                self._uses.append(use)
            use.sessions += 1
            return use.running

    def give_back(self, servers: RunningServers) -> None:
        """Say that a session is over. Servers that wait for the next one are ended if there are too many."""
        with self._lock:
            for use in [use for use in self._uses if use.running is servers]:
                use.sessions -= 1
                self._uses.remove(use)
                self._uses.append(use)
            idle = [use for use in self._uses if not use.sessions]
            gone = [use for use in idle if not use.folder.is_dir()]
            ended = {*gone, *idle[: max(0, len(idle) - self._most_idle)]}
            self._uses = [use for use in self._uses if use not in ended]
        for use in ended:
            use.running.close()

    def close(self) -> None:
        with self._lock:
            uses, self._uses = self._uses, []
        for use in uses:
            use.running.stop()
        for use in uses:
            use.running.close()


def _description(server: McpServer) -> McpServer:
    """Return what the server is. The check before its start is made anew for each session, and always the same."""
    return msgspec.structs.replace(server, before_start=None) if isinstance(server, StdioServer) else server


def authorize(server: HttpServer, open_url: OpenUrl | None = None) -> Authorization | None:
    """Return the authorization for a server; None if its headers have one. Without `open_url` no one is asked."""
    if any(name.lower() == "authorization" for name in server.headers):
        return None
    from outrider.mcp.oauth import OAuth

    return OAuth(server, token_store(), open_url=open_url)


def token_store() -> TokenStore:
    from outrider.mcp.tokens import TokenStore

    return TokenStore(data_folder())
