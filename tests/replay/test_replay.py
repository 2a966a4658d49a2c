"""Every recorded session replays without a difference; each planted change is named first."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider import Agent, Limits, Log, Session, Tool, Usage, tool
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock
from outrider.errors import LogError
from outrider.log import entries as kinds
from outrider.log.entries import Entry, MessageEntry
from outrider.log.rows import encode
from outrider.providers.base import Request
from outrider.replay.difference import shown
from outrider.subagents import Profile, with_subagents
from outrider.testing import ScriptedModel, Step, call, replay
from outrider.types import Difference
from tests.lengths import examples
from tests.replay.recording import ACTIONS, CALLS, REPLIES, Action, Recording

several = st.lists(st.sampled_from(CALLS), min_size=2, max_size=4)
several = several.filter(lambda calls: "kill" not in calls)  # what ran beside a killed call depends on the moment
replies = st.lists(st.one_of(st.sampled_from(REPLIES).map(lambda each: [each]), several), max_size=4)
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), replies), min_size=1, max_size=6)


@settings(max_examples=examples(80))
@given(actions)
@example([("run", [["look", "kill", "alone"], ["delegate", "denied"]]), ("compact", []), ("rewind", []), ("undo", [])])
@example([("run", [["delegate", "kill"]]), ("typed", [["kill"]]), ("think", [["refused"]]), ("run", [["cancel"]])])
@example([("run", [["steer"], ["overloaded"], ["cut"], ["text"]]), ("few turns", [["look"]]), ("run", [["refused"]])])
def test_a_recorded_session_replays_without_a_difference(done: list[Action]) -> None:
    with tempfile.TemporaryDirectory() as folder, Log(folder) as log:

        async def check() -> None:
            recording = Recording(log)
            session = await recording.record(done)
            before = [*log.rows(session)]
            for agent in (None, recording.agent):
                found = await asyncio.wait_for(replay(log, session, agent), 60)
                assert found.difference is None, str(found.difference)
                assert found.entries >= len(before)
            assert [*log.rows(session)] == before

        asyncio.run(check())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as log:
        yield log


def looking(result: str = "nothing there", description: str = "Look.") -> Tool:
    return tool(name="look", description=description, effect="read")(lambda: result)


def agent(**changes: object) -> Agent:
    model = ScriptedModel([["Hm.", call("look")], "Nothing.", "Still nothing."], usage=Usage(10, 2))
    return Agent(model, system="Be brief.", tools=[looking()]).replace(**changes)


async def recorded(log: Log) -> str:
    async with Session.open(log, agent=agent()) as session:
        await session.run("What is there?")
        await session.run("And now?", limits=Limits(max_turns=3))
        return session.id


PLANTED = [
    pytest.param(agent(system="Be kind."), "request", "system", id="system"),
    pytest.param(agent(tools=[looking(description="Stare.")]), "request", "tools.look.description", id="description"),
    pytest.param(agent(temperature=0.5), "request", "settings.temperature", id="settings"),
    pytest.param(agent(tools=[looking("a cat")]), "result of look", "result.content[0].text", id="result"),
    pytest.param(agent(tools=[]), "result of look", "result.content[0].text", id="tool"),
]


@pytest.mark.parametrize(("other", "about", "field"), PLANTED)
async def test_another_agent_differs_where_it_is_another(log: Log, other: Agent, about: str, field: str) -> None:
    session = await recorded(log)
    found = await replay(log, session, other, tools="run", is_strict=about == "request")
    assert found.difference is not None
    assert (found.difference.about, found.difference.field) == (about, field)
    assert found.difference.recorded != found.difference.replayed


async def test_tools_that_do_the_same_run_again(log: Log) -> None:
    session = await recorded(log)
    assert (await replay(log, session, agent(), tools="run")).difference is None


def without(kind: type[Entry], at: int = 0) -> Callable[[list[Entry]], Iterable[Entry]]:
    def planted(entries: list[Entry]) -> Iterable[Entry]:
        gone = [entry for entry in entries if isinstance(entry, kind)][at]
        return (entry for entry in entries if entry is not gone)

    return planted


def another_reply(entries: list[Entry]) -> Iterable[Entry]:
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.message.tool_calls:
            asked = msgspec.structs.replace(entry.message.tool_calls[0], id="other")
            entry = msgspec.structs.replace(entry, message=Message("assistant", (asked,)))
        yield entry


def another_end(entries: list[Entry]) -> Iterable[Entry]:
    for entry in entries:
        yield msgspec.structs.replace(entry, status="max_turns") if isinstance(entry, kinds.RunStopped) else entry


CHANGED = [
    pytest.param(without(kinds.CallResult), "result of look", id="no result"),
    pytest.param(without(kinds.Intent), "call look", id="no intent"),
    pytest.param(without(MessageEntry, 0), "start of a run", id="no prompt"),
    pytest.param(without(MessageEntry, 2), "request", id="no reply"),
    pytest.param(without(kinds.RunStopped), "end of the run (done)", id="no end"),
    pytest.param(another_reply, "result of look", id="another reply"),
    pytest.param(another_end, "end of the run (max_turns)", id="another end"),
]


@pytest.mark.parametrize(("plant", "about"), CHANGED)
async def test_a_changed_log_differs_at_the_change(
    log: Log, plant: Callable[[list[Entry]], Iterable[Entry]], about: str
) -> None:
    entries = [record.entry for record in log.records(await recorded(log))]
    changed = log.add("", [(seq, 1.0, *encode(entry)) for seq, entry in enumerate(plant(entries[1:]), 2)], ())
    found = await asyncio.wait_for(replay(log, changed), 30)
    assert found.difference is not None
    assert found.difference.about == about, str(found.difference)


async def test_a_changed_result_reaches_the_request_after_it(log: Log) -> None:
    """A result that is given by the program is a part of the prompt; a later request that lacks it differs."""
    async with Session.open(log, agent=agent()) as session:
        reply = await session.think("What is there?")
        result = ToolResultBlock(reply.message.tool_calls[0].id, (TextBlock("a dog"),))
        await session.think(tool_results=[result])
    assert (await replay(log, session.id, agent())).difference is None


async def test_sub_agents_are_replayed_with_their_own_replies(log: Log) -> None:
    async with Session.open(log, agent=team("a cat")) as session:
        await session.run("Go.")
    for again in (None, team("a cat")):
        found = await replay(log, session.id, again, tools="run" if again else "recorded")
        assert (found.difference, found.sessions) == (None, 3)
    found = await replay(log, session.id, team("a dog"), tools="run")
    assert found.difference
    assert found.difference.session in {child.id for child in log.children(session.id)}
    assert (found.difference.recorded, found.difference.replayed) == ("a cat", "a dog")


def team(seen: str) -> Agent:
    """An agent with two sub-agents that look at the same time."""
    task = call("Task", description="Look", prompt="Look.", subagent_type="Helper")

    def reply(request: Request) -> Step:
        is_parent, is_first = "Task" in {spec.name for spec in request.tools}, not request.messages[-1].tool_results
        return ([task, task] if is_parent else call("look")) if is_first else "Seen."

    helper = Profile(name="Helper", description="Looks.", tools=["look"])
    return with_subagents(Agent(ScriptedModel(reply), tools=[looking(seen)]), [helper])


async def test_a_session_of_which_a_part_was_lost_is_not_replayed(log: Log) -> None:
    journal = log.create()
    journal.write_now(MessageEntry(Message.user("Hi")), kinds.SessionRecovered((3,), 1))
    journal.close()
    with pytest.raises(LogError, match="cannot be replayed: a part of it was lost"):
        await replay(log, journal.id)


async def test_tools_that_shall_run_need_their_agent(log: Log) -> None:
    session = await recorded(log)
    with pytest.raises(ValueError, match="needs the agent"):
        await replay(log, session, tools="run")
    with pytest.raises(ValueError, match="'recorded' or 'run'"):
        await replay(log, session, tools="none")  # type: ignore[arg-type]


def test_a_difference_hides_nothing_from_the_reader() -> None:
    difference = Difference("0123456789abcdef" * 2, 7, "request", "system", "a\u202eb", "\x1b[31mred")
    assert str(difference).splitlines()[0] == "entry 7 of 01234567: request, system"
    assert "\x1b" not in str(difference)
    assert "\u202e" not in str(difference)


def test_the_lines_that_differ_are_found_in_long_texts_of_similar_lines() -> None:
    before = [f"{number:04} of 1000 lines that are nearly the same" for number in range(1_000)]
    after = [f"{line}." for line in before]
    began = time.process_time()
    recorded, replayed = shown("\n".join(["same", *before]), "\n".join(["same", *after]))
    assert time.process_time() - began < 10
    assert (recorded.splitlines()[0], replayed.splitlines()[0]) == (before[0], after[0])


def test_lines_that_come_often_hide_no_difference() -> None:
    same = ["same"] * 300
    assert shown("\n".join(same), "\n".join(["new", *same])) == ("", "new")
    block = ["{", "}"] * 200
    assert shown("\n".join([*block, "gone", *block]), "\n".join([*block, *block])) == ("gone", "")
