"""A process with three sub-agents in the background is killed, and another goes on: each is reported exactly once."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.history import violations
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from outrider.subagents import Profile, with_subagents
from outrider.testing import ScriptedModel, Step, call
from tests.crash.ledger import Ledger, lines_of
from tests.crash.nursery import Nursery
from tests.crash.points import Points
from tests.crash.script import agent as scripted
from tests.lengths import only_long

SEED = os.environ.get("CRASH_SEED", "1")
NAMES = ("reader", "writer", "thinker")
STEPS: dict[str, list[Any]] = {
    "reader": [[call("look", at="shelf")], "I have read."],
    "writer": [[call("put", item="box")], [call("move", item="crate")], "I have written."],
    "thinker": ["I have thought."],
}


def reply(request: Request) -> Step:
    who = request.messages[0].text.partition(":")[0]
    said = sum(message.role == "assistant" for message in request.messages)
    if who in STEPS:
        return STEPS[who][said]  # type: ignore[no-any-return]
    if said:
        return "Noted."
    return [call("Task", description=f"the {name}", prompt=f"{name}: go.", run_in_background=True) for name in NAMES]


def play(folder: str, life: int, *, kill_at: str = "", record: bool = False) -> dict[str, Any]:
    """One life of the session. Changes this process for good: it is to end afterwards."""
    where = Path(folder)
    points = Points(kill_at, Ledger(where, "points", life) if record else None)
    points.install()

    async def live() -> dict[str, Any]:
        tools = [each for each in scripted(where, life, points.passed).tools if each.name in ("look", "put", "move")]
        team = with_subagents(Agent(ScriptedModel(reply), tools=tools), [Profile(name="Clerk", description="Works.")])
        with Log(where / "log") as log:
            found = log.sessions()
            session = Session.open(log, found[0].id if found else None, team).now()
            result = await session.run("" if session.messages else "parent: send three.")
            told = [message.text for message in session.messages if message.text.startswith("[Sub-agent ")]
            state = [(each.title, each.status, each.report) for each in session.background]
            faults = [str(each) for each in violations(session.history.sendable())]
            await session.aclose()
            return {"status": result.status, "told": told, "state": state, "faults": faults}

    return asyncio.run(live())


def faults_of(ended: dict[str, Any]) -> list[str]:
    """What is wrong in the end: a sub-agent that is lost, told twice, or said to be at work."""
    faults = [*ended["faults"]]
    if ended["status"] != "done":
        faults.append(f"the run ended with {ended['status']}")
    told = Counter(re.findall(r"\(Clerk: the (\w+)\) (?:has finished|was interrupted)", "\n".join(ended["told"])))
    faults += [f"the {name} was reported {told[name]} times" for name in NAMES if told[name] != 1]
    faults += [f"the {each[0]} is {each[1]!r}, untold {each[2]!r}" for each in ended["state"] if not each[1] or each[2]]
    if len(ended["state"]) != len(NAMES):
        faults.append(f"there are {ended['state']}")
    finished = {name: f"I have {past}." for name, past in zip(NAMES, ("read", "written", "thought"), strict=True)}
    for text in ended["told"]:
        name = re.findall(r"Clerk: the (\w+)", text)[0]
        if "has finished" in text and finished[name] not in text:
            faults.append(f"the report of the {name} has no answer: {text}")
    return faults


@pytest.fixture(scope="session")
def points(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The points of a whole life at which something lasts that did not before: what others leave is the same."""
    folder = tmp_path_factory.mktemp("points")
    ended = nursery.run(play, str(folder), 1, record=True)
    assert not ended.error, ended.error
    assert faults_of(ended.value) == []
    assert all("has finished" in each for each in ended.value["told"])
    passed = [line["point"] for line in lines_of(folder, "points", 1)]
    return [each for each in passed if not each.startswith("before")]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("count", [6, *only_long(1000)])
def test_each_is_told_once_or_reported_as_interrupted(
    nursery: Nursery, points: list[str], tmp_path: Path, count: int
) -> None:
    failures: dict[str, list[str]] = {}
    killed = 0
    for number, point in enumerate(random.Random(SEED).sample(points, min(count, len(points)))):
        folder = tmp_path / str(number)
        folder.mkdir()
        first = nursery.run(play, str(folder), 1, kill_at=point)
        assert not first.error, first.error
        killed += first.killed
        last = nursery.run(play, str(folder), 2)
        if found := [last.error] if last.error else faults_of(last.value):
            failures[point] = found
    assert killed > min(count, len(points)) / 2
    assert failures == {}, "\n".join(f"{point}: {found}" for point, found in failures.items())
