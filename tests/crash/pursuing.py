"""The child that is killed while it pursues a goal: each turn writes a file, and the goal is that four are there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from outrider.conversation.history import violations
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.goal import CheckResult
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step
from tests.crash.ledger import Ledger
from tests.crash.points import Points

CHECKS = 4
GOAL = "make done"


def live(folder: str, life: int = 1, *, kill_at: str = "", record: bool = False) -> dict[str, Any]:
    """One life of the session. Changes this process for good: it is to end afterwards."""
    where = Path(folder)
    points = Points(kill_at, Ledger(where, "points", life) if record else None)
    points.install()

    def step(request: Request) -> Step:
        assert violations(request.messages) == []
        points.passed("the model is asked")
        return f"Try {len(request.messages) // 2 + 1}."

    async def check(command: str) -> CheckResult:
        points.passed("the goal is checked")
        assert command == GOAL
        tries = sum(message.role == "assistant" for message in session.messages)
        return CheckResult(tries == CHECKS, f"{tries} of {CHECKS}")

    with Log(where / "log") as log:
        found = log.sessions()
        agent = Agent(ScriptedModel(step), limits=Limits(max_checks=CHECKS))
        with Session.open(log, found[0].id if found else None, agent) as session:
            session.use_checks(check)
            begun = session.history.last is not None
            result = asyncio.run(session.run() if begun else session.run("Go.", until=GOAL))
            messages = msgspec.to_builtins(session.messages)
            return {"status": result.status, "error": result.error, "goal": session.goal, "messages": messages}
