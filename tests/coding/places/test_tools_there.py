"""The tools where there is only a Python: from `-p` and from an editor, with the bundle alone."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from tests.acp.editor import Refused, introduced
from tests.acp.test_editor_buffers import Buffers, offering
from tests.cli.asking import everywhere
from tests.cli.program import outrider
from tests.coding.places import needs_other_root
from tests.modelserver import ModelServer
from tests.other_root import OtherRoot
from tests.streams import Answer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def root(tmp_path: Path, one_bundle: None) -> OtherRoot:
    """Return a root with a project in it."""
    root = OtherRoot(tmp_path / "root", programs=True)
    (root.home / "notes.txt").write_text("Buy milk.\n")
    (root.home / "dot.png").write_bytes(PNG)
    (root.home / "AGENTS.md").write_text("Speak softly.")
    return root


@needs_other_root
async def test_every_tool_works_with_the_bundle_alone(root: OtherRoot, tmp_path: Path) -> None:
    calls = (
        ("c1", "Read", {"file_path": "notes.txt"}),
        ("c2", "Read", {"file_path": "dot.png"}),
        ("c3", "Write", {"file_path": "new/made.txt", "content": "one\n"}),
        ("c4", "Bash", {"command": "cat notes.txt; pwd; python3 -c 'import outrider'"}),
        ("c5", "Bash", {"command": "sleep 0.1; echo late", "run_in_background": True}),
        ("c6", "Read", {"file_path": "/etc/gone"}),
        ("c7", "Todo", {"todos": [{"content": "sow", "status": "pending"}]}),
    )
    replies = [
        Answer(calls=calls),
        Answer(calls=(("e", "Edit", {"file_path": "notes.txt", "old_string": "milk", "new_string": "bread"}),)),
        Answer("Done @notes.txt."),
    ]
    async with ModelServer(replies) as server:
        options = ("--in", root.prefix(), "--permissions", "all", "--output-format", "json")
        ended = await asyncio.to_thread(
            lambda: outrider("-p", "Look at @notes.txt.", *options, cwd=tmp_path, **everywhere(server))
        )
    assert ended.returncode == 0, ended.stderr
    assert (root.home / "notes.txt").read_text() == "Buy bread.\n"
    assert (root.home / "new" / "made.txt").read_text() == "one\n"
    first, second = str(server.requests[0].json), str(server.requests[1].json)
    assert "Speak softly." in first
    assert "Buy milk." in first, "the file that the prompt mentions"
    assert base64.b64encode(PNG).decode()[:40] in second
    assert "/home/ann" in second
    assert "No module named" in second
    assert not (tmp_path / "new").exists()


@needs_other_root
async def test_an_editor_shows_what_happens_there_and_its_buffers_are_left_alone(
    root: OtherRoot, tmp_path: Path
) -> None:
    edit = {"file_path": "notes.txt", "old_string": "milk", "new_string": "bread"}
    replies = [
        Answer(calls=(("r", "Read", {"file_path": "notes.txt"}),)),
        Answer(calls=(("e", "Edit", edit),)),
        Answer("Done."),
    ]
    buffers = Buffers(**{"notes.txt": "of this machine\n"})
    options = {"capabilities": offering(True, True), "handlers": buffers.handlers()}
    async with ModelServer(replies) as server:
        arguments = ("--in", root.prefix(), "--permissions", "edits")
        async with introduced(*arguments, **options, **everywhere(server)) as editor:
            session = await editor.new(tmp_path)
            assert await editor.prompt(session, "Change my notes") == "end_turn"
            calls = editor.seen(session).calls
    assert [calls[each]["status"] for each in "re"] == ["completed"] * 2
    assert (root.home / "notes.txt").read_text() == "Buy bread.\n"
    assert not buffers.asked


async def test_an_editor_is_told_why_a_place_cannot_be_reached(tmp_path: Path) -> None:
    async with ModelServer([]) as server:
        place = "sh -c 'echo the door is locked >&2; exit 1' sh"
        async with introduced("--in", place, **everywhere(server)) as editor:
            refused: Refused | None = None
            try:
                session = await editor.new(tmp_path)
                await editor.prompt(session, "Go.")
            except Refused as error:
                refused = error
    assert refused
    assert "the door is locked" in str(refused)
