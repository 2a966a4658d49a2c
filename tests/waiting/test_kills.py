"""Sessions wait with no process alive, and a kill at any commit between the answer and its effect repeats nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from outrider import Allow, Log
from outrider.log.entries import CallResult, RunStopped
from tests.lengths import only_long

PROGRAM = """
import asyncio, json, os, signal, sys
from outrider import Agent, Log, Session, ToolContext, tool
from outrider.log.journal import Journal
from outrider.testing import ScriptedModel, call
from outrider.tools.approval import Defer

place, effects, id, kind, kill_at = *sys.argv[1:5], int(sys.argv[5])

@tool(effect="idempotent")
async def refund(context: ToolContext, order: int) -> str:
    "Refund an order. The bank ignores a key that it knows."
    if kind == "ask" and await context.ask("Refund?", ["yes", "no"]) != "yes":
        return "not refunded"
    with open(effects, "a") as file:
        file.write(json.dumps([context.key, order]) + "\\n")
    if kind == "result":
        raise Defer("the bank's receipt")
    return f"refunded {order}"

def approve(use, tool):
    if kind == "approval":
        raise Defer(f"Refund {use.input['order']}?")
    return True

writes = 0
write = Journal.write

def killing(self, *entries):
    global writes
    pending = write(self, *entries)
    writes += 1
    if writes == kill_at:
        pending.then(lambda: os.kill(os.getpid(), signal.SIGKILL))
    return pending

Journal.write = killing

async def main():
    with Log(place) as log:
        is_new = not log.has(id)
        steps = [call("refund", order=7), "Done."] if is_new else ["Done."]
        if not is_new and not any(m.tool_calls for m in log.messages(id)):
            steps = [call("refund", order=7), "Done."]
        agent = Agent(ScriptedModel(steps), tools=[refund])
        async with Session.open(log, id, agent, create=True, approve=approve) as s:
            result = await s.run("Refund order 7" if not s.messages else "")
            print(json.dumps([result.status, result.text, [q.id for q in result.questions]]))

asyncio.run(main())
"""


def run(place: str, effects: Path, id: str, kind: str, kill_at: int = 0) -> subprocess.CompletedProcess[str]:
    arguments = [place, str(effects), id, kind, str(kill_at)]
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=120)


def until_it_waits_or_ends(place: str, effects: Path, id: str, kind: str, kill_at: int) -> tuple[list[object], int]:
    """Run with one kill, and then again without."""
    for killed, at in enumerate((kill_at, 0)):
        ended = run(place, effects, id, kind, at)
        if ended.returncode == 0:
            found: list[object] = json.loads(ended.stdout)
            return found, killed
        assert ended.returncode == -9, ended.stderr
    raise AssertionError("it ended twice")


@pytest.mark.parametrize("kind", ["approval", "ask", "result"])
@pytest.mark.parametrize("kill_at", [1, 2, *only_long(3, 4, 5, 6)])
def test_a_kill_at_each_commit_around_an_answer_repeats_nothing(
    place: str, tmp_path: Path, kind: str, kill_at: int
) -> None:
    """The session is killed once before it waits, and once after its answer."""
    effects, killed = tmp_path / "effects", 0
    (status, _, questions), kills = until_it_waits_or_ends(place, effects, "case", kind, kill_at)
    assert status == "waiting"
    killed += kills
    with Log(place) as log:
        (question,) = log.questions()
        assert [question.id] == questions
        log.answer(question.id, {"approval": Allow(), "ask": "yes", "result": "receipt 1"}[kind], by="Ada")
    (status, text, _), kills = until_it_waits_or_ends(place, effects, "case", kind, kill_at)
    killed += kills
    assert (status, text) == ("done", "Done.")
    done = [json.loads(line) for line in effects.read_text().splitlines()]
    assert {key for key, _ in done} == {done[0][0]}, "one key, so the receiver does it once"
    assert killed or kill_at > 4, "there are at least four commits before it waits"
    with Log(place) as log:
        entries = [record.entry for record in log.records("case")]
        assert len([each for each in entries if isinstance(each, CallResult)]) == 1
        assert [each.status for each in entries if isinstance(each, RunStopped)][-1] == "done"
        assert log.questions() == []


async def test_a_hundred_sessions_wait_with_no_process_alive(place: str, tmp_path: Path) -> None:
    """They are made by one process, which ends; answered by another; and each effect happens once, in a third."""
    from outrider import Agent, Session, tool
    from outrider.errors import AnsweredError
    from outrider.testing import ScriptedModel
    from outrider.tools.approval import Defer

    done: list[int] = []

    @tool(effect="write")
    def refund(order: int) -> str:
        """Refund an order."""
        done.append(order)
        return "refunded"

    def approve(use: object, tool: object) -> bool:
        raise Defer("Refund?")

    maker = f"""
import asyncio
from outrider import Agent, Log, Session, tool
from outrider.testing import ScriptedModel, call
from outrider.tools.approval import Defer

@tool(effect="write")
def refund(order: int) -> str:
    "Refund an order."
    raise AssertionError

def approve(use, tool):
    raise Defer("Refund?")

async def main():
    with Log({place!r}) as log:
        for number in range(100):
            agent = Agent(ScriptedModel([call("refund", order=number)]), tools=[refund])
            async with Session.open(log, f"case-{{number}}", agent, create=True, approve=approve) as session:
                assert (await session.run("Refund")).status == "waiting"

asyncio.run(main())
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", maker], check=True, timeout=300)
    with Log(place) as log, Log(place) as second, Log(place) as third:
        questions = log.questions()
        assert len(questions) == 100
        counted = []

        def answer(which: Log, id: str) -> None:
            try:
                which.answer(id, Allow())
                counted.append(id)
            except AnsweredError:
                pass

        for question in questions:
            await asyncio.gather(*(asyncio.to_thread(answer, each, question.id) for each in (log, second, third)))
        assert sorted(counted) == sorted(each.id for each in questions), "each question has one answer"
        for number in range(100):
            agent = Agent(ScriptedModel(["Done."]), tools=[refund])
            async with Session.open(log, f"case-{number}", agent, approve=approve) as session:
                assert (await session.run()).status == "done"
    assert done == list(range(100))
