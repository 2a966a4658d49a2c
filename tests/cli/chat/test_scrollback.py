"""Nothing is printed twice: scrollback and screen together hold each line once, in a plain terminal and in tmux."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.chat.terminal import Terminal, answered_by, terminal_environment, until
from tests.lengths import only_long
from tests.modelserver import ModelServer, Paced
from tests.streams import Answer

ITEMS = [f"item-{number:03}" for number in range(60)]
CODE = [f"code_{number:03} = {number}" for number in range(75)]
ROWS = [f"row-{number:03}" for number in range(40)]
ANSWERS = {
    "list": (ITEMS, "".join(f"- {item} of the list\n" for item in ITEMS)),
    "code": (CODE, "```python\n" + "".join(f"{line}\n" for line in CODE) + "```\n"),
    "table": (ROWS, "| name | value |\n| --- | --- |\n" + "".join(f"| {row} | some value |\n" for row in ROWS)),
}
SIZES = [(80, 24), (120, 40), (34, 12)]
STATUS = "claude-sonnet-4-5"
PROMPT = "/help"
"""The greeting names it, and the prompt follows."""
STREAMED = 0.012
"""Seconds between two lines: some six lines a drawing."""


def answer(kind: str) -> Paced:
    return Paced(Answer(f"Here it comes.\n\n{ANSWERS[kind][1]}\nThat is all.", by_line=True), "events", STREAMED)


def assert_each_once(shown: str, lines: list[str]) -> None:
    """Each line is there once, in order, and the status line once."""
    words = shown.split("\n")
    found = [line for row in words for line in lines if line in row]
    assert found == lines
    assert shown.count("That is all.") == 1
    assert sum(STATUS in row for row in words) == 1
    assert len(words) < len(lines) + 60, "there are no blank copies either"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ANSWERS)
async def test_a_long_answer_stands_once_in_scrollback_and_screen(
    kind: str, size: tuple[int, int], project: Path
) -> None:
    async with (
        ModelServer([answer(kind)]) as server,
        Terminal(cwd=project, columns=size[0], lines=size[1], **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Go.")
        await terminal.wait_for("That is all.")
        await terminal.wait_for_prompt()
        await terminal.wait_for(STATUS)
        assert_each_once(terminal.transcript, ANSWERS[kind][0])


class Tmux:
    """A window of tmux, with a server of its own."""

    def __init__(self, folder: Path, size: tuple[int, int], environment: dict[str, str]) -> None:
        self._socket = str(folder / "tmux")
        self._environment = environment
        width, height = map(str, size)
        program = shlex.join([sys.executable, "-m", "outrider"])
        self._run("-f", os.devnull, "new-session", "-d", "-x", width, "-y", height, "-c", str(folder), program)

    def _run(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, env=self._environment, check=True, capture_output=True, text=True).stdout

    @property
    def transcript(self) -> str:
        """The scrollback and the screen."""
        return self._run("capture-pane", "-p", "-S", "-").rstrip("\n")

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)
        self._run("send-keys", "Enter")

    def close(self) -> None:
        self._run("kill-server")


@asynccontextmanager
async def tmux(folder: Path, size: tuple[int, int], **environment: str) -> AsyncIterator[Tmux]:
    window = Tmux(folder, size, terminal_environment(folder) | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment)
    try:
        yield window
    finally:
        window.close()


class GnuScreen:
    """A window of GNU screen of 80x24, with sockets of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        sockets = Path(tempfile.mkdtemp(prefix="screen-"))  # the path of a socket must be short
        self._copy, self._sockets = folder / "hardcopy", sockets
        self._environment = environment | {"SCREENDIR": str(sockets)}
        program = [sys.executable, "-m", "outrider"]
        subprocess.run(
            ["screen", "-U", "-c", os.devnull, "-h", "2000", "-S", "chat", "-dm", *program],
            env=self._environment,
            cwd=folder,
            check=True,
        )

    def _do(self, *command: str) -> None:
        subprocess.run(
            ["screen", "-S", "chat", "-p", "0", "-X", *command], env=self._environment, check=True, capture_output=True
        )

    @property
    def transcript(self) -> str:
        self._copy.unlink(missing_ok=True)
        self._do("hardcopy", "-h", str(self._copy))
        for _ in range(200):  # it is written by another process, at once
            if self._copy.exists() and (text := self._copy.read_bytes().decode(errors="replace")):
                return text.strip("\n")
            time.sleep(0.01)
        return ""

    def type(self, text: str) -> None:
        self._do("stuff", f"{text}\r")

    def close(self) -> None:
        self._do("quit")
        shutil.rmtree(self._sockets, ignore_errors=True)


@pytest.mark.sampled(1)
@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
@pytest.mark.parametrize("size", [SIZES[0], *only_long((SIZES[1],))], ids=str)
@pytest.mark.parametrize("kind", ANSWERS)
async def test_a_long_answer_stands_once_in_tmux(kind: str, size: tuple[int, int], project: Path) -> None:
    async with ModelServer([answer(kind)]) as server, tmux(project, size, **answered_by(server)) as window:
        await assert_streamed_once(window, server, kind)


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("screen"), reason="GNU screen is not installed")
@pytest.mark.parametrize("kind", ["table", *only_long("list"), *only_long("code")])
async def test_a_long_answer_stands_once_in_gnu_screen(kind: str, project: Path) -> None:
    async with ModelServer([answer(kind)]) as server:
        environment = terminal_environment(project) | {"PYTHONPATH": os.pathsep.join(sys.path)} | answered_by(server)
        window = GnuScreen(project, environment)
        try:
            await assert_streamed_once(window, server, kind)
        finally:
            window.close()


async def assert_streamed_once(window: Tmux | GnuScreen, server: ModelServer, kind: str) -> None:
    shown = ""

    async def shows(*wanted: str) -> None:
        async def look() -> bool:
            nonlocal shown
            shown = await asyncio.to_thread(lambda: window.transcript)
            return all(each in shown for each in wanted)

        for _ in range(1500):
            if await look():
                return
        raise AssertionError(f"{wanted} not in:\n{shown}")

    await shows(PROMPT, STATUS)
    window.type("Go.")
    await until(lambda: server.requests, what="the request")
    await shows("That is all.", "context")  # the context is shown after the answer
    assert_each_once(shown, ANSWERS[kind][0])
