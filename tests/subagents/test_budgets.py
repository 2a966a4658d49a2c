"""The usage of sub-agents counts for the run that started them; each has its own limits as well."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outrider import Log, Profile, Session, tool
from outrider.errors import SessionBusyError
from outrider.runtime.events import Notice, RunFinished
from outrider.runtime.limits import Limits
from outrider.testing import Delay, call
from tests.subagents.teams import HELPER, Team, play, reply, task


@tool(effect="read")
def look(at: int = 0) -> str:
    """Look."""
    return f"seen {at}"


def limited(**limits: float | None) -> Profile:
    return Profile(name="Helper", description="Helps.", limits=limits)


def looking(tokens: int = 10, cost: float | None = None, times: int = 20) -> list[object]:
    """A sub-agent that looks at one thing after the other."""
    return [reply(f"look {at}", call("look", at=at), tokens=tokens, cost=cost) for at in range(times)]


async def test_a_run_counts_what_its_sub_agents_used_and_the_session_keeps_them_apart(tmp_path: Path) -> None:
    children = {
        "a": [reply("A.", tokens=7, cost=0.25)],
        "b": [reply(call("look"), tokens=5, cost=0.5), reply("B.", tokens=1)],
    }
    sender = [reply(task("a"), task("b"), tokens=100, cost=1.0), reply("Done.", tokens=10, cost=2.0)]
    with Log(tmp_path) as log:
        team = Team(play(sender, children), [look], log=log)
        result = await team.run()
        session = team.session
        assert (result.usage.total_tokens, result.usage.cost) == (123, 3.75)
        assert (session.usage.total_tokens, session.usage.cost) == (110, 3.0)
        assert (session.total_usage.total_tokens, session.total_usage.cost) == (123, 3.75)
        assert [each.usage.total_tokens for each in log.children(session.id)] == [7, 6]
        assert log.session(session.id).usage.total_tokens == 110, "each row has its own"
        session.close()
        with Session.open(log, session.id, session.agent) as again:
            assert again.usage == session.usage
            assert again.total_usage == session.total_usage


async def test_the_finished_task_says_what_its_sub_agent_cost() -> None:
    team = Team(play([[task("a")], "Done."], {"a": [reply("A.", cost=0.25)]}))
    await team.run()
    assert team.finished()[0].details["cost"] == 0.25
    assert [event.usage.cost for event in team.inside(RunFinished)] == [0.25]


@pytest.mark.parametrize("limit", ["total_tokens", "cost"])
async def test_sub_agents_stop_when_the_budget_of_the_tree_is_used_up_and_so_does_their_sender(limit: str) -> None:
    """Neither of them has reached it alone."""
    limits = Limits(max_total_tokens=100) if limit == "total_tokens" else Limits(max_cost=1.0)
    sender = [reply(task("a"), task("b"), tokens=20, cost=0.2), "Never said."]
    children = {"a": looking(10, 0.1), "b": looking(10, 0.1)}
    team = Team(play(sender, children), [look], limits=limits)
    result = await team.run()
    status = f"max_{limit}"
    assert result.status == status
    assert [event.status for event in team.inside(RunFinished)] == [status, status]
    assert all(each.is_error and "used up" in each.text for each in team.results)
    assert 100 <= result.usage.total_tokens <= 110, "each of them may be one reply beyond it"
    assert result.text != "Never said."
    team.check()


async def test_a_sub_agent_is_not_even_asked_when_nothing_is_left() -> None:
    sender = [reply(task("a"), tokens=100), "Never said."]
    team = Team(play(sender, {"a": [reply("A.", tokens=1)]}), limits=Limits(max_total_tokens=100))
    result = await team.run()
    assert result.status == "max_total_tokens"
    assert len(team.model.requests) == 1
    assert "the tokens were used up" in team.results[0].text


@pytest.mark.parametrize(
    ("limits", "status", "turns"),
    [
        ({"max_turns": 2}, "max_turns", 2),
        ({"max_total_tokens": 25}, "max_total_tokens", 3),
        ({"max_cost": 0.25}, "max_cost", 3),
    ],
)
async def test_a_sub_agent_has_limits_of_its_own_and_its_sender_goes_on(
    limits: dict[str, float], status: str, turns: int
) -> None:
    team = Team(play([[task("a")], "I go on."], {"a": looking(10, 0.1)}), [look], profiles=[limited(**limits)])
    result = await team.run()
    assert (result.status, result.text) == ("done", "I go on.")
    (finished,) = team.inside(RunFinished)
    assert (finished.status, finished.turns) == (status, turns)
    assert team.results[0].is_error
    assert team.results[0].text.startswith("The sub-agent did not finish: ")
    assert team.results[0].text.endswith(f"Its last message was:\nlook {turns - 1}")


async def test_a_sub_agent_that_takes_too_long_is_stopped_and_its_sender_goes_on() -> None:
    children = {"slow": [[call("look")], Delay(60, "Never.")]}
    team = Team(play([[task("slow")], "I go on."], children), [look], profiles=[limited(max_seconds=0.05)])
    result = await team.run()
    assert (result.status, result.text) == ("done", "I go on.")
    assert "its time was used up" in team.results[0].text
    assert [event.status for event in team.inside(RunFinished)] == ["max_seconds"]


async def test_a_sub_agent_on_its_last_turn_is_told_so() -> None:
    team = Team(play([[task("a")], "Done."], {"a": ["Fine."]}), profiles=[limited(max_turns=1)])
    await team.run()
    assert "FINAL turn" in team.model.requests[1].reminder
    assert team.results[0].text == "Fine."


async def test_the_sender_s_turns_are_not_those_of_its_sub_agents() -> None:
    children = {"a": [*looking(times=6), "Fine."]}
    team = Team(
        play([[task("a")], "Done."], children), [look], limits=Limits(max_turns=2), profiles=[limited(max_turns=20)]
    )
    result = await team.run()
    assert (result.status, result.turns) == ("done", 2)
    assert team.results[0].text == "Fine."


async def test_a_cost_limit_that_cannot_be_kept_is_said_in_the_sub_agent_too() -> None:
    team = Team(play([[task("a")], "Done."], {"a": ["Fine."]}), limits=Limits(max_cost=1.0))
    await team.run()
    assert "the cost limit cannot be kept" in team.inside(Notice)[0].text


async def test_a_second_run_has_a_budget_of_its_own() -> None:
    sender = [reply(task("a"), tokens=50), "Done.", reply(task("b"), tokens=50), "Done again."]
    children = {"a": [reply("A.", tokens=40)], "b": [reply("B.", tokens=40)]}
    team = Team(play(sender, children), limits=Limits(max_total_tokens=100))
    assert (await team.run()).status == "done"
    second = await team.run("again")
    assert (second.status, second.usage.total_tokens) == ("done", 90)
    assert team.session.total_usage.total_tokens == 180


async def test_calls_that_are_carried_out_by_hand_have_no_old_budget() -> None:
    sender = [reply("Used up.", tokens=100), reply(task("a"), tokens=10)]
    team = Team(play(sender, {"a": [reply("A.", tokens=40)]}), limits=Limits(max_total_tokens=100))
    await team.run()
    await team.session.think("by hand")
    await team.session.act()
    assert team.results[0].text == "A."


async def test_a_run_that_cannot_begin_does_not_take_the_budget_away_from_the_one_that_goes_on() -> None:
    started, goes_on = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        started.set()
        await goes_on.wait()
        return "waited"

    sender = [reply(call("wait"), tokens=60), reply(task("a"), tokens=10), "Never said."]
    team = Team(play(sender, {"a": looking(10)}), [wait, look], limits=Limits(max_total_tokens=100))
    running = asyncio.ensure_future(team.run())
    await started.wait()
    with pytest.raises(SessionBusyError):
        await team.run("at the same time")
    goes_on.set()
    result = await running
    assert (result.status, result.usage.total_tokens) == ("max_total_tokens", 100)


async def test_a_sub_agent_that_repeats_itself_is_stopped_and_its_sender_told_so() -> None:
    children = {"a": [[call("look")]] * 20}
    team = Team(play([[task("a")], "I go on."], children), [look], profiles=[limited(max_repeats=4)])
    result = await team.run()
    assert result.status == "done"
    assert "it repeated the same calls again and again" in team.results[0].text
    assert [event.turns for event in team.inside(RunFinished)] == [5]


async def test_sending_the_same_errand_again_and_again_is_a_repetition_too() -> None:
    team = Team(play([[task("a")]] * 20, {"a": ["The same."]}), limits=Limits(max_repeats=3), profiles=[HELPER])
    result = await team.run()
    assert (result.status, result.turns) == ("max_repeats", 4)
