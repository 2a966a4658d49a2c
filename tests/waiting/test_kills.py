"""Sessions wait with no process alive, and a kill at any commit between the answer and its effect repeats nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from outrider import Allow, Log
from outrider.log.entries import CallResult, RunStopped
from tests.cli.program import clean_environment, run
from tests.lengths import only_long

ROOT = Path(__file__).parents[2]


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program, which has imported what it needs, to its end."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return run(*arguments, module="tests.waiting.refund", cwd=ROOT, env=clean_environment(), timeout=120, **streams)


def until_it_waits_or_ends(place: str, effects: Path, id: str, kind: str, kill_at: int) -> tuple[list[object], int]:
    """Run with one kill, and then again without."""
    for killed, at in enumerate((kill_at, 0)):
        ended = started(place, str(effects), id, kind, str(at))
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


@pytest.mark.parametrize("count", [20, *only_long(100)])
async def test_many_sessions_wait_with_no_process_alive(place: str, tmp_path: Path, count: int) -> None:
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

    ended = await asyncio.to_thread(started, "ask", place, str(count))
    assert ended.returncode == 0, ended.stderr
    with Log(place) as log, Log(place) as second, Log(place) as third:
        questions = log.questions()
        assert len(questions) == count
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
        for number in range(count):
            agent = Agent(ScriptedModel(["Done."]), tools=[refund])
            async with Session.open(log, f"case-{number}", agent, approve=approve) as session:
                assert (await session.run()).status == "done"
    assert done == list(range(count))
