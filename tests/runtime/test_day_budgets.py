"""The budget of a day: over all sessions of a log, checked before each request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import Agent, Limits, Log, Message, Session, Usage, tool
from outrider.errors import BudgetError, ConversationError
from outrider.events import Event, Notice
from outrider.log.usage_tables import day_of
from outrider.providers.base import Reply, Request, StopReason
from outrider.runtime.budget import Budget
from outrider.runtime.compaction import Compaction
from outrider.subagents.delegation import with_subagents
from outrider.subagents.profile import Profile
from outrider.testing import ScriptedModel, call
from tests.lengths import examples


def costing(dollars: float, step: Callable[[Request], object] = lambda request: "Yes.") -> ScriptedModel:
    """A model whose every reply costs this much."""

    def reply(request: Request) -> Reply:
        found = step(request)
        message = Message.assistant(*(found if isinstance(found, list) else [found]))
        reason = StopReason.TOOL_USE if message.tool_calls else StopReason.END
        return Reply(message, reason, Usage(100, 10, cost=dollars))

    return ScriptedModel(reply)


def agent(dollars: float = 0.3, **budget: float) -> Agent:
    return Agent(costing(dollars), budget=Budget(**budget))


async def test_it_counts_over_sessions_warns_and_stops(tmp_path: Path) -> None:
    seen: list[Event] = []
    with Log(tmp_path / "log") as log:
        for _ in range(2):
            async with Session.open(log, agent=agent(day=1.0)) as session:
                assert (await session.run("Hi.")).status == "done"
        async with Session.open(log, agent=agent(day=1.0), observer=seen.append) as session:
            statuses = [(await session.run("Hi.")).status for _ in range(3)]
            assert statuses == ["done", "done", "budget"], "0.6, then 0.9, then 1.2"
            result = await session.run("Again.")
            assert "today's budget is used up: $1.20 of $1.00 today (budget.day)" in result.error
            assert "outrider config set budget.day 2" in result.error
            with pytest.raises(BudgetError, match="used up"):
                await session.think("And so?")
            assert result.usage == Usage()
            session.agent = agent(day=2.0)
            assert (await session.run()).status == "done"
    notices = [event.text for event in seen if isinstance(event, Notice)]
    assert notices == ["The budget is nearly used up: $0.9000 of $1.00 today (budget.day)"]


async def test_folders_and_owners_have_budgets_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with Log(tmp_path / "log") as log:

        async def status(folder: str, owner: str, **budget: float) -> str:
            opening = Session.open(log, agent=agent(1.0, **budget), cwd=tmp_path / folder, owner=owner or None)
            async with opening as session:
                return (await session.run("Hi.")).status

        assert await status("a", "ada") == "done"
        assert await status("a", "", folder_day=1.0) == "budget"
        assert await status("b", "", folder_day=1.0) == "done"
        assert await status("b", "ada", owner_day=1.0) == "budget"
        assert await status("b", "bob", owner_day=1.0) == "done"
        assert await status("b", "", owner_day=1.0) == "done", "it has no owner"


async def test_sub_agents_share_it_and_count(tmp_path: Path) -> None:
    asked: list[str] = []

    def step(request: Request) -> object:
        asked.append(request.messages[0].text)
        if asked[-1] == "Look.":
            return "Seen."
        return [call("Task", description="look", prompt="Look.", subagent_type="Reader")]

    reader = Profile(name="Reader", description="Reads.")
    with Log(tmp_path / "log") as log:
        outer = with_subagents(Agent(costing(0.3, step), budget=Budget(owner_day=1.0)), [reader])
        async with Session.open(log, agent=outer, owner="ada") as session:
            result = await session.run("Go.")
        assert result.status == "budget"
        assert asked == ["Go.", "Look.", "Go.", "Look."]
        assert log.spent(0, 1e12, owner="ada") == pytest.approx(1.2)


@pytest.mark.parametrize("behind", [False, True])
async def test_parallel_sub_agents_exceed_it_by_one_request_each(tmp_path: Path, behind: bool) -> None:
    late: list[str] = []
    """Who sent a request when the budget was used up already."""
    names = [f"Part {number}" for number in range(6)]

    @tool(effect="read")
    async def look() -> str:
        """Let the others go on."""
        await asyncio.sleep(0)
        return "seen"

    def step(request: Request) -> object:
        if log.spent(0, 1e12) >= 1.0:
            late.append(request.messages[0].text)
        if request.messages[0].text in names:
            return [call("look")]
        given = {"description": "look", "subagent_type": "Reader", "run_in_background": behind}
        return [call("Task", prompt=name, **given) for name in names] if len(request.messages) == 1 else "Meanwhile."

    reader = Profile(name="Reader", description="Reads.")
    with Log(tmp_path / "log") as log:
        outer = with_subagents(Agent(costing(0.1, step), budget=Budget(day=1.0), tools=[look]), [reader])
        async with Session.open(log, agent=outer) as session:
            assert (await session.run("Go.")).status == "budget"
            await session.background.wait([each.session for each in session.background])
            assert {each.status for each in session.background} == ({"budget"} if behind else set())
        assert 1.0 <= log.spent(0, 1e12) <= 1.0 + 0.1 * len(names) + 1e-9
        assert len(late) == len(set(late))


async def test_a_summary_is_refused_as_well(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        spending = Agent(costing(0.6), budget=Budget(day=1.0), compaction=Compaction())
        async with Session.open(log, agent=spending) as session:
            for _ in range(2):
                await session.run("word " * 2_000)
            with pytest.raises(BudgetError):
                await session.compact()


async def test_a_fork_does_not_count_twice(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        async with Session.open(log, agent=agent(0.6)) as session:
            await session.run("Hi.")
        copy = log.fork(session.id)
        assert log.spent(0, 1e12) == pytest.approx(0.6)
        async with Session.open(log, copy, agent(0.2)) as forked:
            await forked.run("More.")
        assert log.spent(0, 1e12) == pytest.approx(0.8)
        assert len(log.turns(copy)) == 2, "the context of the copy is still told for each turn"


async def test_a_budget_without_a_log_is_refused() -> None:
    with pytest.raises(ConversationError, match="kept in a log"):
        await Agent("demo", budget=Budget(day=1.0)).run("Hi.")
    with pytest.raises(ValueError, match="the budget day is 0"):
        Budget(day=0)
    with pytest.raises(TypeError, match="budget must be Budget"):
        Agent("demo", budget=5.0)  # type: ignore[arg-type]


async def test_a_model_without_a_price_is_named(tmp_path: Path) -> None:
    seen: list[Event] = []
    with Log(tmp_path / "log") as log:
        free = Agent(ScriptedModel(["Yes."]), budget=Budget(day=1.0), limits=Limits())
        async with Session.open(log, agent=free, observer=seen.append) as session:
            await session.run("Hi.")
    assert [event.text for event in seen if isinstance(event, Notice)] == [
        "the price of scripted is not known: the cost limit cannot be kept"
    ]


parts = st.fixed_dictionaries({}, optional=dict.fromkeys(Budget.__struct_fields__, st.floats(0.01, 100)))


@settings(max_examples=examples(100))
@given(parts, parts)
def test_the_lower_budget_holds(mine: dict[str, float], others: dict[str, float]) -> None:
    found = Budget(**mine).within(Budget(**others)).parts
    assert found == Budget(**others).within(Budget(**mine)).parts
    for name in Budget.__struct_fields__:
        assert found.get(name) == min((each[name] for each in (mine, others) if name in each), default=None)


@settings(max_examples=examples(100))
@given(st.floats(-1e9, 4e9))
def test_a_moment_is_in_its_day_and_days_meet(moment: float) -> None:
    day = day_of(moment)
    assert day.start <= moment < day.end
    assert day.end - day.start in (23 * 3600, 24 * 3600, 25 * 3600)
    assert day_of(day.end).start == day.end
    assert day_of(day.start - 1).end == day.start
    assert day.start % 900 == 0 or moment < 0, "a quarter of an hour is within one day"


@pytest.mark.parametrize("moment", [float("inf"), float("nan"), 1e300])
def test_a_time_that_no_calendar_has_is_no_day(moment: float) -> None:
    assert day_of(moment) == (0.0, 0.0)
