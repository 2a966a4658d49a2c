"""Outrider killed at any moment while its commands run: the folder has nothing in it that was not there before."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.asking import everywhere
from tests.cli.chat.terminal import Terminal, answered_by
from tests.cli.program import clean_environment, start
from tests.coding.sandbox.world import mechanisms
from tests.modelserver import ModelServer
from tests.streams import Answer

pytestmark = pytest.mark.skipif("bubblewrap" not in mechanisms(), reason="bubblewrap is not here")

SIGNALS = (signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
KILLS, EXITS = 200, 60
LONGEST_WAIT = 0.8
"""Seconds from the first request to the signal, in which a dozen commands run."""
MINE = {"notes.txt", "made.txt"}
DEADLINE = 30.0
SANDBOXED = {"OUTRIDER_SANDBOX": "auto"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    for name in MINE:
        (project / name).touch()
    return project


def commands() -> Callable[[object], Answer]:
    """A model that runs one command after the other, each with access `write`."""
    numbers = itertools.count()

    def next_command(_: object) -> Answer:
        command = f"echo {next(numbers)} >> made.txt; sleep 0.0{random.randrange(5)}"
        return Answer("", ((f"call_{next(numbers)}", "Bash", {"command": command, "access": "write"}),))

    return next_command


async def clean(project: Path) -> float:
    """Wait until the folder is as it was. Return the seconds that it took."""
    began = time.monotonic()
    while left := set(os.listdir(project)) - MINE:
        assert time.monotonic() - began < DEADLINE, left
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def requested(server: ModelServer, process: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    while not server.requests:
        assert process.poll() is None
        assert time.monotonic() - began < DEADLINE
        await asyncio.sleep(0.01)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(KILLS))
async def test_a_kill_leaves_nothing(project: Path, seed: int, tmp_path: Path) -> None:
    """Of the process alone, or of all processes of its terminal; of `-p` and of the chat."""
    chance = random.Random(seed)
    number, is_chat = SIGNALS[seed % len(SIGNALS)], seed % 3 == 2
    kill = chance.choice((os.kill, os.killpg))
    async with ModelServer(commands()) as server:
        if is_chat:
            await _kill_chat(server, project, lambda process: kill(process, number), chance)
        else:
            printed = await _kill_prompt(server, project, lambda process: kill(process, number), chance, tmp_path)
            assert "Traceback" not in printed
            assert "Error" not in printed
    await clean(project)
    await asyncio.sleep(0.4)  # for a keeper that was asked in the last moment
    await clean(project)


async def _kill_prompt(
    server: ModelServer, project: Path, kill: Callable[[int], None], chance: random.Random, folder: Path
) -> str:
    with (folder / "stderr").open("w+b") as errors:
        process = start(
            *("-p", "Go.", "--permissions", "all"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=project,
            env=clean_environment() | everywhere(server) | SANDBOXED,
            start_new_session=True,
        )
        with process:
            await requested(server, process)
            await asyncio.sleep(chance.uniform(0, LONGEST_WAIT))
            kill(process.pid)
            await asyncio.to_thread(process.wait, DEADLINE)
        errors.seek(0)
        return errors.read().decode()


async def _kill_chat(server: ModelServer, project: Path, kill: Callable[[int], None], chance: random.Random) -> None:
    environment = answered_by(server) | SANDBOXED
    async with Terminal("Go on.", "--permissions", "all", cwd=project, **environment) as terminal:
        await requested(server, terminal.process)
        await asyncio.sleep(chance.uniform(0, LONGEST_WAIT))
        if chance.random() < 0.3:
            terminal.close()  # the window
        else:
            kill(terminal.process.pid)
    assert b"Traceback" not in terminal.raw


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(EXITS))
async def test_at_a_normal_end_the_folder_is_clean_at_once(project: Path, seed: int) -> None:
    call = Answer("", (("call_1", "Bash", {"command": f"echo {seed} >> made.txt", "access": "write"}),))
    async with ModelServer([call, Answer("Done.")]) as server:
        process = start(
            *("-p", "Go.", "--permissions", "all"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=project,
            env=clean_environment() | everywhere(server) | SANDBOXED,
            from_scratch=True,
        )
        with process:
            out, err = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
        assert (process.returncode, out) == (0, b"Done.\n")
        assert b"Traceback" not in err
        assert b"Error" not in err
    assert set(os.listdir(project)) == MINE
    assert (project / "made.txt").read_text() == f"{seed}\n"
