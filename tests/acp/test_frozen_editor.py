"""Editors that freeze in a flood of output, or go away at random moments: bounded memory, nothing lost, no traceback.

The short forms freeze for a second and kill twice; the long ones freeze for ten seconds and kill at many moments.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.acp.editor import DEADLINE, introduced, running
from tests.acp.test_vanished_editor import ALL, check_loadable, memory, wait_for
from tests.cli.asking import everywhere
from tests.lengths import only_long
from tests.modelserver import Answer, ModelServer
from tests.processes import is_running

MOST_GROWTH = 64 * 1024 * 1024
FLOOD = """\
line=$(printf '%0100d' 7)
while [ ! -e thawed ]; do for n in 1 2 3 4 5 6 7 8 9 10; do echo "$line"; done; done
echo the last line
"""
"""It prints as fast as it can for as long as the editor is frozen."""
KINDS = {"replaced": {}, "appended": {"_meta": {"terminal_output": True}}}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "seconds"), [("replaced", 1.0), ("appended", 1.0), *only_long(("replaced", 10.0), ("appended", 10.0))]
)
async def test_an_editor_that_freezes_in_a_flood_gets_the_rest_when_it_thaws(
    tmp_path: Path, kind: str, seconds: float
) -> None:
    (tmp_path / "flood.sh").write_text(FLOOD)
    replies = [Answer("", (("b", "Bash", {"command": "sh flood.sh"}),)), Answer("It is over.")]
    async with (
        ModelServer(replies) as server,
        introduced(*ALL, capabilities=KINDS[kind], stderr=subprocess.PIPE, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        asked = editor.say(session, "Run it")
        await editor.until(lambda: "b" in editor.seen(session).calls, "the call")
        await editor.pause()
        before, heard = memory(editor.process.pid), len(editor.lines)
        until, most = time.monotonic() + seconds, before
        while time.monotonic() < until:
            most = max(most, memory(editor.process.pid))
            await asyncio.sleep(0.05)
        assert len(editor.lines) == heard, "it really is frozen"
        (tmp_path / "thawed").touch()
        await wait_for(lambda: len(server.requests) == 2)  # the run goes on without the editor
        most = max(most, memory(editor.process.pid))
        editor.resume()
        assert await editor.answer(asked) == {"stopReason": "end_turn"}
        seen = editor.seen(session)
        assert not seen.open_calls
        assert seen.calls["b"]["status"] == "completed"
        assert "the last line" in (seen.terminals["b"] if kind == "appended" else str(seen.calls["b"]["content"]))
        assert seen.text().endswith("It is over.")
        assert await editor.close() == 0
        assert editor.process.stderr
        assert editor.process.stderr.read().decode() == ""
    assert most - before < MOST_GROWTH


@pytest.mark.parametrize("seed", [1, 2, *only_long(*range(3, 23))])
async def test_an_editor_that_is_gone_at_a_random_moment_loses_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pid = tmp_path / "pid"
    steps = chance.randrange(1, 40)
    async with running(*ALL, stderr=subprocess.PIPE) as editor:
        assert editor.process.stdin
        assert editor.process.stderr
        await editor.initialize()
        session = await editor.new(tmp_path)
        heard = len(editor.received)
        editor.say(session, "run `echo $$ > pid; for n in $(seq 1000); do echo $n; sleep 0.01; done`")
        await editor.until(lambda: len(editor.received) >= heard + steps, "the moment")
        for close in chance.sample([editor._transport.close, editor.process.stdin.close], 2):
            close()
        assert await asyncio.to_thread(editor.process.wait, DEADLINE) == 0
        assert editor.process.stderr.read().decode() == ""
        await wait_for(lambda: not pid.exists() or not is_running(pid))
    await check_loadable(session, tmp_path)
