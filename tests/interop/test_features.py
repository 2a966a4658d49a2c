"""What an editor can use besides turns, with each client. The official schema judges each message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.asking import MODEL
from tests.interop import features
from tests.interop.acpx import Acpx, turn
from tests.interop.scenes import PROMPTS, SYSTEM_PROMPT

HERE = Path(__file__).parent
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


async def test_an_editor_on_the_typescript_sdk_uses_the_features(npm_clients: Path, tmp_path: Path) -> None:
    seen = await _played(
        "TypeScript SDK", tmp_path, "node", str(HERE / "features.mjs"), INTEROP_CLIENTS=str(npm_clients)
    )
    assert (seen["closed"]["exit"], seen["ended"]["exit"]) == (0, 0)


async def test_an_editor_on_the_python_sdk_uses_the_features(python_sdk: Path, tmp_path: Path) -> None:
    await _played("Python SDK", tmp_path, *_driver(python_sdk), INTEROP_EDITOR="python_sdk_editor")


async def test_acp_client_uses_the_features(acp_client: Path, tmp_path: Path) -> None:
    await _played("acp-client", tmp_path, *_driver(acp_client), INTEROP_EDITOR="acp_client_editor")


async def test_acpx_uses_the_features(acpx_program: tuple[str, str], tmp_path: Path) -> None:
    model = "anthropic/balanced"  # it takes no model but those that are offered
    async with features.stage(tmp_path, "command", "skill", "long", "compact") as stage:
        acpx = Acpx(acpx_program, stage)
        seen = {"delegated": await acpx.exec(PROMPTS["delegated"])}
        told = {"policy": f"--system-prompt={SYSTEM_PROMPT}", "OUTRIDER_MODEL": MODEL}
        for scene in ("command", "skill"):
            seen[scene] = await acpx.exec(PROMPTS[scene], **told)
        await acpx("sessions", "new")
        await acpx("set", "model", model)
        [effort], [mode], _ = [
            await acpx("set", option, value)
            for option, value in (("effort", "high"), ("mode", "edits"), ("mode", "plan"))
        ]
        for scene in ("long", "compact"):
            seen[scene] = turn(await acpx("prompt", PROMPTS[scene]))
        await acpx("sessions", "close")
        bodies = [request.body.decode() for request in stage.server.requests]
    results = seen["delegated"]["results"]
    seen |= {
        "introduced": results["initialize"],
        "whole": seen["command"],
        "configured": {"first": results["session/new"]["configOptions"]}
        | {"effort": effort["configOptions"], "mode": mode["configOptions"]},
        "reloaded": {"options": seen["long"]["results"]["session/resume"]["configOptions"]},
    }
    features.judge("acpx", features.Show(seen, bodies, model))


async def _played(client: str, folder: Path, *command: str, **environment: str) -> dict[str, features.Json]:
    async with features.stage(folder) as stage:
        seen = await stage.drive(*command, **environment)
        bodies = [request.body.decode() for request in stage.server.requests]
        assert not (stage.project / "new.txt").exists()
    features.judge(client, features.Show(seen, bodies))
    return seen


def _driver(python: Path) -> tuple[str, str]:
    return str(python), str(HERE / "features_driver.py")
