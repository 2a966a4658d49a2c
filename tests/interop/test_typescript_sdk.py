"""The official TypeScript SDK as a client of the real agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import judging
from tests.interop.scenes import Stage

HERE = Path(__file__).parent
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


async def test_an_editor_on_the_typescript_sdk_works_with_outrider(npm_clients: Path, stage: Stage) -> None:
    seen = await stage.drive("node", str(HERE / "sdk.mjs"), INTEROP_CLIENTS=str(npm_clients))
    judging.is_introduced(seen["introduced"])
    judging.has_read(seen["read"], stage.project)
    assert seen["read"]["files"] == [["read", str(stage.project / "notes.txt")]], "the editor's own text was read"
    judging.is_streamed(seen["streamed"])
    judging.is_edited(seen["allowed"], stage.project)
    judging.is_refused(seen["rejected"], stage.project)
    judging.was_shown_a_picture(seen["picture"], stage)
    judging.was_seen_running(seen["cancelled"])
    await judging.is_cancelled(seen["cancelled"], stage)
    judging.met(seen["left"], seen["right"])
    live = (seen[scene]["updates"] for scene in ("streamed", "allowed", "rejected", "picture"))
    judging.is_the_same(seen["loaded"]["updates"], *live)
    assert {seen["loaded"]["session"], seen["loaded"]["demo"]} <= set(seen["loaded"]["listed"])
    judging.has_read(seen["resumed"], stage.project)
    assert set(seen["resumed"]["replayed"]) <= {"available_commands_update"}, "what was said is not said again"
    assert seen["refused"]["code"] == -32002
    assert (seen["closed"]["exit"], seen["ended"]["exit"]) == (0, 0)
