"""How much the model thinks, as an option of a session in the editor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.acp.editor import introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

MODEL = "anthropic/claude-sonnet-5-5"


def option(options: list[dict[str, Any]]) -> dict[str, Any]:
    return next((each for each in options if each["id"] == "effort"), {})


async def test_the_effort_is_an_option_and_is_kept_when_a_session_is_loaded(tmp_path: Path) -> None:
    async with (
        ModelServer([Answer("One."), Answer("Two.")]) as server,
        introduced(**everywhere(server) | {"OUTRIDER_MODEL": MODEL}) as editor,
    ):
        session = await editor.new(tmp_path)

        async def change(**values: Any) -> dict[str, Any]:
            changed = await editor.ask("session/set_config_option", sessionId=session, **values)
            return option(changed["configOptions"])

        found = await change(configId="effort", value="low")
        assert (found["currentValue"], found["category"]) == ("low", "thought_level")
        assert [each["value"] for each in found["options"]] == ["default", "none", "low", "medium", "high", "max"]
        assert await editor.prompt(session, "Hello") == "end_turn"
        await editor.prompt(session, "/effort max")
        assert "Effort: max." in editor.seen(session).text()
        refused = await editor.refusal("session/set_config_option", sessionId=session, configId="effort", value="huge")
        assert refused.code == -32602
        await editor.ask("session/close", sessionId=session)
        loaded = await editor.load(session, tmp_path)
        assert option(loaded["configOptions"])["currentValue"] == "max"
        assert await editor.prompt(session, "Again") == "end_turn"
        assert await change(configId="model", value="demo") == {}, "a model without effort has no such option"
    assert [request.json["output_config"]["effort"] for request in server.requests] == ["low", "max"]
