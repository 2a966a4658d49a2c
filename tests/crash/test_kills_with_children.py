"""A process that has sent out sub-agents is killed, and another goes on: each outcome comes up exactly once."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from outrider.log.journal import Journal
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event
from outrider.runtime.session import Session
from outrider.subagents import with_subagents
from outrider.testing import Delay, ScriptedModel, Step, call
from outrider.tools.tool import tool
from tests.crash import family
from tests.crash.family_judge import OnDisk, faults_of_family
from tests.crash.family_trial import FamilyTrial
from tests.crash.ledger import Ledger
from tests.crash.nursery import Nursery
from tests.lengths import only_long

PARTS = 4
"""Into how many tests the points are divided, so that they can run side by side."""
SEED = os.environ.get("CRASH_SEED", "1")
MUST_BE_THERE = {
    "after COMMIT",
    "after MessageAdded of the wanderer is shown",
    "after SubagentStarted of the parent is shown",
    "after ToolFinished of the parent is shown",
    "before COMMIT",
    "before INSERT INTO session",
    "before RunFinished of the clerk is shown",
    "before ToolFinished of the reporter is shown",
    "move begins",
    "put has acted",
    "the model is asked by the forgetful",
    "the model is asked by the patient",
}
"""Points without which the tests below would prove little."""


@pytest.fixture(scope="session")
def points(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Every point of a whole life, by kind. How many commits there are depends on who waits together: hence three."""
    found: set[str] = set()
    for _ in range(3):
        trial = FamilyTrial(nursery, tmp_path_factory.mktemp("points"))
        assert trial.verdict(trial.live(record=True)) == []
        found.update(trial.points(1))
    kinds: dict[str, list[str]] = defaultdict(list)
    for point in sorted(found):
        kinds[point.rpartition(":")[0]].append(point)
    return kinds


def said(failures: dict[str, list[str]]) -> str:
    return "\n".join(f"killed at {point}:\n    " + "\n    ".join(faults) for point, faults in failures.items())


def _number(point: str) -> int:
    return int(point.rpartition(":")[2])


def test_the_points_are_where_the_contract_needs_them(points: dict[str, list[str]]) -> None:
    assert points.keys() >= MUST_BE_THERE


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_sub_agents_survive_a_kill_at_every_commit_and_at_points_of_every_kind(
    nursery: Nursery, points: dict[str, list[str]], quick_folder: Path, part: int
) -> None:
    chance = random.Random(f"{SEED}/{part}")
    commits = [point for point in points["before COMMIT"] + points["after COMMIT"] if _number(point) % PARTS == part]
    others = sorted(points.keys() - {"before COMMIT", "after COMMIT"})[part::PARTS]
    ours = commits + [chance.choice(points[kind]) for kind in others]
    failures: dict[str, list[str]] = {}
    killed = 0
    for number, point in enumerate(ours):
        trial = FamilyTrial(nursery, quick_folder / str(number))
        killed += trial.live(kill_at=point).killed
        if found := trial.verdict(trial.live()):
            failures[point] = found
        else:
            trial.remove()
    assert not failures, said(failures)
    assert killed > 0.7 * len(ours), "most points are passed in every life"


@pytest.mark.long
@pytest.mark.parametrize(("part", "trials"), [(0, 12), (1, 12)])
def test_the_process_that_takes_over_may_be_killed_as_well(
    nursery: Nursery, points: dict[str, list[str]], quick_folder: Path, part: int, trials: int
) -> None:
    chance = random.Random(f"{SEED}/{part}")
    every = [point for kind in points.values() for point in kind]
    early = [point for kind in points.values() for point in kind[:6]]  # one that takes over has less to do
    failures: dict[str, list[str]] = {}
    taken_over = 0
    for number in range(trials):
        trial = FamilyTrial(nursery, quick_folder / str(number))
        deaths = [chance.choice(every), chance.choice(early), chance.choice(early)]
        if number == 0:  # a point that every life passes; whether it passes others depends on the lives before it
            deaths = ["before COMMIT:8"] * 3
        killed = [trial.live(kill_at=point).killed for point in deaths]
        taken_over += sum(killed) > 1
        if found := trial.verdict(trial.live()):
            failures[", then ".join(deaths)] = found
        else:
            trial.remove()
    assert not failures, f"seed {SEED}: {said(failures)}"
    assert taken_over >= max(1, trials // 4), f"the process that took over was killed as well (seed {SEED})"


@pytest.mark.parametrize(
    "point", ["before COMMIT:8", *only_long("after COMMIT:8", "after MessageAdded of the clerk is shown:1")]
)
def test_a_family_whose_every_process_is_killed_still_comes_to_its_end(
    nursery: Nursery, quick_folder: Path, point: str
) -> None:
    trial = FamilyTrial(nursery, quick_folder / "trial")
    for _ in range(60):
        last = trial.live(kill_at=point)
        if not last.killed:
            break
    assert trial.verdict(last) == []
    assert len(trial.lives) > 3


# The judge can fail


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sabotage", "kill_at", "fault"),
    [
        ("sends_out_another_one", "after SubagentStarted of the parent is shown:1", "there are sessions of"),
        ("links_it_again", "after MessageAdded of the clerk is shown:2", "these calls were delegated"),
        ("says_the_prompt_again", "after MessageAdded of the clerk is shown:6", "the clerk was asked again in life 2"),
        ("says_the_prompt_again", "after MessageAdded of the clerk is shown:1", "the clerk was told"),
        ("reminds_again", "after MessageAdded of the forgetful is shown:4", "the forgetful was told"),
        ("forgets_the_report", "after MessageAdded of the reporter is shown:9", "the parent was told of the reporter"),
        ("gives_all_turns_again", "after MessageAdded of the clerk is shown:6", "the details of the clerk are"),
        ("begins_anew_what_may_not_be_repeated", "put has acted:1", "wrote 2 times"),
        ("begins_anew_what_may_not_be_repeated", "put begins:1", "put of the clerk may have run or not"),
    ],
)
def test_the_judge_notices_a_runtime_that(
    nursery: Nursery, quick_folder: Path, sabotage: str, kill_at: str, fault: str
) -> None:
    trial = FamilyTrial(nursery, quick_folder / "trial")
    assert trial.live(kill_at=kill_at, sabotage=sabotage).killed
    assert fault in "\n".join(trial.verdict(trial.live(sabotage=sabotage)))


def test_the_judge_believes_the_ledgers(nursery: Nursery, quick_folder: Path) -> None:
    trial = FamilyTrial(nursery, quick_folder / "trial")
    assert trial.live(kill_at="after MessageAdded of the forgetful is shown:1").killed
    last = trial.live()
    assert trial.verdict(last) == []
    (clerk,) = (name for name, session in trial.lives[-1].items() if session.who == "clerk")
    Ledger(trial.folder, "asked", 2).write(who="clerk", messages=trial.lives[-1][clerk].messages[:1])
    Ledger(trial.folder, "marks", 2).write(call="a2", tool="put", key=f"{clerk}/a2")
    Ledger(trial.folder, "marks", 2).write(call="a9", tool="look", key=f"{clerk}/a9")
    Ledger(trial.folder, "shown", 2).write(session="unheard of", sent_by="a1")
    found = "\n".join(faults_of_family(trial.folder, trial.lives, last.value))
    assert "the clerk was asked again in life 2, though it had ended in life 1" in found
    assert "put was run in life 2, though it had its answer in life 1" in found
    assert f"put ({clerk}/a2) wrote 2 times" in found
    assert "look ran in life 2, and nothing on disk says that it was begun" in found
    assert "life 2 showed what is lost" in found


# A cancel


def assert_all_is_answered_and_free(folder: Path, parent: str, children: int | None = None) -> None:
    """Whoever comes now, as another process would, finds each call answered, and can open each session."""
    with Log(folder) as other:
        ids = [parent, *(child.id for child in other.children(parent))]
        assert children in (None, len(ids) - 1)
        for each in ids:
            other.open(each).close()
            session = OnDisk(list(other.records(each)))
            calls = [call.id for message in session.messages for call in message.tool_calls]
            assert [result.tool_use_id for message in session.messages for result in message.tool_results] == calls
            assert set(session.answers) == set(calls)


@pytest.mark.parametrize("every", [28, *only_long(7)])
async def test_cancelling_the_parent_at_any_event_leaves_every_call_answered_and_no_session_held(
    quick_folder: Path, every: int
) -> None:
    for moment in range(3, 80, every):
        folder = quick_folder / str(moment)
        folder.mkdir()
        seen: list[Event] = []

        def observer(event: Event, seen: list[Event] = seen, moment: int = moment) -> None:
            seen.append(event)
            if len(seen) == moment:
                session.cancel()

        with Log(folder / "log") as log:
            with Session.open(log, agent=family.agent(folder), observer=observer) as session:
                assert (await session.run(family.PROMPT)).status == "cancelled"
            assert_all_is_answered_and_free(folder / "log", session.id)
        with Log(folder / "log") as log, Session.open(log, session.id, family.agent(folder, 2)) as session:
            assert (await session.run()).status == "done"


def team(hanging: list[str], forever: asyncio.Event) -> Agent:
    """Three sub-agents that never come back: one waits for the model, the others for a tool."""

    @tool
    async def wait() -> str:
        hanging.append("tool")
        await forever.wait()
        return "It is over."

    def reply(request: Request) -> Step:
        first = request.messages[0].text
        if first == "model":
            hanging.append("model")
            return Delay(3600, "It is over.")
        if first == "tool":
            return call("wait")
        if len(request.messages) > 1:
            return "So be it."
        every = {"description": "wait", "subagent_type": "General"}
        waiting = ("model", {}), ("tool", {}), ("tool", {"output_schema": family.SCHEMA})
        return [call("Task", prompt=prompt, **every, **more) for prompt, more in waiting]

    return with_subagents(Agent(model=ScriptedModel(reply), tools=[wait]))


async def test_cancelling_the_parent_ends_sub_agents_that_wait(tmp_path: Path) -> None:
    hanging: list[str] = []
    with Log(tmp_path) as log:
        with Session.open(log, agent=team(hanging, asyncio.Event())) as session:
            running = asyncio.create_task(session.run("Wait."))
            async with asyncio.timeout(30):
                while len(hanging) < 3:
                    await asyncio.sleep(0.01)
            session.cancel()
            assert (await running).status == "cancelled"
            assert [child.holder for child in log.children(session.id)] == [None, None, None]
            told = [result.text for result in session.messages[-1].tool_results]
            assert len(told) == 3
            assert all("cancelled" in text for text in told)
        assert_all_is_answered_and_free(tmp_path, session.id, 3)
        with Session.open(log, session.id, team(hanging, asyncio.Event())) as session:
            assert (await session.run("Go on.")).text == "So be it."
        assert len(hanging) == 3, "those that were cancelled are not taken up again"


async def test_a_sub_agent_that_is_just_being_opened_is_let_go_when_its_sender_is_cancelled(tmp_path: Path) -> None:
    loop, opened, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    class SlowLog(Log):
        def open_child(self, *args: Any) -> Journal:
            journal = super().open_child(*args)
            loop.call_soon_threadsafe(opened.set)
            go_on.wait(30)
            return journal

    with SlowLog(tmp_path) as log, Session.open(log, agent=team([], asyncio.Event())) as session:
        running = asyncio.create_task(session.run("Wait."))
        await opened.wait()
        session.cancel()
        loop.call_later(0.1, go_on.set)
        assert (await running).status == "cancelled"
        assert {child.holder for child in log.children(session.id)} == {None}
    assert_all_is_answered_and_free(tmp_path, session.id)
