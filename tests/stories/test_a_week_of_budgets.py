"""A week with a dollar a day: three processes share it, the clocks go back an hour, and someone moves the clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from outrider import Agent, Log, Message, Session, Usage
from outrider.events import Event, Notice
from outrider.log.entries import MessageEntry
from outrider.log.usage_tables import day_of, named
from outrider.providers.base import Reply, StopReason
from outrider.runtime.budget import Budget
from outrider.testing import ScriptedModel
from tests.postgres import new_database

DOLLARS, PRICE, PROCESSES = 1.0, 0.3, 3
REPLY = Reply(Message.assistant("Yes."), StopReason.END, Usage(1_000, 10, cost=PRICE))


class Clock:
    """The time of day, which can be set."""

    def __init__(self) -> None:
        self.now = 0.0

    def set(self, day: int, hour: float) -> None:
        """October 2026 in Zurich: the clocks go back on Sunday the 25th."""
        self.now = datetime(2026, 10, day, int(hour), int(hour % 1 * 60)).timestamp()

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    clock = Clock()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", clock.time)
        yield clock
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "log")
    else:
        with new_database(tmp_path_factory) as url:
            yield url


class Team:
    """Processes with a log each; the log is one."""

    def __init__(self, place: str) -> None:
        self.logs = [Log(place) for _ in range(PROCESSES)]
        self.notices: list[str] = []

    async def ask(self, number: int) -> str:
        """One prompt in a session of its own. Return its status."""
        agent = Agent(ScriptedModel(lambda request: REPLY), budget=Budget(day=DOLLARS))
        async with Session.open(self.logs[number], agent=agent, observer=self._observe) as session:
            return (await session.run("Hi.")).status

    async def ask_in_turn(self, count: int) -> list[str]:
        return [await self.ask(number % PROCESSES) for number in range(count)]

    def _observe(self, event: Event) -> None:
        if isinstance(event, Notice) and "budget" in event.text:
            self.notices.append(event.text)


async def test_a_week_with_a_clock_that_is_moved(clock: Clock, place: str) -> None:
    team = Team(place)
    spent = ["done"] * 4 + ["budget"]  # 0.3, 0.6, 0.9, 1.2
    clock.set(21, 9)
    assert await team.ask_in_turn(5) == spent
    assert team.notices == ["The budget is nearly used up: $0.9000 of $1.00 today (budget.day)"]
    clock.set(21, 23.9)
    assert await team.ask_in_turn(3) == ["budget"] * 3
    clock.set(22, 0)
    assert await team.ask_in_turn(2) == ["done"] * 2, "it is renewed at midnight"
    clock.set(21, 12)
    assert await team.ask_in_turn(3) == ["budget"] * 3, "set back, it is Wednesday again"
    clock.set(20, 12)
    assert await team.ask(0) == "done", "a day that had its own budget"
    clock.set(22, 15)
    assert await team.ask_in_turn(3) == ["done", "done", "budget"], "what Thursday had spent is not forgotten"
    clock.now += 365 * 86_400
    assert await team.ask_in_turn(5) == spent, "a year ahead by mistake"
    clock.set(23, 8)
    assert await team.ask_in_turn(5) == spent, "and back: that year does not count today, nor does it block this one"
    clock.set(25, 0)
    assert await team.ask_in_turn(2) == ["done"] * 2
    clock.set(25, 23.5)  # 24 and a half hours later
    assert await team.ask_in_turn(3) == ["done", "done", "budget"], "a Sunday of 25 hours is one day"
    clock.set(26, 0)
    assert await team.ask(1) == "done"

    with Log(place) as log:
        days: Counter[str] = Counter()
        for summary in log.sessions():
            for record in log.records(summary.id):
                if isinstance(record.entry, MessageEntry) and record.entry.usage:
                    days[time.strftime("%Y-%m-%d", time.localtime(record.time))] += 1
        assert max(days.values()) * PRICE < DOLLARS + PRICE
        assert {day: sums.requests for day, sums in named(log.used("quarter").sums).items()} == days
        assert log.spent(*day_of(clock.now)) == PRICE
    for each in team.logs:
        each.close()


async def test_a_process_sees_what_another_wrote_while_the_clock_was_wrong(clock: Clock, place: str) -> None:
    """The clock is right again when the first process looks: the times of the sessions do not say that they are new."""
    team = Team(place)
    clock.set(22, 12)
    assert await team.ask(0) == "done"
    clock.set(22, 7)
    assert [await team.ask(1) for _ in range(3)] == ["done"] * 3
    clock.set(22, 12.5)
    assert await team.ask(0) == "budget"
    for each in team.logs:
        each.close()
