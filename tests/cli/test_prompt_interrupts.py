"""Ctrl-C and a request to end, at any moment: every call is answered, the result is written, the session goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.conversation.history import violations
from outrider.log.entries import RunStopped
from outrider.runtime.events import RunFinished
from outrider.sync import default_log
from tests.cli.asking import (
    DEADLINE,
    ask,
    everywhere,
    latest,
    messages,
    running,
    streamed,
    unread,
    wait_until,
)
from tests.cli.program import clean_environment, start
from tests.modelserver import Held, ModelServer
from tests.processes import is_running
from tests.streams import Answer

STOPS = [
    (signal.SIGINT, 130, "Interrupted."),
    (signal.SIGTERM, 143, "Terminated."),
    (signal.SIGHUP, 129, "Hung up."),
]
STUBBORN = """
import time
from pathlib import Path
from outrider import tool

@tool(effect="read")
def stubborn() -> str:
    "Do not listen."
    Path(__file__).with_name("begun").touch()
    time.sleep(600)
    return "late"
"""
TIDY = """
import asyncio
from pathlib import Path
from outrider import tool

@tool(effect="read")
async def tidy() -> str:
    "Take long to clean up."
    Path(__file__).with_name("begun").touch()
    try:
        await asyncio.sleep(600)
    finally:
        Path(__file__).with_name("cleaning").touch()
        await asyncio.sleep(600)
"""


def check_stopped() -> None:
    """The log knows of the cancel, nobody holds the session, and what was said can be sent."""
    with default_log() as log:
        assert log.session(latest()).holder is None
        ends = [each.entry for each in log.newest(latest(), 2) if isinstance(each.entry, RunStopped)]
        assert [each.status for each in ends] == ["cancelled"]
    asked = [call.id for message in messages() for call in message.tool_calls]
    answered = [result.tool_use_id for message in messages() for result in message.tool_results]
    assert answered == asked


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("number", "code", "said"), STOPS)
@pytest.mark.parametrize("wanted", ["text", "json", "stream-json"])
async def test_in_the_middle_of_a_reply(number: signal.Signals, code: int, said: str, wanted: str) -> None:
    whole = "The first half and the other half."
    async with ModelServer([Held(Answer(whole)), Answer("And so on.")]) as server:
        flags = ("-p", "Tell me.", "--output-format", wanted)
        with running(*flags, **everywhere(server)) as process:
            await asyncio.wait_for(server.held.wait(), DEADLINE)
            process.send_signal(number)
            out, err = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
        assert (process.returncode, "Traceback" in err) == (code, False)
        assert err.endswith(f"\n[to resume: outrider --resume {latest()[:8]}]\n{said}\n")
        check_stopped()
        if wanted == "text":
            assert out == ""
        elif wanted == "json":
            assert json.loads(out)["status"] == "cancelled"
        else:
            events, result = streamed(out)
            assert (result["status"], result["session"], result["turns"]) == ("cancelled", latest(), 1)
            assert isinstance(events[-1], RunFinished)
        ended = await ask(server, "--continue")
        assert (ended.returncode, ended.stdout) == (0, "And so on.\n")
        assert violations(messages()) == []


@pytest.mark.parametrize(("number", "code", "said"), STOPS)
async def test_in_the_middle_of_a_command(number: signal.Signals, code: int, said: str, tmp_path: Path) -> None:
    command = "echo $$ > shell; sleep 300 & echo $! > child; touch begun; wait"
    calls = (("c1", "Bash", {"command": command}), ("c2", "Glob", {"pattern": "*"}))
    async with ModelServer([Answer("Wait.", calls), Answer("I see.")]) as server:
        flags = ("-p", "Wait.", "--permissions", "all", "--output-format", "stream-json")
        with running(*flags, cwd=tmp_path, **everywhere(server)) as process:
            await asyncio.to_thread(wait_until, (tmp_path / "begun").exists, process)
            process.send_signal(number)
            out, err = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
        assert (process.returncode, "Traceback" in err) == (code, False)
        assert said in err
        _, result = streamed(out)
        assert (result["status"], result["turns"], result["session"]) == ("cancelled", 1, latest())
        assert result["usage"]["output_tokens"] > 0
        check_stopped()
        results = [result for message in messages() for result in message.tool_results]
        assert results[0].is_error
        assert "cancelled" in results[0].text
        for name in ("shell", "child"):
            until = time.monotonic() + DEADLINE
            while is_running(tmp_path / name):
                assert time.monotonic() < until, f"the {name} outlived the program"
                await asyncio.sleep(0.01)
        ended = await ask(server, "--continue", "--permissions", "all", cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (0, "I see.\n")


async def test_in_the_middle_of_a_tool_that_does_not_listen(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    async with ModelServer([Answer("", (("c1", "stubborn", {}),))]) as server:
        flags = ("-p", "Go.", "--tools", str(tmp_path / "stubborn.py"), "--output-format", "stream-json")
        with running(*flags, cwd=tmp_path, **everywhere(server)) as process:
            await asyncio.to_thread(wait_until, (tmp_path / "begun").exists, process)
            process.send_signal(signal.SIGINT)
            out, _ = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
    assert (process.returncode, streamed(out)[1]["status"]) == (130, "cancelled")
    check_stopped()


async def test_twice_in_a_row(tmp_path: Path) -> None:
    (tmp_path / "tidy.py").write_text(TIDY)
    async with ModelServer([Answer("", (("c1", "tidy", {}),))]) as server:
        flags = ("-p", "Go.", "--tools", str(tmp_path / "tidy.py"), "--output-format", "stream-json")
        with running(*flags, cwd=tmp_path, **everywhere(server)) as process:
            for moment in ("begun", "cleaning"):
                await asyncio.to_thread(wait_until, (tmp_path / moment).exists, process)
                process.send_signal(signal.SIGINT)
            out, err = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert streamed(out)[1]["status"] == "cancelled"


@pytest.mark.parametrize(("number", "code", "said"), STOPS)
def test_while_it_waits_for_standard_input(number: signal.Signals, code: int, said: str) -> None:
    with start(
        *("-p", "--model", "demo", "--output-format", "stream-json"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    ) as process:
        assert process.stdin
        pipe = process.stdin.fileno()
        os.write(pipe, b"What is")
        wait_until(lambda: not unread(pipe), process)
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, "Traceback" in err) == (code, False)
    assert err.endswith(f"\n{said}\n")
    events, result = streamed(out)
    assert (events, result["status"], result["session"]) == ([], "cancelled", None)


def test_in_the_background_of_a_shell_an_interrupt_is_for_others() -> None:
    script = f'trap "" INT; {sys.executable} -m outrider -p "What is 2+2?" --model demo & kill -INT $!; wait $!'
    ended = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=DEADLINE,
        stdin=subprocess.DEVNULL,
    )
    assert (ended.returncode, ended.stdout) == (0, "4\n")


def test_where_the_signals_are_somebody_elses_they_stay_theirs() -> None:
    from outrider.cli.interrupts import Interrupts

    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with Interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
