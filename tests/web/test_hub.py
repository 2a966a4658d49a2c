"""Every client hears of every change, whatever other pages come and go at the same moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from outrider.log.log import Log
from outrider.log.questions import Option, PermissionQuestion
from outrider.sync import default_log
from outrider.web.api_requests import EventsQuery
from outrider.web.feed import Feed, Place
from outrider.web.http import EventStream
from outrider.web.hub import Hub
from outrider.web.live_sessions import LiveSessions
from outrider.web.opener import CodingOpener
from outrider.web.owners import Owners, ServerLimits
from tests.log import asked
from tests.web.logs import again, session


def hub_of(log: Log) -> Hub:
    sessions = LiveSessions(log, CodingOpener(log))
    return Hub(log, sessions, Owners(log, sessions, ServerLimits()))


async def joined(feed: Feed, stream: EventStream, after: int) -> None:
    async for _ in feed.catch_up(stream, Place(str(after)), "view"):
        raise AssertionError("a page does not catch up by itself")


def sent(stream: EventStream) -> str:
    """Return what waits to be sent to a page."""
    waiting = stream._waiting
    return b"".join(waiting.get_nowait() or b"" for _ in range(waiting.qsize())).decode()


async def test_a_stream_that_joins_while_the_last_one_leaves_gets_what_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_read = threading.Event()
    with default_log() as log:
        name = await session(log, "One", ["Hello."])
        hub, first, second = hub_of(log), EventStream(), EventStream()
        feed = hub._feeds[name] = Feed(log, name, hub._live)
        await joined(feed, first, log.session(name).last)
        after = log.after

        def slowly(*given: int) -> object:
            may_read.wait()
            return after(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(log, "after", slowly)
        joining = asyncio.create_task(joined(feed, second, 0))
        await asyncio.sleep(0)
        hub._leave(first, name)
        may_read.set()
        await joining
        assert "Hello." in sent(second)
        await again(log, name, "Two", ["Hello again."])
        await hub._look()
        assert "Hello again." in sent(second)
        hub._leave(second, name)


async def test_a_question_that_a_new_page_finds_reaches_the_others() -> None:
    question = PermissionQuestion(
        tool="Bash", input={}, title="Bash(make)", options=(Option("no", "No", allows=False),)
    )
    with default_log() as log:
        name = await session(log, "One", ["Hello."])
        hub, page = hub_of(log), EventStream()
        hub._streams[page] = EventsQuery(form="view")
        journal = log.open(name)
        await log.inbox.listen(journal.id).ask(asked("call_1", question))
        await hub._look_at_questions()  # as when another page arrives
        await hub._look()
        assert "Bash(make)" in sent(page)
        journal.close()


@pytest.mark.parametrize("steps", range(8))
async def test_it_closes_whatever_changes_at_that_moment(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    change = asyncio.Event()

    async def changes() -> AsyncIterator[None]:
        await change.wait()
        yield

    async def look() -> None:
        pass

    with default_log() as log:
        hub = hub_of(log)
        monkeypatch.setattr(log.inbox, "changes", changes)
        monkeypatch.setattr(hub, "_look", look)
        hub._watching = asyncio.create_task(hub._watch())
        for _ in range(5):
            await asyncio.sleep(0)
        change.set()
        for _ in range(steps):  # the log changes so many steps of the loop before the program is stopped
            await asyncio.sleep(0)
        closed, _ = await asyncio.wait([asyncio.create_task(hub.close())], timeout=10)
        assert closed
