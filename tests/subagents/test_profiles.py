"""Profiles: the tools and limits of a sub-agent, never more than its parent's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import Agent, Limits, Profile, Tool, tool, with_subagents
from outrider.coding.workbench import Workbench
from outrider.subagents.profile import built_in
from outrider.subagents.task import Order
from tests.subagents.teams import Team, bench_in, play, task


def profile(name: str = "Helper", **fields: Any) -> Profile:
    return Profile(name=name, description="Helps.", **fields)


@pytest.mark.parametrize("name", ["", "two words", "a.b", "-a", "_a", "a" * 65, "a\n", "ä", "../a", "Ä b"])
def test_a_name_is_one_that_a_model_can_say(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid profile name"):
        profile(name)


@pytest.mark.parametrize("name", ["a", "Explore", "code-reviewer", "v2_reader", "a" * 64])
def test_usual_names_are_taken(name: str) -> None:
    assert profile(name).name == name


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"description": " "}, ValueError, "needs a description"),
        ({"tools": "Read"}, TypeError, "list of names"),
        ({"tools": 5}, TypeError, "list of names"),
        ({"limits": {"turn": 5}}, ValueError, "known are max_turns, max_total_tokens, max_cost"),
        ({"limits": Limits(max_turns=3)}, TypeError, r"must be a mapping as \{'max_turns': 3\}, not Limits"),
        ({"limits": {"tokens": 5}}, ValueError, "unknown limit 'tokens'; it is called max_total_tokens now"),
        ({"limits": {"max_turns": 0}}, ValueError, "turns"),
        ({"limits": {"max_turns": "many"}}, ValueError, "turns"),
        ({"limits": {"result_characters": None}}, ValueError, "result_characters"),
    ],
)
def test_what_cannot_be_used_is_refused_when_it_is_written(
    fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        Profile(**({"name": "Helper", "description": "Helps."} | fields))


# Tools


def names_in(bench: Workbench, name: str) -> list[str]:
    bench.agent(model="demo")
    chosen = next(each for each in bench.found_profiles.profiles if each.name == name)
    with bench.subagents.start(Order(chosen, "try")) as worker:
        return [each.name for each in worker.agent.tools]


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("Explore", {"Read", "Glob", "Grep", "WebFetch"}),
        ("Plan", {"Read", "Glob", "Grep", "WebFetch"}),
        ("Bash", {"Bash"}),
        ("General", {"Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "Todo"}),
    ],
)
def test_the_profiles_that_are_built_in_have_these_tools_in_a_workbench(
    folder: Path, name: str, tools: set[str]
) -> None:
    assert set(names_in(bench_in(folder), name)) == tools


def test_those_that_only_read_have_only_tools_that_read(folder: Path) -> None:
    bench = bench_in(folder)
    effects = {each.name: each.effect for each in bench.tools}
    for name in ("Explore", "Plan"):
        assert {effects[each] for each in names_in(bench, name)} == {"read"}


def test_profiles_with_all_tools_get_the_users_own_tools(folder: Path) -> None:
    @tool
    def whistle() -> str:
        """Whistle."""
        return "tune"

    bench = bench_in(folder, own=[whistle])
    assert "whistle" in names_in(bench, "General")
    assert "whistle" not in names_in(bench, "Explore")


@pytest.mark.parametrize("name", ["Explore", "General"])
def test_a_sub_agent_has_nothing_that_the_settings_leave_out(folder: Path, name: str) -> None:
    assert names_in(bench_in(folder, tools=["Task", "Read", "Todo"]), name) == (
        ["Read"] if name == "Explore" else ["Read", "Todo"]
    )


def as_tool(name: str) -> Tool:
    @tool(name=name)
    def function() -> str:
        """Do it."""
        return name

    return function


@given(
    st.lists(st.sampled_from(["Read", "Bash", "Task", "own", "Edit"]), unique=True),
    st.none() | st.lists(st.sampled_from(["Read", "Bash", "Task", "own", "WebFetch"])),
)
def test_never_task_and_never_more_than_the_sender_has(has: list[str], wants: list[str] | None) -> None:
    given_tools = profile(tools=wants).tools_of([as_tool(name) for name in has])
    expected = [name for name in has if name != "Task" and (wants is None or name in wants)]
    assert [each.name for each in given_tools] == expected


async def test_in_a_team_a_sub_agent_sees_its_tools_and_its_instructions_alone() -> None:
    reader = profile("Reader", tools=["Read"], prompt="You read.")
    team = Team(
        play([[task("a", "Reader")], "Done."], {"a": ["Fine."]}), [as_tool("Read"), as_tool("Edit")], profiles=[reader]
    )
    await team.run()
    sender, child, _ = team.model.requests
    assert [each.name for each in sender.tools] == ["Read", "Edit", "Task"]
    assert [each.name for each in child.tools] == ["Read"]
    assert child.system == "You read."


def test_a_profile_for_which_there_are_no_tools_is_not_offered() -> None:
    team = with_subagents(Agent(model="demo", tools=[as_tool("Bash")]))
    kinds = team.tools[-1].parameters["properties"]["subagent_type"]["enum"]  # type: ignore[attr-defined]
    assert kinds == ["Bash", "General"]


# Limits

LIMITS = st.none() | st.integers(1, 100)


CAPPED = ("max_turns", "max_total_tokens", "max_repeats")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(CAPPED, LIMITS)), LIMITS, LIMITS)
def test_a_project_s_profile_stays_within_the_sender_s_limits(
    wanted: dict[str, int | None], turns: int | None, tokens: int | None
) -> None:
    senders = Limits(max_turns=turns, max_total_tokens=tokens, max_repeats=None)
    foreign = profile(limits=wanted, may_raise_limits=False).limits_within(senders)
    own = profile(limits=wanted).limits_within(senders)
    for name in CAPPED:
        most, got = getattr(senders, name), getattr(foreign, name)
        assert most is None or (got is not None and got <= most)
        if wanted.get(name) is not None:
            assert got is not None
            assert got <= (wanted[name] or 0), "and within what it asks for"
        if name in wanted:
            assert getattr(own, name) == wanted[name], "the user's own says what it likes"


def test_what_a_profile_does_not_say_is_as_its_sender_has_it() -> None:
    senders = Limits(max_turns=7, max_total_tokens=1000, max_cost=2.0, max_seconds=3.0, result_characters=99)
    assert profile().limits_within(senders) == senders
    assert profile(may_raise_limits=False).limits_within(senders) == senders


def test_those_that_are_built_in_stop_by_themselves() -> None:
    for each in built_in():
        limits = each.limits_within(Limits())
        assert limits.max_turns
        assert limits.max_seconds
