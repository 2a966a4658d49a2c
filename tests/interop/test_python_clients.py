"""The clients from PyPI with the real agent: the official SDK, and a small one that offers and asks for little."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import judging, scenes
from tests.interop.scenes import SAID, Stage
from tests.modelserver import Answer, Held

HERE = Path(__file__).parent
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


async def test_an_editor_on_the_python_sdk_works_with_outrider(python_sdk: Path, stage: Stage) -> None:
    seen = await stage.drive(str(python_sdk), str(HERE / "python_sdk_driver.py"))
    judging.is_introduced(seen["introduced"])
    judging.has_read(seen["read"], stage.project)
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


async def test_acp_client_works_with_outrider(acp_client: Path, tmp_path: Path) -> None:
    """It sends no pictures and resumes nothing; the rest is as with the others."""
    async with scenes.stage(tmp_path, [Held(Answer(SAID), "first delta"), *scenes.edits()]) as stage:
        seen = await stage.drive(str(acp_client), str(HERE / "acp_client_driver.py"))
        judging.has_read(seen["read"], stage.project)
        judging.is_streamed(seen["streamed"])
        judging.is_edited(seen["allowed"], stage.project)
        judging.is_refused(seen["rejected"], stage.project)
        live = (seen[scene]["updates"] for scene in ("read", "streamed", "allowed", "rejected"))
        judging.is_the_same(seen["loaded"]["updates"], *live)
        judging.was_seen_running(seen["cancelled"])
        await judging.is_cancelled(seen["cancelled"], stage)
        judging.met(seen["left"], seen["right"])
