"""What MCP servers ask of the user, with the forms of an editor on the official TypeScript SDK."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acp import official
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


async def test_a_question_of_a_server_is_a_form_and_its_answer_reaches_the_server(
    npm_clients: Path, tmp_path: Path
) -> None:
    server = scripted()
    given = {"name": server.name, "command": server.command, "args": list(server.args), "env": []}
    async with scenes.stage(tmp_path, STEPS) as stage:
        stage.environment["OUTRIDER_MODEL"] = stage.play["model"]
        seen = await stage.drive(
            "node",
            str(HERE / "elicitation.mjs"),
            INTEROP_CLIENTS=str(npm_clients),
            INTEROP_SERVER=json.dumps(given),
        )
        results = [request.json["messages"][-1]["content"] for request in stage.server.requests[1::2]]
    for name in SCENES:
        (form,) = seen[name]["forms"]
        official.check("CreateElicitationRequest", form, unstable=True)
        assert (form["mode"], form["message"]) == ("form", "The MCP server scripted asks: Who are you?")
        assert set(form["requestedSchema"]["properties"]) == {"name", "age"}
        assert seen[name]["stop"] == "end_turn"
    accepted, declined, cancelled = map(str, results)
    assert "accept" in accepted
    assert "Ada" in accepted
    assert "36" in accepted
    assert "decline" in declined
    assert "cancel" in cancelled
    assert seen["closed"]["exit"] == 0
