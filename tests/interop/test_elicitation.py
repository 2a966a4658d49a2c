"""What MCP servers ask of the user, with the forms of editors on the official SDKs. The official schema judges each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop import scenes
from tests.mcp.starting import scripted
from tests.modelserver import Answer

HERE = Path(__file__).parent
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
SCENES = ("accepted", "declined", "cancelled")
STEPS = [
    step
    for name in SCENES
    for step in (Answer("", calls=((f"toolu_{name}", "mcp__scripted__ask", {"text": "Who are you?"}),)), Answer("So."))
]


async def test_a_question_of_a_server_is_a_form_of_the_typescript_sdk(npm_clients: Path, tmp_path: Path) -> None:
    seen = await _played(tmp_path, "node", str(HERE / "elicitation.mjs"), INTEROP_CLIENTS=str(npm_clients))
    for name in SCENES:
        assert [form["mode"] for form in seen[name]["forms"]] == ["form"]
    assert seen["closed"]["exit"] == 0


async def test_a_question_of_a_server_is_a_form_of_the_python_sdk(python_sdk: Path, tmp_path: Path) -> None:
    await _played(tmp_path, str(python_sdk), str(HERE / "elicitation_driver.py"))


async def _played(folder: Path, *command: str, **environment: str) -> dict[str, dict[str, Any]]:
    """Let a client answer three questions of a server. Each answer must reach the server, and so the model."""
    server = scripted()
    given = {"name": server.name, "command": server.command, "args": list(server.args), "env": []}
    async with scenes.stage(folder, STEPS) as stage:
        stage.environment["OUTRIDER_MODEL"] = stage.play["model"]
        seen = await stage.drive(*command, INTEROP_SERVER=json.dumps(given), **environment)
        results = [str(request.json["messages"][-1]["content"]) for request in stage.server.requests[1::2]]
    for name in SCENES:
        (form,) = seen[name]["forms"]
        assert form["message"] == "The MCP server scripted asks: Who are you?"
        assert set(form["requestedSchema"]["properties"]) == {"name", "age"}
        assert seen[name]["stop"] == "end_turn"
    accepted, declined, cancelled = results
    assert all(word in accepted for word in ("accept", "Ada", "36"))
    assert "decline" in declined
    assert "cancel" in cancelled
    return seen
