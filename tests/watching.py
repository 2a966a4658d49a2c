"""A session whose events can be looked at, and the checks that hold after every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from outrider.conversation.history import violations
from outrider.conversation.messages import Message
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, ToolFinished, ToolStarted
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step

E = TypeVar("E")


class Watched:
    """A session on a script, and what its observers saw."""

    def __init__(
        self,
        steps: Sequence[Step] | Callable[..., Step] | ScriptedModel,
        tools: Sequence[Callable[..., Any]] = (),
        limits: Limits | None = None,
        messages: Sequence[Message] = (),
        **options: Any,
    ) -> None:
        self.model = steps if isinstance(steps, ScriptedModel) else ScriptedModel(steps)
        self.events: list[Event] = []
        agent = Agent(model=self.model, tools=tools, limits=limits or Limits())
        self.session = Session(agent, messages, observer=self.events.append, **options)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def check(self) -> None:
        """Every call is answered exactly once, what was sent was sound, and what is there now can be sent."""
        for request in self.model.requests:
            assert violations(request.messages) == []
        assert violations(self.session.history.sendable()) == []
        assert self.session.history.pending == ()
        started = [event.call_id for event in self.of(ToolStarted)]
        finished = [event.call_id for event in self.of(ToolFinished)]
        assert len(finished) == len(set(finished))
        assert set(started) <= set(finished)
        calls = [call.id for message in self.session.messages for call in message.tool_calls]
        results = [result.tool_use_id for message in self.session.messages for result in message.tool_results]
        assert results == calls, "each call is answered once, in call order"
        msgspec.json.encode(self.session.messages)
        msgspec.json.encode(self.events)


def last_results(session: Session) -> list[tuple[str, bool]]:
    """Text and error flag of the results in the newest message that has any."""
    for message in reversed(session.messages):
        if message.tool_results:
            return [(result.text, result.is_error) for result in message.tool_results]
    return []
