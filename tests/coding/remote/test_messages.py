"""Messages of other processes: their senders know that a session has them once they are in its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from outrider import Agent, Session
from outrider.coding.permissions.question import Mode
from outrider.coding.remote.control import RemoteControl
from outrider.errors import ConversationError
from outrider.log.entries import BackgroundTask
from outrider.log.log import Log
from outrider.log.questions import Say, SetGoal, Stop
from outrider.runtime.background import Ending, Job
from outrider.runtime.goal import goal_message
from outrider.testing import ScriptedModel
from tests.log import until_so


class Front:
    """A front end that keeps what it is told, until it is `done`."""

    place = "in the terminal"

    def __init__(self) -> None:
        self.said: list[str] = []
        self.stops = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, text: str) -> None:
        pass

    def use_mode(self, mode: Mode) -> None:
        pass

    async def say(self, text: str) -> None:
        self.said.append(text)
        await asyncio.shield(self.done)

    def stop(self) -> None:
        self.stops += 1


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Front, Session, Log]]:
    with Log(folder / "log") as log, Log(folder / "log") as other:
        session = await Session.open(log, agent=Agent(ScriptedModel(["One."] * 5)))
        front = Front()
        control = RemoteControl(front, folder)
        control.attach(log, session)
        await until_so(lambda: other.inbox.is_listening(session.id))
        yield front, session, other
        front.done.cancel()
        control.detach()
        await session.aclose()


async def test_a_message_is_taken_once_it_is_in_the_log(tmp_path: Path) -> None:
    async with served(tmp_path) as (front, session, other):
        number = other.inbox.send(session.id, Say("Hello."))
        await until_so(lambda: front.said == ["Hello."])
        stop = other.inbox.send(session.id, Stop())  # it does not wait for the message
        await until_so(lambda: other.inbox.is_taken(stop))
        assert (front.stops, other.inbox.is_taken(number)) == (1, False)
        await session.run(front.said[0])
        await until_so(lambda: other.inbox.is_taken(number))
        assert front.said == ["Hello."]


async def test_a_goal_is_set_and_told_and_ended(tmp_path: Path) -> None:
    async with served(tmp_path) as (front, session, other):
        other.inbox.send(session.id, SetGoal("pytest -q"))
        await until_so(lambda: bool(front.said))
        assert (front.said, session.goal) == ([goal_message("pytest -q")], "pytest -q")
        number = other.inbox.send(session.id, SetGoal(""))
        await until_so(lambda: other.inbox.is_taken(number))
        assert (len(front.said), session.goal) == (1, "")


async def test_messages_are_told_apart_by_their_text_or_else_taken_in_order(tmp_path: Path) -> None:
    async with served(tmp_path) as (front, session, other):
        first, second, third = (other.inbox.send(session.id, Say(text)) for text in ("/review", "Two.", "Three."))
        await until_so(lambda: len(front.said) == 3)
        await session.run("Three.")
        await until_so(lambda: other.inbox.is_taken(third))
        await session.run("Review the changes.")  # what the command stands for
        await until_so(lambda: other.inbox.is_taken(first))
        assert other.inbox.is_taken(second) is False


async def test_a_message_that_a_closed_session_has_not_stored_is_known_to_be_lost(tmp_path: Path) -> None:
    async with served(tmp_path) as (front, session, other):
        number = other.inbox.send(session.id, Say("Hello."))
        await until_so(lambda: front.said == ["Hello."])
        await session.aclose()
        assert other.inbox.is_taken(number) is None


async def test_a_message_that_the_front_end_handles_without_the_session_is_taken(tmp_path: Path) -> None:
    async with served(tmp_path) as (front, session, other):
        number = other.inbox.send(session.id, Say("/compact"))
        await until_so(lambda: front.said == ["/compact"])
        assert (other.inbox.is_delivered(number), other.inbox.is_taken(number)) == (True, False)
        front.done.set_result(None)
        await until_so(lambda: other.inbox.is_taken(number))


async def test_a_message_that_comes_too_late_for_the_front_end_is_not_taken(tmp_path: Path) -> None:
    async with served(tmp_path) as (front, session, other):
        number = other.inbox.send(session.id, Say("Hello."))
        await until_so(lambda: front.said == ["Hello."])
        front.done.set_exception(ConversationError("nothing runs"))
        stop = other.inbox.send(session.id, Stop())
        await until_so(lambda: other.inbox.is_taken(stop))
        assert other.inbox.is_taken(number) is False
        await session.aclose()
        assert other.inbox.is_taken(number) is None


async def test_a_sub_agent_in_the_background_is_stopped_and_the_run_is_not(tmp_path: Path) -> None:
    """The page does so. Other processes know it by its session."""
    async with served(tmp_path) as (front, session, other):
        began = asyncio.Event()

        async def work(job: Job) -> Ending:
            began.set()
            return await asyncio.get_running_loop().create_future()

        await session.background.start(BackgroundTask("ab" * 16, "c", "Helper", "a task"), work, 100)
        await began.wait()
        other.inbox.send(session.id, Stop("ab" * 16))
        await until_so(lambda: not session.background.working)
        assert [each.status for each in session.background] == ["cancelled"]
        assert "was stopped" in session._record.state.reports[0].report
        assert front.stops == 0
