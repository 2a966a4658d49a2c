"""Figures for the plots agree with the log."""

from __future__ import annotations

import csv
import io

import pytest

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log.entries import MessageEntry
from outrider.sync import default_log
from outrider.web.figures import Figures, as_csv, context_by_turn, turn_rows
from tests.web.logs import session


async def test_the_sums_agree_with_the_log() -> None:
    with default_log() as log:
        for number in range(3):
            await session(log, f"Question {number}", ["Answer."], usage=Usage(100 + number, 10, 50, cost=0.1 + number))
        figures = Figures(log)
        (day,) = figures.by("day")["rows"]
        summaries = log.sessions()
        assert day["cost"] == pytest.approx(sum(each.usage.cost or 0 for each in summaries))
        assert day["input_tokens"] == sum(each.usage.input_tokens for each in summaries) == 303
        assert day["first_token"] is not None
        await session(log, "One more", ["Answer."], usage=Usage(1, 1, cost=1.0))
        assert (
            figures.by("day")["rows"][0]["requests"] == 4
        )  # only what changed is read again, and nothing counts twice
        assert [each["name"] for each in figures.by("model", days=1)["rows"]] == ["scripted"]
        (folder,) = figures.by("folder")["rows"]
        assert folder["name"] == "/"


async def test_the_context_grows_by_turn() -> None:
    with default_log() as log:
        name = await session(log, "Hello", ["Hello."], usage=Usage(100, 20, cost=0.5))
        found = context_by_turn(log, name)
        assert [(each["turn"], each["tokens"], each["cost"]) for each in found["turns"]] == [(1, 120, 0.5)]


def test_csv_holds_no_formulas() -> None:
    text = as_csv([{"name": '=HYPERLINK("http://evil")', "cost": 1.5}, {"name": 'a "b", c', "cost": -2.0}])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == ['\'=HYPERLINK("http://evil")', 'a "b", c']
    assert [float(row["cost"]) for row in rows] == [1.5, -2.0]


async def test_figures_that_are_not_complete_say_so_and_the_next_request_goes_on() -> None:
    with default_log() as log:
        for number in range(3):
            await session(log, f"Question {number}", ["Answer."], usage=Usage(100, 10, cost=0.5))
        figures = Figures(log)
        assert figures.by("day", seconds=0) == {"rows": [], "complete": False}
        figures.prepare()
        found = figures.by("day", seconds=0.0)
        assert [row["requests"] for row in found["rows"]] == [3]


async def test_a_long_session_has_an_outline_and_its_newest_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.web.figures.MOST_POINTS", 4)
    with default_log() as log:
        journal = log.create()
        tokens = [10, 20, 90, 30, 40, 5, 60, 70, 80, 15]
        for each in tokens:
            journal.write_now(MessageEntry(Message.assistant("Yes."), usage=Usage(each)))
        journal.close()
        found = context_by_turn(log, journal.id)
        assert found["count"] == 10
        assert found["points"] == [[1, 10], [3, 90], [6, 5], [9, 80]]
        assert [(each["turn"], each["tokens"]) for each in found["turns"]] == [(7, 60), (8, 70), (9, 80), (10, 15)]
        assert len(as_csv(turn_rows(log.turns(journal.id))).splitlines()) == 11
