"""Files in the editor's buffers: unsaved changes are read and kept, and the editor saves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.acp import editor_tools
from outrider.acp.client import EditorClient
from outrider.acp.connection import ClosedError, Connection
from outrider.acp.editor_tools import EditorBuffers
from outrider.acp.schema import ClientCapabilities, FileSystemCapabilities
from tests.acp.editor import Handler, Refused, introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer


class Buffers:
    """The open files of an editor, by path; those that it does not know it reads from the disk."""

    def __init__(self, **open_files: str) -> None:
        self.texts = dict(open_files)
        self.asked: list[tuple[str, str]] = []

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        path = Path(params["path"])
        assert path.is_absolute()
        self.asked.append(("read", path.name))
        if path.name in self.texts:
            return {"content": self.texts[path.name]}
        if not path.exists():
            raise Refused(-32002, f"there is no {path}")
        return {"content": path.read_text()}

    def write(self, params: dict[str, Any]) -> Any:
        path = Path(params["path"])
        self.asked.append(("write", path.name))
        self.texts[path.name] = params["content"]
        path.write_text(params["content"])
        return {}

    def handlers(self) -> dict[str, Handler]:
        return {"fs/read_text_file": self.read, "fs/write_text_file": self.write}


def offering(read: bool, write: bool) -> dict[str, Any]:
    return {"fs": {"readTextFile": read, "writeTextFile": write}}


READ = Answer(calls=(("r", "Read", {"file_path": "notes.txt"}),))
EDIT = {"file_path": "notes.txt", "old_string": "unsaved", "new_string": "edited"}
CHANGE = Answer(calls=(("e", "Edit", EDIT), ("w", "Write", {"file_path": "new.txt", "content": "fresh\n"})))
EDITS = ("--permissions", "edits")


async def test_what_is_not_saved_is_read_and_what_is_changed_is_saved_by_the_editor(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("as on disk\n")
    buffers = Buffers(**{"notes.txt": "as unsaved\n"})
    async with ModelServer([READ, CHANGE, Answer("Done.")]) as server:
        options = {"capabilities": offering(True, True), "handlers": buffers.handlers()}
        async with introduced(*EDITS, **options, **everywhere(server)) as editor:
            session = await editor.new(tmp_path)
            assert await editor.prompt(session, "Change my notes") == "end_turn"
            calls = editor.seen(session).calls
            assert {params["sessionId"] for params in editor.asked_for("fs/read_text_file")} == {session}
    assert calls["r"]["content"][0]["content"]["text"].startswith("```\n     1\tas unsaved\n[The editor has changes")
    assert [calls[each]["status"] for each in "rew"] == ["completed"] * 3
    assert buffers.texts == {"notes.txt": "as edited\n", "new.txt": "fresh\n"}
    assert [name for verb, name in buffers.asked if verb == "write"] == ["notes.txt", "new.txt"]


@pytest.mark.parametrize("response", [[], None, {"saved": True}], ids=json.dumps)
async def test_any_response_but_an_error_confirms_that_a_file_was_saved(tmp_path: Path, response: Any) -> None:
    """An empty table of Lua is an array in JSON."""
    (tmp_path / "notes.txt").write_text("as unsaved\n")
    buffers = Buffers()

    def write(params: dict[str, Any]) -> Any:
        buffers.handlers()["fs/write_text_file"](params)
        return response

    async with ModelServer([READ, CHANGE, Answer("Done.")]) as server:
        handlers = buffers.handlers() | {"fs/write_text_file": write}
        async with introduced(
            *EDITS, capabilities=offering(False, True), handlers=handlers, **everywhere(server)
        ) as it:
            session = await it.new(tmp_path)
            await it.prompt(session, "Change my notes")
            assert [it.seen(session).calls[each]["status"] for each in "rew"] == ["completed"] * 3
    assert buffers.texts == {"notes.txt": "as edited\n", "new.txt": "fresh\n"}


async def test_an_editor_that_only_reads_has_its_files_saved_for_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("as unsaved\n")
    buffers = Buffers()
    async with ModelServer([READ, CHANGE, Answer("Done.")]) as server:
        options = {"capabilities": offering(True, False), "handlers": buffers.handlers()}
        async with introduced(*EDITS, **options, **everywhere(server)) as editor:
            session = await editor.new(tmp_path)
            await editor.prompt(session, "Change my notes")
            assert not editor.asked_for("fs/write_text_file")
    assert (tmp_path / "notes.txt").read_text() == "as edited\n"
    assert (tmp_path / "new.txt").read_text() == "fresh\n"


async def test_an_editor_that_offers_no_files_is_not_asked_for_any(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("as unsaved\n")
    async with (
        ModelServer([READ, CHANGE, Answer("Done.")]) as server,
        introduced(*EDITS, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Change my notes")
        assert not editor.asked
    assert (tmp_path / "notes.txt").read_text() == "as edited\n"


async def test_an_editor_that_does_not_know_a_file_leaves_it_to_the_disk(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("as unsaved\n")

    def read(params: dict[str, Any]) -> Any:
        raise Refused(-32603, "that is not in my workspace")

    async with ModelServer([READ, Answer("Done.")]) as server:
        options = {"capabilities": offering(True, False), "handlers": {"fs/read_text_file": read}}
        async with introduced(*EDITS, **options, **everywhere(server)) as editor:
            session = await editor.new(tmp_path)
            await editor.prompt(session, "Read my notes")
            assert editor.seen(session).calls["r"]["content"][0]["content"]["text"] == "```\n     1\tas unsaved\n```"


async def test_a_file_that_the_editor_does_not_save_is_said_to_be_not_saved(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("as unsaved\n")
    buffers = Buffers()

    def write(params: dict[str, Any]) -> Any:
        raise Refused(-32603, "it is write-protected")

    async with ModelServer([READ, CHANGE, Answer("Done.")]) as server:
        handlers = buffers.handlers() | {"fs/write_text_file": write}
        async with introduced(*EDITS, capabilities=offering(True, True), handlers=handlers, **everywhere(server)) as it:
            session = await it.new(tmp_path)
            assert await it.prompt(session, "Change my notes") == "end_turn"
            call = it.seen(session).calls["e"]
    assert call["status"] == "failed"
    assert "it may or may not be written" in call["content"][-1]["content"]["text"]
    assert (tmp_path / "notes.txt").read_text() == "as unsaved\n"


async def test_sub_agents_read_what_is_not_saved_too(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("as on disk\n")
    buffers = Buffers(**{"notes.txt": "one\ntwo\nthree\n"})
    async with introduced(capabilities=offering(True, True), handlers=buffers.handlers()) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, 'Delegate "read everything" as a table of file and lines')
        assert buffers.asked == [("read", "notes.txt")]
        table = editor.seen(session).call("Task")["rawOutput"]["structured_output"]
    assert table == [{"file": "notes.txt", "lines": 4}], "three lines, and a note that they are not saved"


async def test_an_editor_that_is_silent_or_gone_is_an_error_and_never_the_text_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editor_tools, "TIMEOUT", 0.05)
    written: list[bytes] = []
    connection = Connection(written.append, {}, {})
    client = EditorClient(connection, None)  # type: ignore[arg-type]
    client.initialize(ClientCapabilities(fs=FileSystemCapabilities(True, True)), None)
    buffers = EditorBuffers(client, "session")
    for asking in (lambda: buffers.read(tmp_path / "a"), lambda: buffers.write(tmp_path / "a", "text")):
        with pytest.raises(OSError):
            await asyncio.to_thread(asking)
    await asyncio.sleep(0)
    assert [b"$/cancel_request" in line for line in written] == [False, True, False, True]
    connection.close()
    with pytest.raises(ClosedError):
        await asyncio.to_thread(buffers.read, tmp_path / "a")
    with pytest.raises(OSError):
        await asyncio.to_thread(buffers.write, tmp_path / "a", "text")
