"""The agents that may have a conversation, and the one that has it."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.errors import ProviderError
from outrider.log.entries import SessionSettings
from outrider.providers.base import Provider
from outrider.runtime.agent_spec import AgentSpec


class Team:
    """An agent, and those that it can hand over to."""

    def __init__(self, agent: AgentSpec) -> None:
        self.first = self.current = agent
        """The agent that the session was opened with, and the one that has the conversation."""
        self._agents = {agent.name: agent}
        """All of them by name, each with the model that it uses now."""
        if agent.handoffs:
            from outrider.runtime.handoffs import team_of

            self._agents = team_of(agent, is_whole=True)

    def get(self, name: str) -> AgentSpec | None:
        return self._agents.get(name)

    def use(self, agent: AgentSpec) -> None:
        """Let an agent go on, or the same one with another model."""
        self.current = self._agents[agent.name] = agent

    def resume(self, stored: SessionSettings) -> str:
        """Go on with the agent and the model that had the conversation last. Return a note if the agent is gone."""
        note = ""
        if stored.agent:
            before = self.current
            self.current = self._agents.get(stored.agent, before)
            if self.current.name != stored.agent:
                note = f"this session was handed over to {stored.agent!r}, an agent that is not there now"
                note = f"{note}; {before.name} goes on"
        models = self.current.alternatives() if stored.model != self.current.model else ()
        named = (each for each in models if stored.model in (each.model, each.provider.name))
        self.use(next(named, self.current))
        return note

    def fallback(self, error: ProviderError, tried: Sequence[Provider]) -> AgentSpec | None:
        """Return the agent with its next model that was not tried and may answer after this error."""
        from outrider.runtime.fallback import may_follow

        former = self.current.provider
        for agent in self.current.alternatives():
            provider = agent.provider
            if not any(provider is each for each in tried) and may_follow(error, former, provider):
                return agent
        return None
