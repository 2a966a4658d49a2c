"""Every page hears of every change, whatever other pages come and go at the same moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from outrider.log.questions import Option, PermissionQuestion
from outrider.sync import default_log
from outrider.web.event_stream import EventStream
from outrider.web.hub import Hub
from tests.log import asked
from tests.web.logs import again, session


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
        hub, first, second = Hub(log), EventStream(), EventStream()
        await hub._feed(name).join(first, log.session(name).last)
        after = log.after

        def slowly(*given: int) -> object:
            may_read.wait()
            return after(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(log, "after", slowly)
        joining = asyncio.create_task(hub._feed(name).join(second, 0))
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
        hub, page = Hub(log), EventStream()
        hub._streams.add(page)
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
        hub = Hub(log)
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
