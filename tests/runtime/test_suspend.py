"""`session.suspend()`: what the log has after it is what a kill at that point would have left."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest

from outrider import Agent, Log, Message, Session, tool
from outrider.errors import ConversationError, LogError
from outrider.log.entries import SubagentLinked
from outrider.log.rows import encode
from outrider.testing import Delay, ScriptedModel
from tests.cli.program import clean_environment, run

ID = "5" * 32
SCRIPT = '''
import asyncio, os, signal, sys, threading
from outrider import Agent, Allow, Log, Message, ProviderError, Session, ToolContext, ToolUseBlock, tool
from outrider.testing import ScriptedModel
from outrider.events import Retrying, TextDelta
from outrider.providers.base import Reply
from outrider.subagents import spawn

place, point, how = sys.argv[1:]
reached = asyncio.Event()

class Model:
    """Replies with calls first, or says a few words and no more."""
    name = "mine"

    def __init__(self, *calls):
        self.calls = list(calls)

    async def stream(self, request):
        if self.calls:
            yield Reply(Message.assistant(*self.calls.pop(0)))
            return
        if point == "retry":
            raise ProviderError("overloaded", retryable=True, retry_after=60)
        yield TextDelta("Half of")
        reached.set()
        await asyncio.sleep(60)

async def wait(*_):
    reached.set()
    await asyncio.sleep(60)

@tool(effect="read")
async def look(number: int = 0) -> str:
    "Look."
    await wait()

@tool
async def write() -> str:
    "Write."
    await wait()

@tool
def block(context: ToolContext) -> str:
    "Block a thread."
    loop.call_soon_threadsafe(reached.set)
    threading.Event().wait(60)

@tool(effect="read", concurrent=False)
async def quick() -> str:
    "Return at once."
    return "quick"

@tool(effect="idempotent")
async def delegate(context: ToolContext) -> str:
    "Start a sub-agent."
    return str(await (await spawn(context, Agent(Model(), name="child"))).run("Look around."))

CALLS = {
    "read": ["look"], "write": ["write"], "both": ["quick", "look", "write"], "block": ["block"],
    "approve": ["write"], "child": ["delegate"],
}

async def main():
    global loop
    loop = asyncio.get_running_loop()
    uses = [ToolUseBlock(f"c{number}", name, {}) for number, name in enumerate(CALLS.get(point, []))]
    agent = Agent(Model(uses) if uses else Model(), tools=[look, write, block, quick, delegate])
    approve = wait if point == "approve" else None
    session = await Session.open(Log(place), "5" * 32, agent, cwd="/", approve=approve, create=True)
    session.observe(lambda event: reached.set() if isinstance(event, Retrying) else None)
    running = asyncio.create_task(session.run("Go."))
    await reached.wait()
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    await session.suspend()
    print((await running).status)

asyncio.run(main())
'''
POINTS = ["reply", "retry", "read", "write", "both", "block", "approve", "child"]


def stop(folder: Path, point: str, how: str) -> Path:
    place = folder / f"{how}.db"
    (folder / "stopping.py").write_text(SCRIPT)
    arguments = (str(place), point, how)
    ended = run(*arguments, module="stopping", cwd=folder, env=clean_environment(), stdout=PIPE, stderr=PIPE, text=True)
    wanted = (-signal.SIGKILL, "") if how == "kill" else (0, "suspended\n")
    assert (ended.returncode, ended.stdout) == wanted, ended.stderr
    return place


def stored(log: Log) -> dict[str, list[tuple[str, Any]]]:
    """The entries of each session, without what two processes cannot have in common."""
    found: dict[str, list[tuple[str, Any]]] = {}
    linked = [record.entry for record in log.records(ID)]
    for each in (ID, *(entry.session for entry in linked if isinstance(entry, SubagentLinked))):
        entries = [encode(record.entry) for record in log.records(each)]
        decoded = [(kind, msgspec.json.decode(body)) for kind, body in entries]
        found[each] = [
            (kind, {name: value for name, value in body.items() if name not in ("first_token", "seal")})
            for kind, body in decoded
        ]
    return found


async def resumed(log: Log) -> list[Message]:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    @tool
    def write() -> str:
        """Write."""
        return "written"

    @tool(effect="idempotent")
    def delegate() -> str:
        """Start a sub-agent."""
        return "delegated"

    async with Session.open(log, ID, Agent(ScriptedModel(["Done."]), tools=[look, write, delegate])) as session:
        assert (await session.run()).status == "done"
        return session.messages


@pytest.mark.parametrize("point", POINTS)
async def test_the_log_is_as_after_a_kill(point: str, tmp_path: Path) -> None:
    with Log(stop(tmp_path, point, "kill")) as killed, Log(stop(tmp_path, point, "suspend")) as suspended:
        assert stored(suspended) == stored(killed)
        assert len(stored(suspended)) == (2 if point == "child" else 1)
        assert await resumed(suspended) == await resumed(killed)


async def test_a_call_that_may_write_has_an_unknown_outcome_and_a_question_is_asked_again(tmp_path: Path) -> None:
    with Log(stop(tmp_path, "write", "suspend")) as log:
        [result] = (await resumed(log))[2].tool_results
        assert result.is_unknown
    (tmp_path / "other").mkdir()
    with Log(stop(tmp_path / "other", "approve", "suspend")) as log:
        [result] = (await resumed(log))[2].tool_results
        assert result.text == "written", "it had not begun"


async def test_the_session_is_released_and_takes_no_more(tmp_path: Path) -> None:
    with Log(tmp_path / "log.db") as log:
        agent = Agent(ScriptedModel([Delay(60, "Late."), "Done."]))
        session = await Session.open(log, agent=agent)
        running = asyncio.create_task(session.run("Go."))
        while not session.messages:
            await asyncio.sleep(0.001)
        await session.suspend()
        assert (await running).status == "suspended"
        with pytest.raises(LogError, match="open it again"):
            session.rename("Later")
        async with Session.open(log, session.id, agent) as again:
            assert again.is_unfinished
            assert (await again.run()).status == "done"
            assert [message.role for message in again.messages] == ["user", "assistant"]


async def test_an_idle_session_is_only_released(tmp_path: Path) -> None:
    with Log(tmp_path / "log.db") as log:
        agent = Agent(ScriptedModel(["Hello."]))
        async with Session.open(log, agent=agent) as session:
            await session.run("Hi.")
            before = len(list(log.records(session.id)))
            await session.suspend()
            await session.suspend()
        assert len(list(log.records(session.id))) == before


async def test_a_session_without_a_log_cannot_be_suspended() -> None:
    with pytest.raises(ConversationError, match="only a session in a log can be suspended"):
        await Session(Agent("demo")).suspend()
