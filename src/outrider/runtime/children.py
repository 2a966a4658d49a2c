"""The sub-agents of a session: their events and their usage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from outrider.conversation.usage import Usage
from outrider.errors import OutriderError
from outrider.log.run_state import joined
from outrider.runtime import events
from outrider.runtime.agent_spec import AgentSpec
from outrider.text import clean
from outrider.tools.context import SubagentTask

if TYPE_CHECKING:
    from outrider.runtime.record import SessionRecord

LONGEST_TITLE = 80


class Children:
    """Counts sub-agents and their usage, and relays their events to the observers of the parent."""

    def __init__(self, record: SessionRecord) -> None:
        self.usage = Usage()
        """The usage of all sub-agents of the session."""
        self.used_in_run = Usage()
        """That of the run that goes on."""
        self.by_model: dict[str, Usage] = {}
        """The same for each model."""
        self._models: dict[str, str] = {}
        """The model of each sub-agent, by its session."""
        self._started = 0
        """How many the run has started."""
        self._record = record

    def begin_run(self) -> None:
        """Count anew."""
        self.used_in_run, self.by_model, self._started = Usage(), {}, 0

    def count(self, most: int | None) -> None:
        """Count a sub-agent. Raises OutriderError if the limit is reached."""
        if most is not None and self._started >= most:
            raise OutriderError(f"this run has started {most} sub-agents, which is its limit (limits.max_subagents)")
        self._started += 1

    def announce(self, task: SubagentTask, child: str, agent: AgentSpec) -> Callable[[events.Event], None]:
        """Tell the observers that a sub-agent starts; return the observer that relays its events."""
        self._models[child] = agent.provider.name
        if not task.is_over():
            self._record.emit(
                events.SubagentStarted(
                    task.call_id, child, agent.name, task.title, agent.provider.name, task.background
                )
            )
        return partial(self._relay, task, child)

    def _relay(self, task: SubagentTask, child: str, event: events.Event) -> None:
        """Count the usage of a sub-agent, and send its own events on while its task runs."""
        if isinstance(event, events.MessageAdded | events.ReplyDiscarded | events.Compacted) and event.usage:
            self.usage += event.usage
            self.used_in_run += event.usage
            self.by_model = joined(self.by_model, {self._models[child]: event.usage})
        elif isinstance(event, events.ModelSwitched):
            self._models[child] = event.model
        if isinstance(event, events.OwnEvent) and not task.is_over():
            self._record.emit(events.SubagentEvent(task.call_id, child, event))


def child_title(agent: AgentSpec, task: SubagentTask) -> str:
    """Return the title of a sub-agent's session, which also names it in questions to the user."""
    return clean(" ".join(f"{agent.name}: {task.title}".split()))[:LONGEST_TITLE]
