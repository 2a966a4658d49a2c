"""Signals that ask a program to end: what they do while it works, and while its finalizers run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from outrider.processes.signals import ENDING, on_signals
from tests.cli.asking import unread, wait_until
from tests.cli.program import clean_environment, start

AT_THE_END = """
import atexit, os, signal, time
from outrider.processes.signals import EndingSignals

def clean_up():
    for _ in range({count}):
        os.kill(os.getpid(), {number})
        time.sleep(0.01)
    print("cleaned up")

atexit.register(clean_up)
with EndingSignals():
    pass
"""


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_does_not_interrupt_finalizers_and_the_next_one_ends_the_process(number: signal.Signals) -> None:
    for count, code, said in ((1, 0, "cleaned up\n"), (2, -number, "")):
        script = AT_THE_END.format(count=count, number=int(number))
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, said, "")


def piped(*arguments: str) -> subprocess.Popen[Any]:
    """Start the program with pipes for its standard streams."""
    pipe = subprocess.PIPE
    return start(*arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=clean_environment())


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGTERM, 143, "\nTerminated.\n"), (signal.SIGHUP, 129, "\nHung up.\n")]
)
def test_commands_without_handlers_of_their_own_end_in_order(number: signal.Signals, code: int, said: str) -> None:
    with piped("sessions", "import", "-") as process:
        assert process.stdin
        pipe = process.stdin.fileno()
        os.write(pipe, b"{")
        wait_until(lambda: not unread(pipe), process)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (code, said)


def test_a_server_that_a_signal_stops_has_done_its_work() -> None:
    with piped("serve", "--port", "0") as process:
        assert process.stdout
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.parametrize("number", ENDING)
async def test_in_a_loop_each_signal_is_told_and_the_former_handler_comes_back(number: signal.Signals) -> None:
    former = signal.signal(number, signal.default_int_handler)
    told: asyncio.Queue[signal.Signals] = asyncio.Queue()
    try:
        with on_signals(told.put_nowait):
            for _ in range(2):
                os.kill(os.getpid(), number)
                assert await asyncio.wait_for(told.get(), 60) == number
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, former)


async def test_an_ignored_signal_stays_ignored() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    told: list[signal.Signals] = []
    try:
        with on_signals(told.append):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
        assert (told, signal.getsignal(signal.SIGHUP)) == ([], signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, former)
