"""A parent and its sub-agents on one scripted model, and helpers to observe them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from outrider import Agent, Limits, Log, Profile, Session, Tool, with_subagents
from outrider.coding.config.loading import load
from outrider.coding.front_end import Front, FrontEnd
from outrider.coding.permissions.question import Ask
from outrider.coding.workbench import Workbench
from outrider.conversation.history import violations
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError
from outrider.providers.base import Reply, Request, StopReason
from outrider.runtime.events import Event, SubagentEvent, ToolFinished, ToolStarted
from outrider.runtime.run import RunResult
from outrider.subagents.task import AT_ONCE
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.approval import Approver

E = TypeVar("E")
HELPER = Profile(name="Helper", description="Helps.")


def task(prompt: str, profile: str = "Helper", **more: Any) -> ToolUseBlock:
    """A Task call; the prompt identifies the task."""
    return call("Task", description=f"do {prompt}", prompt=prompt, subagent_type=profile, **more)


def reply(*parts: Any, tokens: int = 0, cost: float | None = None) -> Reply:
    """A reply that uses something."""
    message = Message.assistant(*parts)
    stop = StopReason.TOOL_USE if message.tool_calls else StopReason.END
    return Reply(message, stop, Usage(tokens, 0, cost=cost))


def play(sender: Sequence[Any], children: Mapping[str, Sequence[Any]] | None = None) -> ScriptedModel:
    """A model that plays the parent, and each sub-agent by its prompt: as many steps as it has said things."""

    def step(request: Request) -> Step:
        first = request.messages[0].text
        is_sender = any(tool.name == "Task" for tool in request.tools)
        steps = sender if is_sender or not children else children[first]
        said = sum(message.role == "assistant" for message in request.messages)
        if said >= len(steps):
            raise ProviderError(f"the script for {first!r} has {len(steps)} steps, and this is another")
        chosen: Step = steps[said]
        return chosen

    return ScriptedModel(step)


class Team:
    """A session that sends out sub-agents, and what its observers saw."""

    def __init__(
        self,
        model: ScriptedModel,
        tools: Sequence[Tool] = (),
        *,
        profiles: Sequence[Profile] = (HELPER,),
        limits: Limits | None = None,
        log: Log | None = None,
        at_once: int = AT_ONCE,
        approve: Approver | None = None,
    ) -> None:
        self.model = model
        self.events: list[Event] = []
        agent = with_subagents(Agent(model=model, tools=tools, limits=limits or Limits()), profiles, at_once=at_once)
        watched: dict[str, Any] = {"observer": self.events.append, "approve": approve}
        self.session = Session.open(log, agent=agent, **watched).now() if log else Session(agent, **watched)

    async def run(self, prompt: str = "go") -> RunResult:
        return await self.session.run(prompt)

    @property
    def results(self) -> list[ToolResultBlock]:
        """What the sender's calls came to, in call order."""
        return results_of(self.session)

    def finished(self) -> list[ToolFinished]:
        """How the sender's calls ended, in the order in which they did."""
        return [event for event in self.events if isinstance(event, ToolFinished)]

    @property
    def nested(self) -> list[SubagentEvent]:
        return [event for event in self.events if isinstance(event, SubagentEvent)]

    def inside(self, kind: type[E]) -> list[E]:
        """The events of a kind in the sub-agents."""
        return [event.event for event in self.nested if isinstance(event.event, kind)]

    def check(self) -> None:
        """Every call is answered exactly once, what was sent was sound, and what is there now can be sent."""
        for request in self.model.requests:
            assert violations(request.messages) == []
        assert violations(self.session.history.sendable()) == []
        assert self.session.history.pending == ()
        started = [event.call_id for event in self.events if isinstance(event, ToolStarted)]
        ended = [event.call_id for event in self.finished()]
        assert len(ended) == len(set(ended))
        assert set(started) <= set(ended)
        calls = [each.id for message in self.session.messages for each in message.tool_calls]
        assert [each.tool_use_id for each in self.results] == calls
        msgspec.json.encode(self.events)


def results_of(session: Session) -> list[ToolResultBlock]:
    """All results in a conversation, in order."""
    return [result for message in session.messages for result in message.tool_results]


def bench_in(
    folder: Path, ask: Ask | None = None, own: Sequence[Tool] = (), front: Front | None = None, **flags: Any
) -> Workbench:
    """A workbench in a folder; `limits__max_turns=5` is a setting."""
    flags = {"model": "demo"} | {name.replace("__", "."): value for name, value in flags.items()}
    return Workbench(
        load(folder, environment=os.environ, flags=flags).settings,
        folder,
        tools=own,
        front_end=FrontEnd(ask, remote=front),
    )


async def run_in(bench: Workbench, model: ScriptedModel) -> Session:
    """A session at a workbench, which has come to its end."""
    session = Session(bench.agent(model=model), cwd=bench.folder, approve=bench.permissions)  # type: ignore[arg-type]
    try:
        await session.run("go")
    finally:
        bench.close()
    return session
