"""Figures for the plots agree with the log."""

from __future__ import annotations

import csv
import io

import pytest

from outrider.conversation.messages import Usage
from outrider.sync import default_log
from outrider.web.figures import Figures, as_csv, context_by_turn
from tests.web.logs import session


async def test_the_sums_agree_with_the_log() -> None:
    with default_log() as log:
        for number in range(3):
            await session(log, f"Question {number}", ["Answer."], usage=Usage(100 + number, 10, 50, cost=0.1 + number))
        figures = Figures(log)
        (day,) = figures.by("day")
        summaries = log.sessions()
        assert day["cost"] == pytest.approx(sum(each.usage.cost or 0 for each in summaries))
        assert day["input_tokens"] == sum(each.usage.input_tokens for each in summaries) == 303
        assert day["first_token"] is not None
        await session(log, "One more", ["Answer."], usage=Usage(1, 1, cost=1.0))
        assert figures.by("day")[0]["requests"] == 4  # only what changed is read again, and nothing counts twice
        assert [each["name"] for each in figures.by("model", days=1)] == ["scripted"]
        (folder,) = figures.by("folder")
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
