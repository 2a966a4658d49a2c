"""What an editor can use besides turns, with the official TypeScript SDK. The official schema judges each update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acp import official
from tests.interop import scenes
from tests.modelserver import Answer

HERE = Path(__file__).parent
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
SUMMARY = "## Goal\nTalk about colours."
WRITE = {"file_path": "new.txt", "content": "Not wanted."}
LOOK = {"command": "until [ -e go ]; do sleep 0.02; done"}
STEPS = [
    Answer("Arr. " * 300),
    Answer("Ahoy, Ada."),
    Answer("It is tidy."),
    Answer("", calls=(("toolu_one", "Write", WRITE),)),
    Answer("", calls=(("toolu_two", "Write", WRITE),)),
    Answer("Then not."),
    Answer("I look.", calls=(("toolu_look", "Bash", LOOK),)),
    Answer("En français."),
    Answer(SUMMARY),
]


async def test_an_editor_can_use_what_the_protocol_has_besides_turns(npm_clients: Path, tmp_path: Path) -> None:
    async with scenes.stage(tmp_path, STEPS) as stage:
        _write(stage.project / ".outrider/commands/greet.md", "Greet $ARGUMENTS warmly.")
        _write(stage.project / ".outrider/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies.\n---\nTidy up.")
        seen = await stage.drive("node", str(HERE / "features.mjs"), INTEROP_CLIENTS=str(npm_clients))
        bodies = [request.body.decode() for request in stage.server.requests]
    assert {each["id"] for each in seen["introduced"]["authMethods"]} >= {"anthropic-key", "outrider-login"}
    assert all("Speak like a pirate." in body for body in bodies[:-1]), "the client's system prompt is sent"
    _is_configured(seen["configured"])
    assert "Greet Ada warmly." in bodies[1]
    assert "Tidy up." in bodies[2]
    assert len(seen["never"]["permissions"]) == 1, "the second call is rejected without a question"
    assert not (stage.project / "new.txt").exists()
    assert seen["queued"]["stops"] == ["end_turn", "end_turn"]
    assert "Answer in French." in bodies[7]
    whole = seen["forked"]["updates"]
    kinds = {each["sessionUpdate"] for each in whole}
    assert {"session_info_update", "available_commands_update", "usage_update", "compaction_update"} <= kinds
    [*_, commands] = [
        each["availableCommands"] for each in whole if each["sessionUpdate"] == "available_commands_update"
    ]
    assert {"greet", "tidy", "compact"} <= {each["name"] for each in commands}
    assert "Talk about colours." in str([each for each in whole if each["sessionUpdate"].startswith("compaction")])
    assert "Talk about colours." in str(seen["loaded"]["updates"]), "what is open can be loaded"
    assert seen["forked"]["fork"] != seen["forked"]["session"]
    for each in whole:
        official.check("SessionNotification", {"sessionId": seen["forked"]["session"], "update": each}, unstable=True)
    assert seen["closed"]["exit"] == 0


def _is_configured(scene: dict[str, Any]) -> None:
    values = {name: {each["id"]: each["currentValue"] for each in scene[name]} for name in ("first", "effort", "mode")}
    assert set(values["first"]) >= {"mode", "model"}
    assert values["effort"]["effort"] == "high"
    assert values["mode"]["mode"] == "edits"
    assert {each["id"]: each["currentValue"] for each in scene["again"]}["mode"] == "ask"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
