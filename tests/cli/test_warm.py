"""A program forked from the warm process behaves as one that is started from scratch."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.asking import unread, wait_until
from tests.cli.chat.terminal import Terminal, answered_by
from tests.cli.program import clean_environment, run, start
from tests.cli.warm import Fork, is_possible
from tests.modelserver import Answer, Held, ModelServer

pytestmark = pytest.mark.skipif(not is_possible(), reason="there is no warm process on this system")
BOTH = pytest.mark.parametrize("from_scratch", [False, True], ids=["warm", "from scratch"])
PIPES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
LOOK_AROUND = """
import json, os, signal, sys
from outrider import tool

@tool
def nothing() -> str:
    "Nothing."
    return ""

def stream(each):
    attributes = ("name", "mode", "encoding", "errors", "line_buffering", "write_through", "newlines")
    kinds = type(each.buffer).__name__, each.isatty(), each.seekable(), each.fileno()
    return *kinds, *(getattr(each, name) for name in attributes)

umask = os.umask(0o077)
seen = {
    "streams": [stream(each) for each in (sys.__stdin__, sys.__stdout__, sys.__stderr__)],
    "signals": {number.name: str(signal.getsignal(number)).split(" at ")[0] for number in signal.Signals},
    "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "umask": umask,
    "folder": os.getcwd(),
    "environment": dict(os.environ),
    "path": sys.path,
    "arguments": sys.argv,
    "flags": str(sys.flags),
    "main": [sys.modules["__main__"].__name__, sys.modules["__main__"].__spec__.name],
    "files": sorted(os.readlink(f"/proc/self/fd/{each}").split(":")[0] for each in os.listdir("/proc/self/fd")[:-1]),
    "group and session": [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()],
    "threads": len(os.listdir("/proc/self/task")),
    "encodings": [sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.getdefaultencoding()],
}
os.umask(umask)
with open("seen.json", "w") as file:
    json.dump(seen, file, indent=1)
"""


def ends(*arguments: str, **options: Any) -> list[tuple[int, str, str]]:
    """How it ends, warm and from scratch, without what is different each time."""
    ways = (run(*arguments, from_scratch=way, text=True, **PIPES, **options) for way in (False, True))
    return [(each.returncode, same(each.stdout), same(each.stderr)) for each in ways]


def same(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{8,}\b|\d+(\.\d+)? m?s\b|\d\d:\d\d", "…", text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "command",
    [
        *("--version", "", "models anthropic/claude-sonnet-4-5", "config", "sessions"),
        *("-p 2+2 --model demo --output-format stream-json", "-p 2+2 --model nobody/none", "-p --help", "wire --hlep"),
    ],
)
def test_a_command_says_the_same(command: str) -> None:
    warm, from_scratch = ends(*command.split(), env=clean_environment())
    assert warm == from_scratch


@pytest.mark.parametrize("at_terminal", [False, True])
def test_what_it_finds_around_it_is_the_same(tmp_path: Path, at_terminal: bool) -> None:
    (tmp_path / "look.py").write_text(LOOK_AROUND)
    seen = []
    for way in (False, True):
        master, slave = pty.openpty()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), slave) if at_terminal else PIPES
        env = clean_environment() | {"A_BYTE": "caf\udce9"}
        flags = ("-p", "2+2", "--model", "demo", "--tools", "look.py")
        ended = run(*flags, from_scratch=way, cwd=tmp_path, env=env, start_new_session=at_terminal, **streams)
        os.close(slave)
        os.close(master)
        assert ended.returncode == 0, ended.stderr
        found = (tmp_path / "seen.json").read_text()
        seen.append(re.sub(r"/dev/pts/\d+", "/dev/pts/0", found).splitlines())  # others open terminals meanwhile
        (tmp_path / "seen.json").unlink()
    assert seen[0] == seen[1]


@pytest.mark.sampled(2)
@BOTH
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(number: signal.Signals, from_scratch: bool) -> None:
    streams = PIPES | {"stdin": subprocess.PIPE}
    with start("-p", "--model", "demo", from_scratch=from_scratch, env=clean_environment(), **streams) as process:
        assert isinstance(process, Fork) is not from_scratch
        assert process.stdin
        pipe = process.stdin.fileno()
        os.write(pipe, b"What is")
        wait_until(lambda: not unread(pipe), process)  # it waits for the rest
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.poll() is None
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]


@pytest.mark.long
@BOTH
async def test_a_chat_has_its_terminal(project: Path, from_scratch: bool) -> None:
    async with (
        ModelServer([Held(Answer("One, two, three.")), Answer("Done.")]) as server,
        Terminal(cwd=project, from_scratch=from_scratch, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Count.")
        await terminal.wait_for("One")
        terminal.press("c-c")  # comes from the terminal, as a signal or as a key
        await terminal.wait_for("Interrupted")
        await terminal.wait_for_prompt()
        terminal.resize(50, 20)
        terminal.say("And now?")
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        terminal.press("c-d")
        assert await terminal.exit_code() == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
