"""Outrider killed at any moment while its commands run: the folder has nothing in it that was not there before."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.asking import everywhere
from tests.cli.chat.terminal import Terminal, answered_by
from tests.cli.program import clean_environment, start
from tests.coding.sandbox.world import mechanisms
from tests.lengths import only_long
from tests.modelserver import ModelServer
from tests.streams import Answer

pytestmark = pytest.mark.skipif("bubblewrap" not in mechanisms(), reason="bubblewrap is not here")

SIGNALS = (signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
AT_ONCE = 8
"""How many programs run side by side: most of the time each of them waits."""
KILLS = [range(first, first + AT_ONCE) for first in range(0, 200, AT_ONCE)]
EXITS = [range(2), *only_long(range(2, 6), range(6, 10), range(10, 14), range(14, 18))]
LONGEST_WAIT = 0.8
"""Seconds from the first request to the signal, in which a dozen commands run."""
MINE = {"notes.txt", "made.txt"}
DEADLINE = 90.0


class Place(NamedTuple):
    """The folders of one program."""

    project: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"OUTRIDER_HOME": str(self.home), "OUTRIDER_SANDBOX": "auto"}


def new_place(folder: Path) -> Place:
    place = Place(folder / "project", folder / "home")
    place.project.mkdir(parents=True)
    for name in MINE:
        (place.project / name).touch()
    return place


async def each(seeds: range, folder: Path, play: Callable[[Place, int], Awaitable[None]]) -> None:
    """Play with all of these seeds at once. Wait for all, and raise the first error with its seed."""

    async def play_one(seed: int) -> None:
        try:
            await play(new_place(folder / str(seed)), seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise

    for ended in await asyncio.gather(*map(play_one, seeds), return_exceptions=True):
        if ended:
            raise ended


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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seeds", KILLS, ids=str)
async def test_a_kill_leaves_nothing(seeds: range, tmp_path: Path) -> None:
    """Of the process alone, or of all processes of its terminal; of `-p` and of the chat."""
    await each(seeds, tmp_path, _kill)


async def _kill(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    number, is_chat = SIGNALS[seed % len(SIGNALS)], seed % 3 == 2
    kill = chance.choice((os.kill, os.killpg))
    async with ModelServer(commands()) as server:
        kill_one = _kill_chat if is_chat else _kill_prompt
        printed = await kill_one(server, place, lambda process: kill(process, number), chance)
        assert "Traceback" not in printed
        assert is_chat or "Error" not in printed
    await clean(place.project)
    await asyncio.sleep(0.4)  # for a keeper that was asked in the last moment
    await clean(place.project)


async def _kill_prompt(server: ModelServer, place: Place, kill: Callable[[int], None], chance: random.Random) -> str:
    with (place.project.parent / "stderr").open("w+b") as errors:
        process = start(
            *("-p", "Go.", "--permissions", "all"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=place.project,
            env=clean_environment() | everywhere(server) | place.environment,
            start_new_session=True,
        )
        with process:
            await requested(server, process)
            await asyncio.sleep(chance.uniform(0, LONGEST_WAIT))
            kill(process.pid)
            await asyncio.to_thread(process.wait, DEADLINE)
        errors.seek(0)
        return errors.read().decode()


async def _kill_chat(server: ModelServer, place: Place, kill: Callable[[int], None], chance: random.Random) -> str:
    environment = answered_by(server) | place.environment
    async with Terminal("Go on.", "--permissions", "all", cwd=place.project, **environment) as terminal:
        await requested(server, terminal.process)
        await asyncio.sleep(chance.uniform(0, LONGEST_WAIT))
        if chance.random() < 0.3:
            terminal.close()  # the window
        else:
            kill(terminal.process.pid)
    return terminal.raw.decode(errors="replace")


@pytest.mark.parametrize("seeds", EXITS, ids=str)
async def test_at_a_normal_end_the_folder_is_clean_at_once(seeds: range, tmp_path: Path) -> None:
    await each(seeds, tmp_path, _exit)


async def _exit(place: Place, seed: int) -> None:
    call = Answer("", (("call_1", "Bash", {"command": f"echo {seed} >> made.txt", "access": "write"}),))
    async with ModelServer([call, Answer("Done.")]) as server:
        process = start(
            *("-p", "Go.", "--permissions", "all"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=place.project,
            env=clean_environment() | everywhere(server) | place.environment,
            from_scratch=True,
        )
        with process:
            out, err = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
        at_the_end = set(os.listdir(place.project))
        assert (process.returncode, out) == (0, b"Done.\n")
        assert b"Traceback" not in err
        assert b"Error" not in err
    assert at_the_end == MINE
    assert (place.project / "made.txt").read_text() == f"{seed}\n"
