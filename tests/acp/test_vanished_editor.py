"""Editors that go away or hang, and agents that are killed: nothing is lost, nothing runs on, no call stays open."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acp.editor import DEADLINE, Editor, allowing, introduced, running
from tests.acp.test_prompting import PNG
from tests.cli.asking import everywhere, is_alive
from tests.cli.program import clean_environment
from tests.modelserver import Answer, Held, ModelServer
from tests.processes import is_running

ALL = ("--permissions", "all")
SEED = 20_267
KILLS = 12


async def wait_for(true: Callable[[], object]) -> None:
    until = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


async def check_loadable(session: str, folder: Path) -> Editor:
    """Another process can load it, all that began has an end, and it goes on."""
    async with introduced(*ALL) as editor:
        await editor.load(session, folder)
        assert not editor.seen(session).open_calls
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn"
        assert editor.seen(session).text().endswith("4")
        return editor


@pytest.mark.parametrize("closed", ["input", "output", "both"])
async def test_an_editor_that_closes_its_pipes_leaves_nothing_running(tmp_path: Path, closed: str) -> None:
    pid = tmp_path / "pid"
    async with introduced(*ALL) as editor:
        session = await editor.new(tmp_path)
        editor.say(session, "run `echo $$ > pid; while true; do echo more; sleep 0.02; done`")
        await editor.until(lambda: pid.exists() and pid.read_text())
        if closed != "input":
            editor._transport.close()
        if closed != "output":
            editor.process.stdin.close()  # type: ignore[union-attr]
        assert await asyncio.to_thread(editor.process.wait, DEADLINE) == 0
        await wait_for(lambda: not is_running(pid))
    seen = (await check_loadable(session, tmp_path)).seen(session)
    assert seen.call("Bash")["status"] == "failed"


MOMENTS: dict[str, tuple[int, str]] = {
    "session/new was sent": (1, ""),
    "session/new was answered": (2, ""),
    "a command runs": (2, "run `echo one; sleep 30`"),
    "text is streamed": (2, "What is 2 + 2?"),
    "sub-agents work": (2, 'Delegate "read everything" and "run `echo three`" as a table of file and lines'),
}
"""How many answers an editor waits for before it goes, and what it says last."""


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_editor_that_goes_away_at_any_moment_leaves_no_traceback(tmp_path: Path, moment: str) -> None:
    answers, prompt = MOMENTS[moment]
    async with running(*ALL, stderr=subprocess.PIPE) as editor:
        assert editor.process.stdin
        assert editor.process.stderr
        await editor.initialize()
        new = editor.begin("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        if answers == 2:
            session = (await editor.answer(new))["sessionId"]
        if prompt:
            heard = len(editor.received)
            editor.say(session, prompt)
            await editor.until(lambda: len(editor.received) > heard + 1, "the beginning of the turn")
        editor._transport.close()
        editor.process.stdin.close()
        assert await asyncio.to_thread(editor.process.wait, DEADLINE) == 0
        assert editor.process.stderr.read().decode() == ""


CLIENT = """
import json, subprocess, sys
agent = subprocess.Popen([sys.executable, "-m", "outrider", "acp", "--permissions", "all"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(id, method, **params):
    line = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    agent.stdin.write(line.encode() + b"\\n"); agent.stdin.flush()
    while id < 3:
        answer = json.loads(agent.stdout.readline())
        if answer.get("id") == id:
            return answer["result"]
ask(1, "initialize", protocolVersion=1)
session = ask(2, "session/new", cwd=sys.argv[1], mcpServers=[])["sessionId"]
print(agent.pid, session, flush=True)
ask(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "run `echo $$ > pid; sleep 60`"}])
agent.stdout.read()
"""


async def test_an_editor_that_is_killed_takes_the_agent_and_its_commands_along(tmp_path: Path) -> None:
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, str(tmp_path)),
        stdout=subprocess.PIPE,
        env=clean_environment() | {"OUTRIDER_MODEL": "demo"},
    )
    assert client.stdout
    agent, session = (await asyncio.wait_for(client.stdout.readline(), DEADLINE)).decode().split()
    pid = tmp_path / "pid"
    await wait_for(lambda: pid.exists() and pid.read_text())
    client.send_signal(signal.SIGKILL)
    await client.wait()
    await wait_for(lambda: not is_alive(int(agent)) and not is_running(pid))
    assert (await check_loadable(session, tmp_path)).seen(session).call("Bash")["status"] == "failed"


@pytest.mark.long
async def test_an_agent_that_is_killed_at_any_moment_leaves_a_session_without_open_calls(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    prompts = (
        "read notes.txt",
        "run `echo one; sleep 0.02; echo two`",
        'Delegate "read everything" and "run `echo three`" as a table of file and lines',
        "explore this folder",
    )
    session, statuses = "", set()
    for number in range(KILLS):
        async with introduced(handlers=allowing()) as editor:
            if session:
                await editor.load(session, tmp_path)
                assert not editor.seen(session).open_calls
                statuses |= {call["status"] for call in editor.seen(session).calls.values()}
            else:
                session = await editor.new(tmp_path)
            heard, moment = len(editor.received), chance.randrange(12)
            asked = editor.say(session, prompts[number % len(prompts)])
            is_whole = number == KILLS - 2  # one turn ends, however slow the machine is
            await editor.until(
                lambda: editor.has_answer(asked) or (len(editor.received) >= heard + moment and not is_whole),  # noqa: B023
                "the moment",
            )
            editor.process.kill()
            await editor.ended()
    await check_loadable(session, tmp_path)
    assert "completed" in statuses


async def test_an_editor_that_hangs_stops_nobody_and_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(PNG + bytes(3_000_000))
    replies = [
        *(Answer(calls=(("r", "Read", {"file_path": "large.png"}),)), Answer("I see.")),
        Answer(calls=(("b", "Bash", {"command": "head -c 60000000 /dev/zero | base64; touch printed"}),)),
        Held(Answer("Words, and then the answer."), "all but the end"),
    ]
    capabilities = {"_meta": {"terminal_output": True}}
    async with (
        ModelServer(replies) as server,
        introduced(*ALL, capabilities=capabilities, **everywhere(server)) as editor,
    ):
        one, two = await editor.new(tmp_path), await editor.new(tmp_path)
        await editor.pause()
        before, heard = memory(editor.process.pid), len(editor.lines)
        asked = [editor.say(one, "Look at it")]
        await wait_for(lambda: len(server.requests) == 2)  # the picture is told, and is more than fits into a pipe
        asked.append(editor.say(two, "Print much"))
        await wait_for(server.held.is_set)
        grown = memory(editor.process.pid) - before
        assert (tmp_path / "printed").exists()
        assert len(editor.lines) == heard, "it really hangs"
        server.release.set()
        third = editor.begin("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        editor.resume()
        for request in asked:
            assert await editor.answer(request) == {"stopReason": "end_turn"}
        assert (await editor.answer(third))["sessionId"]
        answer = next(index for index, each in enumerate(editor.received) if each.get("id") == asked[1])
        assert "Words, and then the answer." in str(editor.received[:answer])
        assert not editor.seen(one).open_calls
        assert not editor.seen(two).open_calls
        assert editor.seen(one).calls["r"]["content"][-1]["content"]["type"] == "image"
    assert grown < 64 * 1024 * 1024


def memory(pid: int) -> int:
    """Bytes that a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
