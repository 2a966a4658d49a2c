"""acpx, a client for the command line, with the real agent. It has files and terminals of its own, and no pictures."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.cli.asking import MODEL
from tests.interop import judging, scenes
from tests.interop.scenes import BEGUN, PROMPTS, SAID, Stage
from tests.modelserver import Answer, Held

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
Json = dict[str, Any]


class Acpx:
    """The program, as a person calls it."""

    def __init__(self, clients: Path, stage: Stage) -> None:
        self._program = str(clients / "node_modules" / ".bin" / "acpx")
        self._stage = stage

    async def __call__(
        self,
        *arguments: str,
        folder: str = "project",
        policy: str = "--approve-all",
        exits: Collection[int] = (0,),
        watch: Callable[[Json, asyncio.subprocess.Process], None] = lambda line, process: None,
        **environment: str,
    ) -> list[Json]:
        """The lines that it printed, all of them JSON. `watch` is told of each."""
        flags = (policy, "--format", "json", "--json-strict", "--ttl", "10")
        where = ("--cwd", str(self._stage.folder / folder), "--agent", "outrider acp")
        lines: list[Json] = []
        async with self._stage.running(self._program, *flags, *where, *arguments, **environment) as process:
            assert process.stdout
            async for line in process.stdout:
                lines.append(json.loads(line))
                watch(lines[-1], process)
            assert process.stderr
            complaints = (await process.stderr.read()).decode()
            assert (await process.wait() in exits, complaints) == (True, ""), f"exit {process.returncode} after {lines}"
        return lines

    async def exec(self, prompt: str, **options: Any) -> Json:
        """One turn in a session of its own."""
        return turn(await self("exec", prompt, **options))


def turn(lines: list[Json]) -> Json:
    """What happened in the last turn of these lines."""
    stops = [line["result"]["stopReason"] for line in lines if "stopReason" in line.get("result", {})]
    told = [line["params"]["update"] for line in lines if line.get("method") == "session/update"]
    asked = [line["params"] for line in lines if line.get("method") == "session/request_permission"]
    methods = [line["method"] for line in lines if "method" in line]
    printed = "".join(line["result"]["output"] for line in lines if "output" in line.get("result", {}))
    return {"stop": stops[-1], "updates": told, "permissions": asked, "methods": methods, "printed": printed}


async def test_acpx_runs_single_turns(npm_clients: Path, tmp_path: Path) -> None:
    read, edit, done, again, stays = scenes.edits()
    steps = [Held(Answer(SAID), "first delta"), read, edit, done, read, again, stays]
    async with scenes.stage(tmp_path, steps) as stage:
        acpx = Acpx(npm_clients, stage)
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


async def test_acpx_cancels_a_command_in_its_terminal(npm_clients: Path, stage: Stage) -> None:
    acpx = Acpx(npm_clients, stage)
    interrupted: list[asyncio.Task[None]] = []

    async def interrupt(process: asyncio.subprocess.Process) -> None:
        while not (stage.project / BEGUN).exists():
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGINT)

    def watch(line: Json, process: asyncio.subprocess.Process) -> None:
        if line.get("method") == "terminal/create":
            interrupted.append(asyncio.ensure_future(interrupt(process)))

    seen = await acpx.exec(PROMPTS["cancelled"], watch=watch, exits=[0])
    await asyncio.gather(*interrupted)
    assert [method for method in seen["methods"] if method.startswith("terminal/")][-1] == "terminal/release"
    [call] = judging.calls(seen["updates"]).values()
    assert "terminal" in [item["type"] for item in call["content"]]
    assert seen["printed"] == "started\n", "what the terminal showed reaches the model"
    await judging.is_cancelled(seen, stage)


async def test_acpx_loads_a_session_for_each_prompt(npm_clients: Path, stage: Stage) -> None:
    acpx = Acpx(npm_clients, stage)
    [created] = await acpx("sessions", "new")
    assert created["created"] is True
    judging.has_read(turn(await acpx("prompt", PROMPTS["read"])), stage.project)
    later = turn(await acpx("prompt", PROMPTS["read"]))
    assert "session/load" in later["methods"]
    judging.has_read(later, stage.project)
    [changed] = await acpx("set-mode", "edits")
    assert changed["modeId"] == "edits"
    [known] = await acpx("sessions", "show")
    questions = [message["User"]["content"] for message in known["messages"] if "User" in message]
    assert questions == [[{"Text": PROMPTS["read"]}]] * 2
    assert await acpx("sessions", "close")


async def test_acpx_runs_two_sessions_at_once(npm_clients: Path, stage: Stage) -> None:
    acpx = Acpx(npm_clients, stage)
    left, right = await asyncio.gather(*(acpx.exec(PROMPTS[name], folder=name) for name in ("left", "right")))
    for report, name in ((left, "left"), (right, "right")):
        [call] = judging.calls(report["updates"]).values()
        assert (report["stop"], call["status"]) == ("end_turn", "completed")
        assert (stage.folder / name / BEGUN).exists()
