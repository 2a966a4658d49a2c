"""The tools of a session: those of its agent, those that its MCP servers have ready, and Recall."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.providers.base import Provider, ToolSpec
from outrider.providers.catalogue.windows import window_of
from outrider.tools.server_tool import ServerTool
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.mcp.session_servers import Mcp, SessionServers
    from outrider.runtime.agent_spec import AgentSpec


RECALL = "Recall"
"""The tool that reads what is no longer sent."""
NO_GROUPS: Mapping[str, str] = {}


class Toolset:
    """The tools that a session offers in its next request, and those that the model may call beside them."""

    def __init__(self, recall: Callable[[], Tool]) -> None:
        self.offered: dict[str, Tool] = {}
        """The tools of the next request, by name."""
        self.specs: tuple[ToolSpec, ...] = ()
        """The same, as the model sees them."""
        self.known: dict[str, Tool] = {}
        """The same, and those that are not offered for now."""
        self.now = Offer()
        """What is offered of them."""
        self.servers: SessionServers | None = None
        self._recall = recall
        self._own: Sequence[Tool] = ()
        self._joined: tuple[Tool, ...] = ()
        self._groups: Mapping[str, str] = {}
        """Tools that are in requests for the API to search, with the group of each."""
        self._found: dict[str, Tool] = {}
        """Tools of servers that are not in requests: the model searches for them."""
        self._mcp: Mcp = ()
        self._prompt = "", "", ""

    @property
    def callable(self) -> dict[str, Tool]:
        """The tools by name, with those that are not in requests."""
        return self._found | self.known | self.offered

    @property
    def specs_to_come(self) -> tuple[ToolSpec, ...]:
        """What a compaction adds to the tools: Recall, unless it is offered already."""
        return () if RECALL in self.offered else specs_of([self._recall()])

    def system_prompt(self, agent: AgentSpec) -> str:
        """Return the system prompt of the next request: the agent's, and what servers say about their tools."""
        said = self.servers.guidance if self.servers else ""
        if not said:
            return agent.system_prompt
        if self._prompt[:2] != (agent.system_prompt, said):
            self._prompt = agent.system_prompt, said, "\n\n".join(filter(None, (agent.system_prompt, said)))
        return self._prompt[2]

    def use(self, agent: AgentSpec) -> None:
        """Take the tools and servers of an agent. The servers start in the background, instead of earlier ones."""
        self._own = agent.tools
        if agent.handoffs:
            from outrider.runtime.handoffs import handoff_tool  # few agents hand over

            self._own = *agent.tools, handoff_tool(agent)
        if agent.mcp is not self._mcp:
            self._connect(agent.mcp)

    @property
    def reads_stored(self) -> bool:
        """Whether a tool of the agent reads results that were cut."""
        return any(tool.reads_stored for tool in self._own)

    def offer(self, *, is_abridged: bool) -> None:
        """Set the tools of the next request. A tool that joined never replaces one of the agent.

        Recall joins once a part of the conversation is not sent.
        """
        tools = {tool.name: tool for tool in self._own}
        for tool in (*self._joined, *self.now.tools):
            tools.setdefault(tool.name, tool)
        if is_abridged and RECALL not in tools:
            tools[RECALL] = self._recall()
        self.known = tools
        self.offered = {tool.name: tool for tool in filter(None, map(self.now.form, tools.values()))}
        self.specs = specs_of(self.offered.values(), self._groups)

    async def join_servers(self, provider: Provider) -> bool:
        """Take the tools of all servers that are ready, together: each change costs the prompt cache.

        Return whether they differ from those before.
        """
        assert self.servers
        from outrider.providers.rendering.server_tools import searches_tools  # imports the capabilities of all APIs

        before = self._joined, self._groups
        self._joined = await self.servers.ready_tools(window_of(provider), searched_by_api=searches_tools(provider))
        self._groups = self.servers.groups
        self._found = {tool.name: tool for tool in self.servers.deferred_tools}
        return (self._joined, self._groups) != before

    def _connect(self, mcp: Mcp) -> None:
        from outrider.mcp.session_servers import SessionServers  # imports MCP, which most sessions do not need

        if self.servers:
            self.servers.stop()
        self._joined, self._found, self._groups = (), {}, {}
        self._mcp, self.servers = mcp, SessionServers(mcp) if mcp else None
        if self.servers:
            weakref.finalize(self, self.servers.stop)


def specs_of(tools: Iterable[Tool], groups: Mapping[str, str] = NO_GROUPS) -> tuple[ToolSpec, ...]:
    """Return the tools as a model sees them. `groups` has those that the API searches."""
    return tuple(
        ToolSpec(tool.name, tool.description, tool.parameters, bool(tool.final_turn), groups.get(tool.name, ""))
        for tool in tools
    )


class Offer(msgspec.Struct, frozen=True):
    """The tools that requests offer for now, and what they remind the model of.

    A tool that is not offered can still be called: the approver decides about it.
    """

    tools: tuple[Tool[..., Any], ...] = ()
    """Tools of the session beside those of its agent and its servers."""
    form: Callable[[Tool[..., Any]], Tool[..., Any] | None] = lambda tool: tool
    """Returns the form in which a tool is offered, or None if it is not."""
    server_tools: tuple[ServerTool, ...] = ()
    """Tools that the model's API runs, beside those of the agent."""
    reminder: str = ""
    """What follows the last message of each request."""
