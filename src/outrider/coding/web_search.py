"""Web search in the coding agent: the model's API runs it, once the user has agreed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outrider.coding.lean_tools import is_lean
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.toolbox import WEB_SEARCH
from outrider.prompts import prompt
from outrider.providers.base import Provider
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.runtime.toolset import Offer
from outrider.tools.server_tool import ServerTool, web_search
from outrider.tools.tool import make_tool

if TYPE_CHECKING:
    from outrider.coding.config.settings import Settings
    from outrider.runtime.agent_spec import AgentSpec

NOTHING = Offer()
IS_ON = "The user allows web search, from now on in this session. Your API has the tool now: search again."


class WebSearch:
    """Whether the agents of one session search the web.

    The API runs a search in the middle of a reply, so the user cannot be asked about each one. Instead, a tool of the
    same name takes the first call, which asks. The permissions keep the answer, and the next request has the real one.
    """

    def __init__(self, settings: Settings, permissions: PermissionApprover, *, is_offered: bool) -> None:
        """`is_offered`: whether agents may have it as a tool at all."""
        self._wanted = settings.web.search
        self._lean = settings.lean
        self._permissions = permissions
        self._is_offered = is_offered
        self._asking = make_tool(
            _search, name=WEB_SEARCH, built_in=True, description=prompt("web_search_tool"), effect="read"
        )
        self._offers: dict[tuple[int, bool], Offer] = {}

    def tools(self, *providers: Provider) -> tuple[ServerTool, ...]:
        """Return web search as a tool, if all models of the agent have it and it is allowed by now."""
        return (web_search,) if self._is_allowed and self._is_known_to(providers) else ()

    def offer(self, agent: AgentSpec, now: Offer = NOTHING) -> Offer:
        """Return what a mode of the session offers now, with web search or the tool that asks about it."""
        is_on = self._is_allowed
        if agent.server_tools or not (is_on or self._may_ask) or not self._is_known_to(agent.providers):
            return now
        if is_lean(self._lean, agent.provider):
            return now
        if (known := self._offers.get((id(now), is_on))) is None:  # `now` is one of a few that last
            more = {"server_tools": (web_search,)} if is_on else {"tools": (*now.tools, self._asking)}
            known = self._offers[id(now), is_on] = msgspec.structs.replace(now, **more)
        return known

    def _is_known_to(self, providers: tuple[Provider, ...]) -> bool:
        return self._is_offered and all(map(has_web_search, providers))

    @property
    def _is_allowed(self) -> bool:
        return self._wanted != "off" and (self._verdict == "allow" or (self._wanted == "on" and self._verdict == "ask"))

    @property
    def _may_ask(self) -> bool:
        return self._wanted == "ask" and self._verdict == "ask" and self._permissions.can_ask

    @property
    def _verdict(self) -> str:
        return self._permissions.verdict(WEB_SEARCH)


def _search(query: str) -> str:
    """Run after the user has agreed."""
    return IS_ON


def has_web_search(provider: Provider) -> bool:
    """Return whether a model searches when it wants to, beside the tools of the agent."""
    known = getattr(provider, "capabilities", None)
    return isinstance(known, Capabilities) and WEB_SEARCH in known.server_tools and known.server_tools_with_functions
