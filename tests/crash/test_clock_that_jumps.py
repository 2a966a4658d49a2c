"""The clock is set back a day, or a year ahead, at the worst moment: order, holders and limits do not depend on it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from outrider.errors import SessionHeldError
from outrider.log.holder import BEAT_SECONDS, Holder
from outrider.log.log import Log
from outrider.runtime.agent import Agent
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call
from tests.crash.judge import faults_at_the_end, faults_of_lives, state_of
from tests.crash.nursery import ROOT, Nursery
from tests.crash.script import PROMPTS, agent, converse, ended, show
from tests.crash.trial import Trial

DAY, YEAR = 86_400.0, 365 * 86_400.0
JUMPS = [-DAY, YEAR]
jumps = pytest.mark.parametrize("jump", JUMPS, ids=["a day back", "a year ahead"])


class Clock:
    """The time of day, which can be set. The one that only measures is left alone, as the system leaves it alone."""

    def __init__(self) -> None:
        self.off = 0.0
        self._time = time.time

    def time(self) -> float:
        return self._time() + self.off


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.time)
    return clock


@jumps
async def test_a_conversation_keeps_its_order_when_the_clock_jumps_within_a_run(
    clock: Clock, quick_folder: Path, jump: float
) -> None:
    jumped: list[str] = []

    def jump_now_and_then(point: str) -> None:
        """To and fro, at every point."""
        jumped.append(point)
        clock.off = jump if len(jumped) % 2 else 0.0

    with Log(quick_folder / "log") as log:
        who, observer = agent(quick_folder, 1, jump_now_and_then), show(quick_folder, 1, jump_now_and_then)
        with Session.open(log, agent=who, observer=observer) as session:
            result = await converse(session)
        times = [record.time for record in log.records(session.id)]
        assert times != sorted(times), "the clock has jumped indeed"
    assert faults_of_lives(quick_folder, [state_of(quick_folder)]) == []
    assert faults_at_the_end(quick_folder, ended(session, result)) == []


@jumps
async def test_a_killed_session_goes_on_at_once_when_the_clock_has_jumped(
    clock: Clock, nursery: Nursery, quick_folder: Path, jump: float
) -> None:
    trial = Trial(nursery, quick_folder)
    assert trial.live(kill_at="put has acted:1").killed
    clock.off = jump
    started = time.monotonic()
    with Log(quick_folder / "log") as log:
        (summary,) = log.sessions()
        with Session.open(log, summary.id, agent(quick_folder, 2), observer=show(quick_folder, 2)) as session:
            assert time.monotonic() - started < BEAT_SECONDS, "a holder on this machine is known to be dead"
            result = await converse(session)
    trial.states.append(state_of(quick_folder))
    assert faults_of_lives(quick_folder, trial.states) == []
    assert faults_at_the_end(quick_folder, ended(session, result), trial.states[:1]) == []


@jumps
async def test_the_session_that_was_used_last_is_the_first_of_the_list_whatever_the_clock_said(
    clock: Clock, quick_folder: Path, jump: float
) -> None:
    with Log(quick_folder / "log") as log:
        ids = []
        for number in range(3):
            clock.off = jump * number
            with Session.open(log, agent=Agent(model="demo")) as session:
                await session.run("What is 2+2?")
            ids.append(session.id)
        assert [summary.id for summary in log.sessions()] == ids[::-1]
        clock.off = -jump
        Session.open(log, ids[0]).now().close()  # opening is no use
        with Session.open(log, ids[1]) as session:
            await session.run("What is 3+3?")
        assert [summary.id for summary in log.sessions()] == [ids[1], ids[2], ids[0]]


@jumps
async def test_a_limit_on_the_time_of_a_run_is_not_used_up_by_a_jump(
    clock: Clock, quick_folder: Path, jump: float
) -> None:
    def set_clock() -> str:
        clock.off = jump
        return "set"

    model = ScriptedModel([call("set_clock"), "Done."])
    who = Agent(model=model, tools=[set_clock], limits=Limits(max_seconds=60, tool_seconds=30))
    with Log(quick_folder / "log") as log, Session.open(log, agent=who) as session:
        assert (await session.run("Set the clock.")).status == "done"
        assert session.messages[2].tool_results[0].text == "set"


@contextmanager
def holder_of(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A living process that has the session open."""
    command = [sys.executable, "-m", "tests.crash.child", str(folder), "--hold", *options]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


@pytest.fixture
async def log(quick_folder: Path) -> Log:
    """A log with a session of which something was said."""
    with Log(quick_folder / "log") as log, Session.open(log, agent=agent(quick_folder)) as session:
        await session.think(PROMPTS[0])
    return log


@jumps
def test_a_session_is_not_taken_from_a_living_process_when_the_clock_jumps(
    clock: Clock, log: Log, quick_folder: Path, jump: float
) -> None:
    (summary,) = log.sessions()
    with holder_of(quick_folder) as process:
        clock.off = jump
        with pytest.raises(SessionHeldError, match=f"process {process.pid}"):
            Session.open(log, summary.id, agent(quick_folder)).now()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not even buried
        started = time.monotonic()
        Session.open(log, summary.id, agent(quick_folder)).now().close()
        assert time.monotonic() - started < BEAT_SECONDS, "it was not watched"
    log.close()


@pytest.fixture
def watched_seconds(monkeypatch: pytest.MonkeyPatch) -> float:
    """For how long a heart is watched that may have stopped: not as long as it would be elsewhere."""
    monkeypatch.setattr("outrider.log.sqlite.session_table.BEAT_SECONDS", 1.5)
    return 1.5 * 1.5


def move_to_another_machine(log: Log, id: str) -> None:
    """Have the holder of a session be one whose process cannot be seen from here."""
    with contextlib.closing(sqlite3.connect(log.folder / "log.db")) as connection, connection:
        (holder,) = connection.execute("SELECT holder FROM session WHERE id = ?", (id,)).fetchone()
        moved = msgspec.structs.replace(msgspec.json.decode(holder, type=Holder), boot="another", host="elsewhere")
        written = msgspec.json.encode(moved).decode()
        connection.execute("UPDATE session SET holder = ? WHERE id = ?", (written, id))


def beats_of(log: Log) -> int:
    with contextlib.closing(sqlite3.connect(log.folder / "log.db")) as connection:
        (beat,) = connection.execute("SELECT max(beat) FROM session").fetchone()
        return int(beat)


@jumps
def test_a_session_is_not_taken_from_a_heart_that_beats_elsewhere_when_the_clock_jumps(
    clock: Clock, watched_seconds: float, log: Log, quick_folder: Path, jump: float
) -> None:
    (summary,) = log.sessions()
    with holder_of(quick_folder, "--beat", "0.02"):
        move_to_another_machine(log, summary.id)
        wait_until(lambda: beats_of(log) > 0)
        clock.off = jump
        with pytest.raises(SessionHeldError, match="elsewhere"):
            Session.open(log, summary.id, agent(quick_folder)).now()
    log.close()


def test_a_session_that_was_only_opened_sends_heartbeats(
    monkeypatch: pytest.MonkeyPatch, log: Log, quick_folder: Path
) -> None:
    """Without that, a session at which somebody sits and thinks is taken from another machine."""
    monkeypatch.setattr("outrider.log.sqlite.backend.BEAT_SECONDS", 0.02)
    with Log(log.folder) as quick, Session.open(quick, quick.sessions()[0].id, agent(quick_folder)):
        wait_until(lambda: beats_of(log) > 0, seconds=1)


@jumps
def test_a_session_is_taken_from_a_heart_that_no_longer_beats_elsewhere_though_the_clock_jumped(
    clock: Clock, watched_seconds: float, log: Log, nursery: Nursery, quick_folder: Path, jump: float
) -> None:
    assert Trial(nursery, quick_folder).live(kill_at="put has acted:1").killed
    (summary,) = log.sessions()
    move_to_another_machine(log, summary.id)
    clock.off = jump
    started = time.monotonic()
    Session.open(log, summary.id, agent(quick_folder, 2)).now().close()
    assert time.monotonic() - started >= watched_seconds, "it was watched before it was taken for dead"
    log.close()


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


@pytest.mark.long
def test_files_that_a_session_refers_to_are_kept_whatever_the_clock_says(
    clock: Clock, nursery: Nursery, quick_folder: Path
) -> None:
    trial = Trial(nursery, quick_folder)
    last = trial.live()
    with Log(quick_folder / "log") as log:
        for clock.off in (-DAY, YEAR):
            assert log.remove_unreferenced_files() == (0, 0)
    assert trial.verdict(last) == []
    assert os.listdir(quick_folder / "log" / "attachments")
