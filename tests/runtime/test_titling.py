"""Titles that a model makes from the first exchange: in the background, counted, and never over a person's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.chat.own_command import as_message
from outrider.coding.config.settings import SessionsSettings, Settings
from outrider.coding.workbench import Workbench
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError
from outrider.log.entries import TitleEntry
from outrider.log.log import Log
from outrider.providers.resolution import resolve
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, RunFinished, TitleMade
from outrider.runtime.journal import LogJournal
from outrider.runtime.session import Session
from outrider.runtime.titling import Titler, as_title
from outrider.testing import Delay, ScriptedModel, call
from tests.coding.toolbox.shelling import until

USAGE = Usage(input_tokens=100, output_tokens=5, cost=0.25)


class Titled:
    """A session in a log whose titles a scripted model makes."""

    def __init__(self, log: Log, replies: Sequence[Any], titles: Sequence[Any] | None, id: str | None = None) -> None:
        self.log = log
        self.events: list[Event] = []
        self.titles = None if titles is None else ScriptedModel(titles, usage=USAGE)
        self.session = Session.open(log, id, Agent(ScriptedModel(replies)), observer=self.events.append).now()
        self.titler = Titler(self.session, lambda provider: self.titles)
        self.session.observe(self.titler)

    @property
    def title(self) -> str:
        return self.log.session(self.session.id).title

    async def settled(self) -> None:
        if self.titler._task:
            await asyncio.wait([self.titler._task])


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "sessions")


async def test_the_first_exchange_becomes_a_title_and_its_cost_is_counted(log: Log) -> None:
    titled = Titled(log, ["It was the clock.", "Yes."], ['"Flaky login test."', "Another title"])
    await titled.session.run("Why does test_login fail at night?\nIt is red since Monday.")
    await titled.settled()
    assert titled.title == "Flaky login test"
    assert TitleMade("Flaky login test") in titled.events
    assert titled.session.usage == USAGE
    assert log.session(titled.session.id).usage == USAGE
    assert titled.titles is not None
    [request] = titled.titles.requests
    assert request.tools == ()
    assert "test_login" in request.messages[0].text
    assert "It was the clock." in request.messages[0].text
    await titled.session.run("Sure?")
    await titled.settled()
    assert len(titled.titles.requests) == 1
    titled.session.close()
    assert Titled(log, [], [], titled.session.id).session.usage == USAGE


async def test_a_slow_title_delays_neither_the_run_nor_the_next_one_nor_the_end(log: Log) -> None:
    titled = Titled(log, ["One.", "Two."], [Delay(600, "Late")])
    assert (await titled.session.run("First")).text == "One."
    assert (await titled.session.run("Second")).text == "Two."
    assert titled.title == "First"
    titled.titler.close()
    await titled.settled()
    titled.session.close()
    assert titled.title == "First"


async def test_without_a_model_or_with_a_failing_one_the_title_is_the_prompt(log: Log) -> None:
    for titles in (None, [ProviderError("overloaded")], [""], ["word " * 50]):
        titled = Titled(log, ["Done."], titles)
        assert (await titled.session.run("Count the files")).status == "done"
        await titled.settled()
        assert titled.title == "Count the files"
        assert not any(isinstance(event, TitleMade) for event in titled.events)


async def test_an_answer_that_is_no_title_still_costs(log: Log) -> None:
    titled = Titled(log, ["Done."], [""])
    await titled.session.run("Count the files")
    await titled.settled()
    assert log.session(titled.session.id).usage == USAGE


async def test_a_title_that_a_person_set_is_never_replaced(log: Log) -> None:
    before = Titled(log, ["Done."], ["Made"])
    before.session.rename("Mine")
    await before.session.run("Hello")
    await before.settled()
    assert before.title == "Mine"

    during = Titled(log, ["Done."], [Delay(0.05, "Made")])
    await during.session.run("Hello")
    during.session.rename("Mine")
    await during.settled()
    assert during.title == "Mine"
    assert TitleMade("Made") not in during.events

    after = Titled(log, ["Done."], ["Made"])
    await after.session.run("Hello")
    await after.settled()
    assert after.title == "Made"
    after.session.rename("Mine")
    assert after.title == "Mine"
    after.session.close()
    assert log.session(log.fork(after.session.id)).title == "Mine"


async def test_the_title_waits_for_an_answer_in_words(log: Log) -> None:
    titled = Titled(log, [ProviderError("no such key"), "Now it works."], ["Greeting"])
    await titled.session.run("Hello")
    await titled.settled()
    assert titled.title == "Hello"
    await titled.session.run("Again")
    await titled.settled()
    assert titled.title == "Greeting"


async def test_an_older_session_keeps_its_title(log: Log) -> None:
    first = Titled(log, ["Done."], None)
    await first.session.run("Hello")
    first.session.close()
    again = Titled(log, ["Done."], ["Made"], first.session.id)
    await again.session.run("More")
    await again.settled()
    assert again.title == "Hello"


async def test_the_settings_of_a_write_that_waits_are_kept(log: Log) -> None:
    """A title and a compaction may be on their way to the disk at the same moment."""
    titled = Titled(log, ["Done."], None)
    kept = titled.session._record.journal
    assert isinstance(kept, LogJournal)
    journal = kept._held
    first = journal.write(TitleEntry("Made"))
    second = journal.write(TitleEntry("Made again"), *[])
    titled.session.rename("Mine")
    await first.finished()
    await second.finished()
    assert (journal.settings.made_title, journal.settings.title) == ("Made again", "Mine")
    titled.session.close()
    assert log.settings(titled.session.id).made_title == "Made again"


def test_a_title_is_one_short_printable_line() -> None:
    assert as_title("\n\n# Fix the “login” test.\nmore") == "Fix the “login” test"
    assert as_title("Title: a\x1b[31mb\u202ec\td") == "a[31mbc d"
    assert as_title("x" * 81) == ""
    assert as_title("日本語のタイトル") == "日本語のタイトル"


# Which model makes it


def test_the_fast_model_of_the_same_vendor_makes_the_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    bench = Workbench(Settings(), tmp_path)
    found = bench.models.for_title(resolve("anthropic/powerful"))
    assert found is not None
    assert found.name == resolve("anthropic/fast").name
    assert bench.models.for_title(resolve("demo")) is None
    assert bench.models.for_title(ScriptedModel([])) is None


@pytest.mark.parametrize(("wanted", "on"), [(True, True), (False, True), (True, False)])
async def test_titles_are_made_where_they_are_wanted(tmp_path: Path, wanted: bool, on: bool) -> None:
    bench = Workbench(Settings(model="demo", sessions=SessionsSettings(titles=on)), tmp_path)
    titles = ScriptedModel(["Sums"])
    bench.models.for_title = lambda provider: titles  # type: ignore[method-assign, assignment]
    log = Log(tmp_path / "sessions")
    session = bench.open(log, titled=wanted)
    assert (await session.run("What is 2+2?")).text == "4"
    if wanted and on:
        await until(lambda: log.session(session.id).title == "Sums")
    else:
        await asyncio.sleep(0)
        assert titles.requests == []
    bench.close()
    session.close()


@pytest.mark.parametrize("titles", [None, ["Red test"]])
async def test_the_output_of_the_users_own_command_is_no_title(log: Log, titles: list[str] | None) -> None:
    titled = Titled(log, ["The clock."], titles)
    await titled.session.run(["Why?", as_message("pytest -q", 1, "1 failed")])
    await titled.settled()
    assert titled.title == ("Red test" if titles else "Why?")
    if titled.titles:
        [request] = titled.titles.requests
        assert "Why?" in request.messages[0].text
        assert "pytest" not in request.messages[0].text


async def test_a_turn_with_calls_has_one_title(log: Log) -> None:
    titled = Titled(log, [["I look.", call("nothing")], "Found."], ["Search"])
    await titled.session.run("Find it")
    await titled.settled()
    assert titled.title == "Search"
    assert sum(isinstance(event, RunFinished) for event in titled.events) == 1
