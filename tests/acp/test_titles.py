"""The title of a session in the editor."""

from __future__ import annotations

from pathlib import Path

from outrider.providers.catalogue.tiers import models_of
from tests.acp.editor import introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer, Recorded

MODEL = "claude-sonnet-5-5"


async def test_a_title_from_the_first_exchange_reaches_the_editor_and_the_list(tmp_path: Path) -> None:
    def reply(request: Recorded) -> Answer:
        return Answer("Flaky login test") if request.json["model"] != MODEL else Answer("It was the clock.")

    settings = {"OUTRIDER_MODEL": f"anthropic/{MODEL}", "OUTRIDER_TITLES": "true"}
    async with ModelServer(reply) as server, introduced(**everywhere(server) | settings) as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "Why is it red?") == "end_turn"
        await editor.until(lambda: editor.seen(session).title == "Flaky login test")
        listed = await editor.ask("session/list")
        assert [each["title"] for each in listed["sessions"]] == ["Flaky login test"]
    assert [request.json["model"] for request in server.requests] == [MODEL, models_of("anthropic")["fast"]]
