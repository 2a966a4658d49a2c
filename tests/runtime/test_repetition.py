"""A run that repeats itself gets a warning and is then stopped; polling is allowed while results change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import Limits, Message, TextBlock, ToolResultBlock, ToolUseBlock, tool
from outrider.log.run_state import RunState
from outrider.prompts import prompt
from outrider.testing import call, malformed_call
from tests.watching import Watched

TOLD = prompt("repeating").split("{")[0]


@tool(effect="read")
def look(at: str = "it", deep: bool = False) -> str:
    """Look."""
    return f"seen {at}"


def told(watched: Watched) -> list[bool]:
    """With which requests the model was told that it repeats itself."""
    return [request.reminder.startswith(TOLD) for request in watched.model.requests]


async def test_the_same_call_again_and_again_is_told_and_then_stopped() -> None:
    watched = Watched([[call("look")]] * 20, [look], Limits(max_repeats=6))
    result = await watched.session.run("go")
    assert (result.status, result.turns) == ("max_repeats", 7)
    assert told(watched) == [False] * 4 + [True] * 3
    assert "in your last 3 turns" in watched.model.requests[4].reminder
    assert "in your last 5 turns" in watched.model.requests[6].reminder
    watched.check()


async def test_a_model_that_listens_goes_on() -> None:
    steps = [*[[call("look")]] * 5, [call("look", at="elsewhere")], *[[call("look")]] * 4, "Done."]
    watched = Watched(steps, [look], Limits(max_repeats=6))
    result = await watched.session.run("go")
    assert result.status == "done"
    assert told(watched) == [False] * 4 + [True] * 2 + [False] * 3 + [True] * 2


async def test_going_round_in_a_circle_is_a_repetition() -> None:
    circle = [[call("look", at="a")], [call("look", at="b")], [call("look", at="c")]]
    watched = Watched(circle * 10, [look], Limits(max_repeats=5))
    result = await watched.session.run("go")
    assert (result.status, result.turns) == ("max_repeats", 8)


async def test_the_same_call_with_another_result_is_none() -> None:
    count = 0

    @tool(effect="read")
    def poll() -> str:
        """Look whether it is ready."""
        nonlocal count
        count += 1
        return f"{count} of 30"

    watched = Watched([*[[call("poll")]] * 30, "Ready."], [poll], Limits(max_repeats=3))
    assert (await watched.session.run("go")).status == "done"
    assert not any(told(watched))


async def test_a_turn_with_one_new_call_among_old_ones_is_none() -> None:
    steps = [[call("look"), call("look", at=str(number))] for number in range(10)]
    watched = Watched([*steps, "Done."], [look], Limits(max_repeats=3))
    assert (await watched.session.run("go")).status == "done"


@pytest.mark.parametrize("step", [[call("nothing")], [malformed_call("look", "{")], [call("look", at=5)]])
async def test_a_mistake_that_is_made_again_and_again_is_a_repetition(step: Any) -> None:
    watched = Watched([step] * 10, [look], Limits(max_repeats=4))
    assert (await watched.session.run("go")).status == "max_repeats"
    watched.check()


async def test_without_the_limit_nothing_is_told_and_nothing_stopped() -> None:
    watched = Watched([*[[call("look")]] * 30, "Done."], [look], Limits(max_repeats=None))
    assert (await watched.session.run("go")).status == "done"
    assert not any(told(watched)), "it would say that it will be stopped"


@pytest.mark.parametrize("repeats", [1, 2, 3])
async def test_a_small_limit_is_told_before_it_stops_as_far_as_that_can_be(repeats: int) -> None:
    watched = Watched([[call("look")]] * 10, [look], Limits(max_repeats=repeats))
    result = await watched.session.run("go")
    assert (result.status, result.turns) == ("max_repeats", repeats + 1)
    assert sum(told(watched)) == (0 if repeats == 1 else 1)


async def test_the_last_turn_is_said_before_a_repetition() -> None:
    watched = Watched([[call("look")]] * 5, [look], Limits(max_turns=5))
    assert (await watched.session.run("go")).status == "max_turns"
    assert "FINAL turn" in watched.model.requests[-1].reminder


async def test_another_run_begins_anew() -> None:
    watched = Watched([[call("look")]] * 20, [look], Limits(max_repeats=4))
    for _ in range(2):
        assert (await watched.session.run("go")).turns == 5


# Against a naive model

CALLS = st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.sampled_from(["x", "y"]))


@given(st.lists(st.lists(CALLS, max_size=3), max_size=25))
def test_the_streak_is_the_number_of_turns_without_anything_new(turns: list[list[tuple[str, int, str]]]) -> None:
    run = RunState()
    seen: list[tuple[str, int, str]] = []
    streak = 0
    for turn in turns:
        calls = [ToolUseBlock(f"c{at}", name, {"n": number}) for at, (name, number, _) in enumerate(turn)]
        results = [ToolResultBlock(f"c{at}", (TextBlock(text),)) for at, (_, _, text) in enumerate(turn)]
        run.count_results(Message.assistant(*calls).tool_calls, Message.user(*results).tool_results)
        streak = streak + 1 if turn and all(each in seen for each in turn) else 0
        seen += turn
        assert run.repeats == streak
