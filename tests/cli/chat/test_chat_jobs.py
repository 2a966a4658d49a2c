"""Ctrl-Z, Ctrl-B and `!command`: programs and their terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.chat.terminal import ShellTerminal, Terminal, answered_by, at_the_prompt_with, until
from tests.log import until as until_now
from tests.modelserver import ModelServer
from tests.streams import Answer

WAITS = "echo begun; until [ -e go ]; do echo x >> beats; sleep 0.02; done; echo over"

ROUNDS = 20
STOPS = f"""
import sys, threading, time
from outrider.processes.signals import suspend
from outrider.processes.starting import popen
def start_programs():
    while True:
        popen([sys.executable, "--version"], stdout=-3, start_new_session=True).wait()
threading.Thread(target=start_programs, daemon=True).start()
for round in range({ROUNDS}):
    time.sleep(0.003 + round * 0.0001)  # at any moment of a start
    suspend()
"""


def call(command: str, id: str = "c1") -> tuple[str, str, dict[str, str]]:
    return id, "Bash", {"command": command, "access": "full"}


async def stop(terminal: Terminal) -> None:
    """Press Ctrl-Z, and look at the shell and its terminal."""
    stopped = terminal.transcript.count("Stopped")
    terminal.press("c-z")
    await until(lambda: terminal.transcript.count("Stopped") > stopped, what="the shell")
    sane = terminal.transcript.count("is icanon")
    terminal.say("stty -a | grep -o ' icanon' | sed s/^/is/")
    await until(lambda: terminal.transcript.count("is icanon") > sane, what="a usual terminal")


async def test_control_z_stops_the_chat_at_any_time(project: Path) -> None:
    beats = project / "beats"
    async with (
        ModelServer([Answer(calls=(call(WAITS),)), Answer("All done.")]) as server,
        ShellTerminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        await stop(terminal)
        terminal.say("fg")
        await terminal.wait_for_prompt()
        terminal.say("Go")
        await terminal.wait_for("yes, once")
        await stop(terminal)  # a question is open
        before = terminal.transcript.count("yes, once")
        terminal.say("fg")
        await until(lambda: terminal.transcript.count("yes, once") > before, what="the question")
        terminal.press("y")
        await terminal.wait_for(beats.exists)
        await stop(terminal)  # the agent works, and its command goes on
        size = beats.stat().st_size
        await until(lambda: beats.stat().st_size > size + 20, what="the command")
        (project / "go").touch()
        terminal.say("fg")
        await terminal.wait_for("All done.")
        await terminal.wait_for_prompt()
        terminal.say("/model")
        await terminal.wait_for("type to search")
        await stop(terminal)
        terminal.say("fg")
        await terminal.wait_for(re.compile(r"type to search[^>]*$"))
        terminal.press("escape")
        await terminal.wait_for_prompt()
        assert terminal.transcript.count("All done.") == 1


async def test_control_z_stops_a_single_prompt(project: Path) -> None:
    async with (
        ModelServer([Answer(calls=(call(WAITS),)), Answer("All done.")]) as server,
        ShellTerminal("-p", "Go", "--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await until((project / "beats").exists)
        await stop(terminal)
        (project / "go").touch()
        terminal.say("fg")
        await terminal.wait_for("All done.")


def test_a_program_stops_while_its_threads_start_others() -> None:
    """A shell that is not told that it has stopped waits for ever."""
    with subprocess.Popen([sys.executable, "-c", STOPS], process_group=0) as process:
        try:
            for _ in range(ROUNDS):
                until_now(lambda: os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)[0], 30)
                os.killpg(process.pid, signal.SIGCONT)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


async def test_control_b_moves_the_running_command_to_the_background(project: Path) -> None:
    async with (
        ModelServer([Answer(calls=(call(WAITS),)), Answer("Meanwhile.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Go")
        await terminal.wait_for("begun")
        await until((project / "beats").exists)
        terminal.press("c-b")
        await terminal.wait_for("Meanwhile.")
        assert "/tasks 1 follows it" in terminal.screen
        told = server.requests[1].json["messages"][-1]["content"][0]
        assert "The user has moved the command, with its output so far, to the background" in str(told)
        await terminal.wait_for_prompt()
        await terminal.wait_for(re.compile(r"· 1 task"))
        terminal.say("/tasks 1")
        await terminal.wait_for("Following command 1")
        (project / "go").touch()
        await terminal.wait_for("Command 1 has ended. Exit code 0.")
        assert "over" in terminal.screen
        await terminal.wait_for_prompt()


# The user's own commands


async def test_own_commands_have_the_terminal(project: Path) -> None:
    async with ModelServer([Answer("Seen.")]) as server, Terminal(cwd=project, **answered_by(server)) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("!vi -u NONE -i NONE -n notes.txt")
        await terminal.wait_for(re.compile(r"^Buy milk\.\nFeed the cat\.\n~\n~", re.MULTILINE))
        terminal.resize(60, 12)
        await terminal.wait_for(lambda: len(re.findall("^~", terminal.screen, re.MULTILINE)) == 9)
        terminal.type("ddihello \x1b:wq\r")
        await terminal.wait_for_prompt()
        assert (project / "notes.txt").read_text() == "hello Feed the cat.\n"
        assert b"\x1b[?1049l" in terminal.raw  # the screen before it is shown again
        terminal.say("!python3 -q -i -c ''")
        await terminal.wait_for(">>>")
        terminal.say("6*7")
        await terminal.wait_for(re.compile("^42$", re.MULTILINE))
        terminal.press("c-c")
        await terminal.wait_for("KeyboardInterrupt")
        terminal.say("exit(4)")
        await terminal.wait_for("Exit code 4.")
        await terminal.wait_for_prompt()
        terminal.say("!read -sp 'Password: ' x </dev/tty; echo; tty; stty size; kill -TSTP $$; printf %s ${#x}")
        await terminal.wait_for(re.compile("^Password:", re.MULTILINE))
        terminal.say("hunter2")
        await terminal.wait_for("The agent sees this")
        await at_the_prompt_with(terminal, "What?")
        sent = "\n".join(part["text"] for part in server.requests[0].json["messages"][0]["content"])
    assert "vi -u NONE" in sent
    assert ">>> 6*7\n42\n" in sent
    assert "Exit code: 4" in sent
    assert re.search(r"Password:\n/dev/pts/\d+\n12 60\n7", sent)
    assert "hunter2" not in sent.replace("hunter2\r", "")
    assert "\x1b" not in sent
