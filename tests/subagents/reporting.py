"""A parent that starts sub-agents, and one scripted model that plays them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from outrider.conversation.history import violations
from outrider.conversation.messages import Message, ToolUseBlock
from outrider.log.entries import CallResult
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, ToolFinished
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.subagents import Profile, with_subagents
from outrider.testing import ScriptedModel, Step, call

HELPER = Profile(name="Helper", description="Does what it is told to.", prompt="You help.")


def task(prompt: str, **more: Any) -> ToolUseBlock:
    """A call that sends out a helper."""
    return call("Task", **{"description": "a small task", "prompt": prompt, "subagent_type": "Helper"} | more)


def report_back(**data: Any) -> ToolUseBlock:
    return call("report_back", **data)


def offered(request: Request, name: str = "report_back") -> dict[str, Any] | None:
    """The parameters of a tool in a request; None if it is not offered."""
    return next((dict(tool.parameters) for tool in request.tools if tool.name == name), None)


class Team:
    """Sends out the given tasks in one reply; each child plays the steps of its prompt, or asks a function."""

    def __init__(
        self,
        sends: Sequence[Any],
        children: dict[str, Sequence[Step]] | Callable[[Request], Step],
        *,
        log: Log | None = None,
        profiles: Sequence[Profile] = (HELPER,),
        at_once: int = 8,
        **agent: Any,
    ) -> None:
        self._sends = list(sends)
        self._children = children
        self.model = ScriptedModel(self._play)
        self.events: list[Event] = []
        self.agent = with_subagents(Agent(model=self.model, **agent), profiles, at_once=at_once)
        self.log = log
        observer = self.events.append
        if log:
            self.session = Session.open(log, agent=self.agent, observer=observer).now()
        else:
            self.session = Session(self.agent, observer=observer)

    async def run(self) -> RunResult:
        """Send them out, and check what always holds."""
        with self.session:
            result = await self.session.run("Go.")
        for request in self.model.requests:
            assert violations(request.messages) == []
        assert violations(self.session.history.sendable()) == []
        return result

    @property
    def results(self) -> list[ToolFinished]:
        """How the tasks ended, in the order in which they were given."""
        order = [each.id for message in self.session.messages for each in message.tool_calls]
        ended = {event.call_id: event for event in self.events if isinstance(event, ToolFinished)}
        return [ended[each] for each in order]

    @property
    def stored(self) -> list[CallResult]:
        """The answers of the parent's session as the log has them."""
        return answers(self.log, self.session.id) if self.log else []

    def requests(self, prompt: str) -> list[Request]:
        """What the child with this prompt asked."""
        return [each for each in self.model.requests if each.messages[0].text == prompt]

    def _play(self, request: Request) -> Step:
        if offered(request, "Task") is not None:
            return "Thank you." if request.messages[-1].tool_results else self._sends
        if callable(self._children):
            return self._children(request)
        said = sum(message.role == "assistant" for message in request.messages)
        return self._children[request.messages[0].text][said]


def answers(log: Log, session: str) -> list[CallResult]:
    """The answers in a session, in the order of their calls."""
    found = {
        entry.result.tool_use_id: entry
        for record in log.records(session)
        if isinstance(entry := record.entry, CallResult)
    }
    calls = [each.id for message in log.messages(session) for each in message.tool_calls]
    return [found[each] for each in calls]


def last_answers(message: Message) -> list[tuple[str, bool]]:
    """Text and error flag of each result in a message."""
    return [(result.text, result.is_error) for result in message.tool_results]
