"""Web search in the coding agent: the model's API runs it, after one question to the user."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from outrider.coding.lean_tools import is_lean
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.toolbox import WEB_SEARCH
from outrider.providers.base import Provider
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.tools.server_tool import ServerTool, web_search

if TYPE_CHECKING:
    from outrider.coding.config.settings import Settings
    from outrider.runtime.agent_spec import AgentSpec
    from outrider.runtime.session import Session


class WebSearch:
    """Whether the agents of one session search the web.

    The API runs a search in the middle of a reply, so the user cannot be asked about each one. They are asked once,
    before the first request that could search.
    """

    def __init__(self, settings: Settings, permissions: PermissionApprover, *, is_offered: bool) -> None:
        """`is_offered`: whether agents may have it as a tool at all."""
        self._wanted = settings.web.search
        self._lean = settings.lean
        self._permissions = permissions
        self._is_offered = is_offered
        self._answer: bool | None = None
        """The user's answer, once there is one."""

    def tools(self, *providers: Provider) -> tuple[ServerTool, ...]:
        """Return web search as a tool, if all models of the agent have it and it is allowed by now."""
        return (web_search,) if self._is_offered and self._is_allowed and all(map(has_web_search, providers)) else ()

    async def ask_before_run(self, session: Session) -> AgentSpec | None:
        """Ask about web search if the session's model has it. Return the agent with it, if the answer is yes."""
        agent = session.agent
        if agent.server_tools or not self._is_offered or is_lean(self._lean, session.provider):
            return None
        await self.ask(session.provider)
        found = self.tools(*agent.providers)
        return agent.replace(server_tools=found) if found else None

    async def ask(self, provider: Provider) -> None:
        """Ask the user whether the model may search. A setting, an earlier answer or -p decides without asking."""
        if self._answer is not None or not self._needs_answer or not has_web_search(provider):
            return
        allowed = await self._permissions.permits(WEB_SEARCH, provider.name)
        await asyncio.sleep(0)  # a user who cancels the turn has not answered
        self._answer = allowed

    @property
    def _is_allowed(self) -> bool:
        if self._wanted == "off" or self._verdict == "deny":
            return False
        return self._wanted == "on" or self._verdict == "allow" or self._answer is True

    @property
    def _needs_answer(self) -> bool:
        return self._wanted == "ask" and self._verdict == "ask" and self._permissions.can_ask

    @property
    def _verdict(self) -> str:
        return self._permissions.verdict(WEB_SEARCH)


def has_web_search(provider: Provider) -> bool:
    """Return whether a model searches when it wants to, beside the tools of the agent."""
    known = getattr(provider, "capabilities", None)
    return isinstance(known, Capabilities) and WEB_SEARCH in known.server_tools and known.server_tools_with_functions
