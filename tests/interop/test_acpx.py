"""acpx, a client for the command line, with the real agent. It has files and terminals of its own, and no pictures."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.cli.asking import MODEL
from tests.interop import judging, scenes
from tests.interop.acpx import Acpx, Json, turn
from tests.interop.scenes import BEGUN, PROMPTS, SAID, Stage
from tests.modelserver import Answer, Held

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


async def test_acpx_runs_single_turns(acpx_program: tuple[str, str], tmp_path: Path) -> None:
    read, edit, done, again = scenes.edits()
    steps = [Held(Answer(SAID), "first delta"), read, edit, done, read, again]
    async with scenes.stage(tmp_path, steps) as stage:
        acpx = Acpx(acpx_program, stage)
        seen = await acpx.exec(PROMPTS["read"])
        judging.has_read(seen, stage.project)
        assert "fs/read_text_file" in seen["methods"]

        def release(line: Json, _: object) -> None:
            if "agent_message_chunk" in json.dumps(line):
                stage.server.release.set()

        judging.is_streamed(await acpx.exec(PROMPTS["streamed"], watch=release, OUTRIDER_MODEL=MODEL))
        judging.is_untouched(stage.project)
        seen = await acpx.exec(PROMPTS["allowed"], OUTRIDER_MODEL=MODEL)
        judging.is_edited(seen, stage.project)
        assert "fs/write_text_file" in seen["methods"]
        # Its exit code says that something was denied.
        seen = await acpx.exec(PROMPTS["rejected"], policy="--deny-all", exits=[5], OUTRIDER_MODEL=MODEL)
        judging.is_refused(seen, stage.project)


async def test_acpx_cancels_a_command_in_its_terminal(acpx_program: tuple[str, str], stage: Stage) -> None:
    acpx = Acpx(acpx_program, stage)
    interrupted: list[asyncio.Task[None]] = []

    async def interrupt(process: asyncio.subprocess.Process) -> None:
        while not (stage.project / BEGUN).exists():
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGINT)

    def watch(line: Json, process: asyncio.subprocess.Process) -> None:
        if line.get("method") == "terminal/wait_for_exit":
            interrupted.append(asyncio.ensure_future(interrupt(process)))

    seen = await acpx.exec(PROMPTS["cancelled"], watch=watch, exits=[0])
    await asyncio.gather(*interrupted)
    assert [method for method in seen["methods"] if method.startswith("terminal/")][-1] == "terminal/release"
    [call] = judging.calls(seen["updates"]).values()
    assert "terminal" in [item["type"] for item in call["content"]]
    assert seen["printed"] == "started\n", "what the terminal showed reaches the model"
    await judging.is_cancelled(seen, stage)


async def test_acpx_resumes_a_session_and_keeps_it_open(acpx_program: tuple[str, str], stage: Stage) -> None:
    acpx = Acpx(acpx_program, stage)
    [created] = await acpx("sessions", "new")
    assert created["created"] is True
    resumed = turn(await acpx("prompt", PROMPTS["read"]))
    assert "session/resume" in resumed["methods"]
    judging.has_read(resumed, stage.project)
    later = turn(await acpx("prompt", PROMPTS["read"]))
    assert "initialize" not in later["methods"], "the agent was still there"
    judging.has_read(later, stage.project)
    [changed] = await acpx("set-mode", "edits")
    assert changed["modeId"] == "edits"
    [known] = await acpx("sessions", "show")
    questions = [message["User"]["content"] for message in known["messages"] if "User" in message]
    assert questions == [[{"Text": PROMPTS["read"]}]] * 2
    assert await acpx("sessions", "close")


async def test_acpx_runs_two_sessions_at_once(acpx_program: tuple[str, str], stage: Stage) -> None:
    acpx = Acpx(acpx_program, stage)
    left, right = await asyncio.gather(*(acpx.exec(PROMPTS[name], folder=name) for name in ("left", "right")))
    for report, name in ((left, "left"), (right, "right")):
        [call] = judging.calls(report["updates"]).values()
        assert (report["stop"], call["status"]) == ("end_turn", "completed")
        assert (stage.folder / name / BEGUN).exists()
