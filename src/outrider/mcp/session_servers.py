"""The MCP servers of a session: their tools join its own, and their notices become events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from outrider.mcp.deferred import DeferredTools
from outrider.mcp.pool import distinct
from outrider.mcp.running import RunningServers, ServerTools
from outrider.mcp.servers import HttpServer, McpServer, StdioServer, tool_prefix
from outrider.prompts import prompt
from outrider.providers.catalogue.windows import estimated_tokens
from outrider.text.visible import one_line
from outrider.tools.tool import Tool

Mcp: TypeAlias = Sequence[McpServer] | RunningServers | ServerTools
"""What `Agent(mcp=…)` takes: servers that the session starts and ends, or servers that run for several sessions."""
USUAL_WINDOW = 128_000  # the context window that is assumed for a model whose window is unknown
LONGEST_GUIDANCE = 2_000  # characters of the instructions of one server, and below of all servers
MOST_GUIDANCE = 10_000
_CUT = "… [cut]"


class Guidance:
    """The instructions of the servers that have joined a session.

    A text that was sent stays as it was, also if its server ends, restarts or says something else: a change costs the
    prompt cache, and a server cannot slip in other words later.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.text = ""
        """The part of the system prompt. Empty if no server says anything."""

    def join(self, name: str, text: str) -> None:
        """Add a server that has not joined yet."""
        if name in self._texts:
            return
        left = MOST_GUIDANCE - sum(map(len, self._texts.values()))
        self._texts[name] = _bounded(text.strip(), min(LONGEST_GUIDANCE, left))
        parts = [_marked(name, text) for name, text in self._texts.items() if text]
        self.text = "\n\n".join([prompt("mcp_instructions"), *parts]) if parts else ""


class SessionServers:
    """Gives the tools of servers to a session. Servers that were described to it end with it."""

    def __init__(self, mcp: Mcp) -> None:
        self._names: Sequence[str] | None = None
        self._is_owner = False
        match mcp:
            case RunningServers():
                self.running = mcp
            case ServerTools():
                self.running, self._names = mcp.servers, mcp.names
            case _:
                self.running, self._is_owner = RunningServers(mcp), True
        self._deferred: DeferredTools | None = None
        """Set once the tools have taken too much of the window. The pair stays: changes cost the prompt cache."""
        self.groups: Mapping[str, str] = {}  # the tools that the API searches, with the group of each: its server
        self._guidance = Guidance()
        self.grace = self.running.grace  # seconds that the first request waits for servers that are still starting
        self._has_waited = False
        self._late: tuple[str, ...] = ()
        self.running.start()

    async def ready_tools(self, window: int | None, *, searched_by_api: bool = False) -> tuple[Tool, ...]:
        """Return the tools to offer. The first request waits a moment for servers that are still starting.

        Tools that would take more than their share of the context window are deferred: the API searches them, or the
        model finds them with `search_tools`.
        """
        if not self._has_waited:
            self._has_waited = True
            if self.running.starting and not await self.running.settled(self.grace):
                self._late = self.running.starting
        tools = self._current()
        for name, said in self.running.instructions().items():
            if any(tool.name.startswith(tool_prefix(name)) for tool in tools):
                self._guidance.join(name, said)
        if self._deferred is None and tokens_of(tools) > self.running.tools_share * (window or USUAL_WINDOW):
            self._deferred = DeferredTools(self._current)
        self.groups = self._grouped(tools) if self._deferred and searched_by_api else {}
        if self._deferred is None or self.groups:
            return tools
        search, call = self._deferred.tools
        return search, msgspec.structs.replace(call, stands_for=self._deferred.resolve)  # judged by the real tool

    @property
    def deferred_tools(self) -> tuple[Tool, ...]:
        """The tools that `search_tools` finds; a model that has found one may call it by its name."""
        return self._current() if self._deferred else ()

    @property
    def guidance(self) -> str:
        return self._guidance.text

    def _grouped(self, tools: Iterable[Tool]) -> dict[str, str]:
        prefixes = [tool_prefix(server.name) for server in self.running.servers]
        found = {tool.name: next(filter(tool.name.startswith, prefixes), "") for tool in tools}
        return {name: prefix.rstrip("_") for name, prefix in found.items() if prefix}

    def _current(self) -> tuple[Tool, ...]:
        return self.running.tools(self._names)

    def take_notices(self) -> list[str]:
        """Return what the person should know: servers that are late, failed or were started again."""
        late, self._late = self._late, ()
        notices = [f"The MCP server {name} is still starting. Its tools join when it is ready." for name in late]
        return notices + self.running.take_notices()

    def stop(self) -> None:
        if self._is_owner:
            self.running.stop()

    def close(self) -> None:
        if self._is_owner:
            self.running.close()


def checked_servers(mcp: Any) -> Mcp:
    """Return the servers. Raises TypeError for anything else, and ConfigError if two have the same name."""
    if isinstance(mcp, RunningServers | ServerTools):
        return mcp
    advice = "mcp must be a list of StdioServer and HttpServer, or RunningServers"
    if not isinstance(mcp, Iterable) or isinstance(mcp, str):
        raise TypeError(f"{advice}, not {type(mcp).__name__}")
    servers = tuple(mcp)
    for server in servers:
        if not isinstance(server, StdioServer | HttpServer):
            raise TypeError(f"{advice}; it has {type(server).__name__}")
    distinct(servers)
    return servers


def tokens_of(tools: Iterable[Tool]) -> int:
    """Return about how many tokens the descriptions of tools take in each request."""
    encode = msgspec.json.encode
    return sum(estimated_tokens(encode((tool.name, tool.description, tool.parameters))) for tool in tools)


def _bounded(text: str, limit: int) -> str:
    """Return the text, or its beginning.

    >>> _bounded("short", 10), _bounded("x" * 20, 10), _bounded("text", 3)
    ('short', 'xxx… [cut]', '')
    """
    if len(text) <= limit:
        return text
    return text[: limit - len(_CUT)] + _CUT if limit > len(_CUT) else ""


def _marked(name: str, text: str) -> str:
    """Return the text between marks that it cannot close itself."""
    label = one_line(name, 80).replace('"', "'")
    return f'<mcp_server name="{label}">\n{text.replace("<", "‹")}\n</mcp_server>'
