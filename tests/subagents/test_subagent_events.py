"""Events of sub-agents: inside the call that started them, in order, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from outrider import Agent, Log, ToolContext, spawn, tool
from outrider.errors import ProviderError
from outrider.runtime.events import (
    Event,
    MessageAdded,
    Notice,
    ReplyDiscarded,
    RunFinished,
    SubagentEvent,
    SubagentStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)
from outrider.runtime.limits import Limits
from outrider.testing import Cut, ScriptedModel, call
from tests.subagents.teams import Team, play, task


@pytest.fixture(params=["in memory", "in a log"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log | None]:
    if request.param == "in memory":
        yield None
    else:
        with Log(tmp_path / "log") as log:
            yield log


@tool(effect="read")
async def look(context: ToolContext, at: str = "it") -> str:
    """Look."""
    context.progress({"half": at})
    return f"seen {at}"


def check_order(events: list[Event]) -> None:
    """Check the promised order of events for each Task call."""
    running: set[str] = set()
    known: dict[str, str] = {}
    over: set[str] = set()
    for event in events:
        match event:
            case ToolStarted():
                running.add(event.call_id)
            case ToolFinished():
                running.discard(event.call_id)
            case SubagentStarted():
                assert event.call_id in running, "the call that sends it out has started"
                assert event.session not in known
                known[event.session] = event.call_id
            case SubagentEvent():
                assert known.get(event.session) == event.call_id, "it was announced"
                assert event.call_id in running, "the call has not finished"
                assert event.session not in over, "nothing comes after its end"
                if isinstance(event.event, RunFinished):
                    over.add(event.session)
    assert over == set(known)
    assert isinstance(events[-1], RunFinished)


async def test_each_event_of_a_sub_agent_says_whose_it_is_and_comes_in_its_place(log: Log | None) -> None:
    children = {
        name: [["I look.", call("look", at=name)], ["And again.", call("look", at=name * 2)], f"{name} is there."]
        for name in "abc"
    }
    team = Team(play([[task(name) for name in "abc"], "Done."], children), [look], log=log)
    await team.run()
    check_order(team.events)
    started = {event.session: event for event in team.events if isinstance(event, SubagentStarted)}
    assert sorted((each.name, each.title) for each in started.values()) == [("Helper", f"do {name}") for name in "abc"]
    for session, start in started.items():
        mine = [event.event for event in team.nested if event.session == session]
        kinds = [type(event) for event in mine if not isinstance(event, TextDelta)]
        turn = [TurnStarted, MessageAdded, ToolStarted, ToolProgress, ToolFinished, MessageAdded]
        without_deltas = [kind for kind in kinds if kind.__name__ != "ToolCallDelta"]
        assert without_deltas == [MessageAdded, *turn, *turn, TurnStarted, MessageAdded, RunFinished]
        assert start.title[-1] in str(mine[-1])
        others = {"a", "b", "c"} - {start.title[-1]}
        assert not any(f"seen {other}" in str(mine) for other in others)
    if log:
        assert {each.id for each in log.children(team.session.id)} == set(started)


async def test_a_sub_agent_is_announced_below_the_call_that_sent_it_out() -> None:
    team = Team(play([[task("a"), task("b")], "Done."], {"a": ["A."], "b": ["B."]}))
    await team.run()
    calls = team.session.messages[1].tool_calls
    announced = {event.call_id: event.title for event in team.events if isinstance(event, SubagentStarted)}
    assert announced == {calls[0].id: "do a", calls[1].id: "do b"}
    assert {event.session for event in team.nested} == {each.details["session"] for each in team.finished()}


async def test_every_event_comes_back_from_json(log: Log | None) -> None:
    children = {"a": [["I look.", call("look"), call("nothing")], Cut("It is", ProviderError("the line is dead"))]}
    team = Team(play([[task("a")], "Done."], children), [look], log=log, limits=Limits(max_cost=1.0))
    await team.run()
    seen = {type(event.event) for event in team.nested}
    assert seen >= {Notice, ReplyDiscarded, ToolProgress, ToolFinished, RunFinished, TextDelta}
    for event in team.events:
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
    check_order(team.events)


async def test_a_stream_shows_what_observers_see() -> None:
    team = Team(play([[task("a")], "Done."], {"a": [[call("look")], "A."]}), [look])
    streamed = [event async for event in team.session.stream("go")]
    assert streamed == team.events
    assert any(isinstance(event, SubagentEvent) and isinstance(event.event, ToolFinished) for event in streamed)


async def test_leaving_a_stream_early_ends_the_sub_agents() -> None:
    children = {name: [[call("look")]] * 1000 for name in "ab"}
    team = Team(play([[task("a"), task("b")], "Never."], children), [look])
    stream = team.session.stream("go")
    async for event in stream:
        if isinstance(event, SubagentEvent) and isinstance(event.event, ToolFinished):
            break
    await stream.aclose()
    check_order(team.events)
    assert [event.status for event in team.inside(RunFinished)] == ["cancelled", "cancelled"]
    team.check()


async def test_an_observer_that_fails_on_sub_agents_harms_nobody() -> None:
    team = Team(play([[task("a")], "Done."], {"a": ["A."]}))
    seen: list[Event] = []

    def broken(event: Event) -> None:
        if isinstance(event, SubagentEvent | SubagentStarted):
            raise RuntimeError("broken")

    team.session.observe(broken)
    team.session.observe(seen.append)
    assert (await team.run()).status == "done"
    assert seen == team.events


async def test_a_tool_of_one_s_own_sends_out_several_below_one_call(log: Log | None) -> None:
    @tool(effect="idempotent")
    async def survey(context: ToolContext) -> list[str]:
        """Ask three."""
        said = []
        for name in "abc":
            with await spawn(context, Agent(model=ScriptedModel([f"{name}."]), name=name), title=name) as child:
                said.append((await child.run("go")).text)
        return said

    team = Team(play([[call("survey")], "Done."]), [survey], log=log)
    await team.run()
    check_order(team.events)
    assert team.results[0].text == '["a.","b.","c."]'
    assert [event.name for event in team.events if isinstance(event, SubagentStarted)] == ["a", "b", "c"]
    assert len({event.session for event in team.nested}) == 3
