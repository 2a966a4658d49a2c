"""The child that is killed while its conversation is compacted: it looks at files until it is done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from outrider.conversation.history import violations
from outrider.conversation.messages import ToolUseBlock
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.compaction import Compaction
from outrider.runtime.events import Compacted, CompactionStarted, Event, ResultsCleared
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step
from outrider.tools.tool import tool
from tests.crash.ledger import Ledger
from tests.crash.points import Points

TURNS = 12
PROMPT = "Look at every file."


@tool(effect="read")
def look(number: int) -> str:
    """Look at a file."""
    return f"file {number}: " + "words of it " * 170


def seen_by(request: Request) -> int:
    """The highest number of a call that the model sees."""
    calls = (use for message in request.messages for use in message.tool_calls)
    numbers = [use.input["number"] for use in calls if use.name == "look"]
    said = str(request.messages[0])
    return max([*numbers, *(int(word) for word in said.split() if word.isdigit())], default=0)


def agent(points: Points, *, clears: bool) -> Agent:
    """A model that knows only what it is sent how far it has come."""

    def step(request: Request) -> Step:
        assert violations(request.messages) == []
        points.passed("the model is asked")
        done = seen_by(request)
        if "Write a summary" in request.reminder:
            return f"## Open work\nSeen up to {done} so far."
        return ToolUseBlock(f"call_{done + 1:020}", "look", {"number": done + 1}) if done < TURNS else "All seen."

    model = ScriptedModel(step, window=5_000)
    limits, compaction = Limits(max_turns=None, max_repeats=None), Compaction(clear_threshold=0.6 if clears else None)
    return Agent(model, tools=[look], limits=limits, compaction=compaction)


def live(folder: str, life: int = 1, *, clears: bool, kill_at: str = "", record: bool = False) -> dict[str, Any]:
    """One life of the session. Changes this process for good: it is to end afterwards."""
    where = Path(folder)
    points = Points(kill_at, Ledger(where, "points", life) if record else None)
    points.install()

    def show(event: Event) -> None:
        if isinstance(event, CompactionStarted | Compacted | ResultsCleared):
            points.passed(f"{type(event).__name__} is shown")

    with Log(where / "log") as log:
        found = log.sessions()
        with Session.open(log, found[0].id if found else None, agent(points, clears=clears), observer=show) as session:
            resumed = list(session.history.sendable())
            assert violations(resumed) == []
            result = asyncio.run(session.run(PROMPT if session.history.last is None else ""))
            sent = [message.text for message in session.history.shown()[:1]]
            return {
                "status": result.status,
                "error": result.error,
                "messages": msgspec.to_builtins(session.messages),
                "sent": sent,
            }
