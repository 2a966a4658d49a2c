"""`/rewind` and `/tasks` in an editor."""

from __future__ import annotations

from pathlib import Path

from tests.acp.editor import introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

ALL = ("--permissions", "all")


def command(text: str, **arguments: object) -> Answer:
    return Answer(calls=(("c1", "Bash", {"command": text, "access": "full", **arguments}),))


async def test_an_editor_rewinds_conversation_and_files_with_a_preview_and_undo(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\n")
    replies = [Answer("Hello."), command("echo two > notes.txt"), Answer("Done."), Answer("Again.")]
    async with ModelServer(replies) as server, introduced(*ALL, **everywhere(server)) as editor:
        session = await editor.new(tmp_path)

        async def said(text: str) -> str:
            before = len(editor.seen(session).text())
            assert await editor.prompt(session, text) == "end_turn"
            return editor.seen(session).text()[before:]

        await said("Hello")
        await said("Change it")
        assert notes.read_text() == "two\n"
        assert "   2  Change it" in await said("/rewind")
        preview = await said("/rewind 2")
        assert "-two\n+one" in preview
        assert "/rewind 2 both" in preview
        assert notes.read_text() == "two\n", "a preview changes nothing"
        assert "restored 1 file" in await said("/rewind 2 both")
        assert notes.read_text() == "one\n"
        assert "no user message 7" in await said("/rewind 7")
        assert "Write /rewind" in await said("/rewind everything")
        await said("Another way")
        assert "Change it" not in str(server.requests[-1].json["messages"])
        assert "Took back" in await said("/rewind undo")
        assert notes.read_text() == "two\n"
        shown = await said("/undo")
        assert "-two\n+one" in shown
        assert "To do it: /undo yes" in shown
        assert "/undo again goes further back, /redo returns." in await said("/undo yes")
        assert notes.read_text() == "one\n"
        assert "Took back" in await said("/redo")
        assert notes.read_text() == "two\n"


async def test_an_editor_lists_shows_and_ends_background_commands(tmp_path: Path) -> None:
    replies = [command("echo ready; sleep 1000", run_in_background=True), Answer("It runs.")]
    async with ModelServer(replies) as server, introduced(*ALL, **everywhere(server)) as editor:
        session = await editor.new(tmp_path)

        async def said(text: str) -> str:
            before = len(editor.seen(session).text())
            assert await editor.prompt(session, text) == "end_turn"
            return editor.seen(session).text()[before:]

        assert "Nothing runs" in await said("/tasks")
        await said("Start the server")
        assert "   1  running" in await said("/tasks")
        assert "```\nready\n```" in await said("/tasks 1")
        assert "no background command 2" in await said("/tasks 2")
        assert "Command 1 was ended." in await said("/tasks end 1")
        while "ended" not in (listed := await said("/tasks")):
            assert "running" in listed
        assert "You have ended it." in await said("/tasks 1")
