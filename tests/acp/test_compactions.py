"""Compactions in an editor: as updates of their own, as notices, by command, and in a loaded session."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, allowing, introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer

COMPACTIONS = {"session": {"compaction": {}}}
SUMMARY = "## Goal\nTalk about colours."
LONG = [Answer(f"Noted {number}. {'I see. ' * 300}") for number in range(3)]
SAID = re.compile(r"Compacted: [\d,]+k? → [\d,]+k? tokens")


async def talk(editor: Editor, folder: Path) -> str:
    session = await editor.new(folder)
    for number in range(3):
        await editor.prompt(session, f"My number is {number}.")
    return session


@pytest.mark.parametrize("capabilities", [COMPACTIONS, {"session": {"notices": {}}}, {}], ids=["own", "notice", "none"])
async def test_the_command_compacts_and_the_editor_sees_it(tmp_path: Path, capabilities: dict[str, Any]) -> None:
    async with (
        ModelServer([*LONG, Answer(SUMMARY)]) as server,
        introduced(capabilities=capabilities, **everywhere(server)) as editor,
    ):
        session = await talk(editor, tmp_path)
        seen = editor.seen(session)
        assert {"context", "compact"} <= set(seen.commands)
        assert await editor.prompt(session, "/compact the colours") == "end_turn"
        assert "the colours" in str(json.loads(server.requests[-1].body)["messages"][-1])
        assert SAID.search(seen.text())
        if capabilities == COMPACTIONS:
            [known] = seen.compactions.values()
            assert known["status"] == "completed"
            assert SUMMARY in known["summary"][0]["text"]
            kinds = [each["status"] for each in seen.updates if each["sessionUpdate"] == "compaction_update"]
            assert kinds == ["in_progress", "completed"]
        else:
            said = seen.notices if capabilities else seen.text("thought").splitlines()
            assert any(map(SAID.match, said))
            assert any(each.startswith("Compacting ") for each in said)
            assert not seen.compactions


async def test_how_full_the_context_is_is_sent_after_a_compaction(tmp_path: Path) -> None:
    async with ModelServer([*LONG, Answer(SUMMARY)]) as server, introduced(**everywhere(server)) as editor:
        session = await talk(editor, tmp_path)
        seen = editor.seen(session)
        count = seen.kinds().count("usage_update")
        await editor.prompt(session, "/compact")
        after = [each for each in seen.updates if each["sessionUpdate"] == "usage_update"]
        assert len(after) == count + 1
        assert after[-1]["size"] > after[-1]["used"] > 100


async def test_the_context_is_shown_as_a_table(tmp_path: Path) -> None:
    async with ModelServer([]) as server, introduced(**everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "/context") == "end_turn"
        text = editor.seen(session).text()
    assert re.search(r"of (200k|1M) tokens \(\d+%\)\.", text)
    for part in ("system prompt", "tools", "files", "conversation", "free"):
        assert re.search(rf"^\| {part} \| [\d,.]+[kM]? \| \d+\.\d% \|$", text, re.M)


async def test_nothing_to_compact_is_said(tmp_path: Path) -> None:
    async with introduced() as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "/compact") == "end_turn"
        assert "nothing to compact" in editor.seen(session).text()


async def test_a_cancelled_compaction_ends_as_cancelled_and_changes_nothing(tmp_path: Path) -> None:
    replies = [*LONG, Held(Answer(SUMMARY)), Answer("Nine.")]
    async with (
        ModelServer(replies) as server,
        introduced(capabilities=COMPACTIONS, **everywhere(server)) as editor,
    ):
        session = await talk(editor, tmp_path)
        seen = editor.seen(session)
        number = editor.say(session, "/compact")
        await editor.until(lambda: seen.compactions, "the compaction")
        editor.tell("session/cancel", sessionId=session)
        assert (await editor.answer(number))["stopReason"] == "cancelled"
        assert [each["status"] for each in seen.compactions.values()] == ["cancelled"]
        server.release.set()
        await editor.prompt(session, "Which number?")
        assert "My number is 0." in server.requests[-1].body.decode()


async def test_a_loaded_session_shows_its_compactions_where_they_were(tmp_path: Path) -> None:
    async with (
        ModelServer([*LONG, Answer(SUMMARY), Answer("And on.")]) as server,
        introduced(capabilities=COMPACTIONS, handlers=allowing(), **everywhere(server)) as editor,
    ):
        session = await talk(editor, tmp_path)
        await editor.prompt(session, "/compact")
        await editor.prompt(session, "Go on.")
        await editor.ask("session/close", sessionId=session)
        editor.forget(session)
        await editor.load(session, tmp_path)
        seen = editor.seen(session)
        [known] = seen.compactions.values()
        assert SUMMARY in known["summary"][0]["text"]
        kinds = [each["sessionUpdate"] for each in seen.updates]
        before = [kind for kind in kinds[: kinds.index("compaction_update")] if kind == "user_message_chunk"]
        assert len(before) == 3, "after three messages of the person, before the fourth"
