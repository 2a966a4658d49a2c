"""An agent whose task "slow" hangs the first time, so that a batch can be stopped in the middle of it."""

from __future__ import annotations

import asyncio

from outrider import Agent, Limits, Usage, tool
from outrider.providers.base import Request
from outrider.testing import Delay, ScriptedModel, Step, call


class HeldAgent:
    """The agent, the tasks whose write has run, and the moment when the slow one hangs."""

    def __init__(self, cost: float = 0.0) -> None:
        self.runs: list[str] = []
        self.held = asyncio.Event()

        @tool(effect="write")
        def note(text: str) -> str:
            """Note it."""
            self.runs.append(text)
            return "noted"

        self.agent = Agent(ScriptedModel(self._step, usage=Usage(cost=cost)), tools=[note])

    def _step(self, request: Request) -> Step:
        last = request.messages[-1]
        if not last.tool_results:
            return call("note", text=last.text)
        if request.messages[0].text == "slow" and not self.held.is_set():
            self.held.set()
            return Delay(3600, "never")
        return "done"


def held_at_the_third_turn() -> tuple[ScriptedModel, Agent, asyncio.Event]:
    """A model, its agent of four turns, which looks and stays in its third request, and what tells that it is there."""
    count, reached = 0, asyncio.Event()

    def step(request: Request) -> Step:
        nonlocal count
        count += 1
        if count == 3:
            reached.set()
            return Delay(3600, "never")
        return call("look", number=count)

    @tool(effect="read")
    def look(number: int) -> str:
        """Look."""
        return str(number)

    model = ScriptedModel(step)
    return model, Agent(model, tools=[look], limits=Limits(max_turns=4)), reached
