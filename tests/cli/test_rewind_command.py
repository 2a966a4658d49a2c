"""`outrider sessions rewind`, as a user runs it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from outrider import Agent, Message, Session, ToolUseBlock
from outrider.cli import main
from outrider.coding import Workspace, standard_tools
from outrider.coding.placeholder_keeper import MARKER
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.sync import default_log
from outrider.testing import ScriptedModel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\n")
    return folder


@pytest.fixture
def session(folder: Path) -> str:
    """A session with two messages. Each changed a file."""

    async def talk() -> str:
        tools = standard_tools(Workspace(folder), ["Write"])
        writes = [ToolUseBlock(f"c{n}" * 12, "Write", {"file_path": f"{n}.txt", "content": f"{n}\n"}) for n in (1, 2)]
        steps = [Message.assistant(writes[0]), "Made 1.", Message.assistant(writes[1]), "Made 2."]
        with default_log() as log:
            async with Session.open(log, agent=Agent(ScriptedModel(steps), tools=tools), cwd=folder) as session:
                session.use_folder(FolderSnapshots(folder, log, session.id))
                await session.run("make one")
                await session.run("make two")
                return session.id

    return asyncio.run(talk())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def said(id: str) -> list[str]:
    with default_log() as log:
        return [message.text for message in log.messages(id) if message.text]


def test_both_with_a_preview_and_back(session: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "rewind", session, "--to", "2", "--yes"]) == 0
    out, err = capsys.readouterr()
    assert "Back to before message 2: make two" in out
    assert "delete  2.txt" in out
    assert "-2\n" in out
    assert "restored 1 file." in err
    assert names(folder) == ["1.txt", "notes.txt"]
    assert said(session) == ["make one", "Made 1."]
    assert main(["sessions", "rewind", session, "--undo", "--yes"]) == 0
    assert names(folder) == ["1.txt", "2.txt", "notes.txt"]
    assert said(session) == ["make one", "Made 1.", "make two", "Made 2."]


def test_only_files_or_only_the_conversation(session: str, folder: Path) -> None:
    assert main(["sessions", "rewind", session, "--to", "1", "--files", "--yes"]) == 0
    assert names(folder) == ["notes.txt"]
    assert len(said(session)) == 4
    assert main(["sessions", "rewind", session, "--to", "2", "--conversation", "--yes"]) == 0
    assert names(folder) == ["notes.txt"]
    assert said(session) == ["make one", "Made 1."]


def test_conflicts_are_not_overwritten_without_force(
    session: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "2.txt").write_text("by hand\n")
    assert main(["sessions", "rewind", session, "--to", "2", "--yes"]) == 1
    out, err = capsys.readouterr()
    assert "delete  2.txt (changed by someone else since)" in out
    assert "files were changed by someone else since: 2.txt" in err
    assert (folder / "2.txt").read_text() == "by hand\n"
    assert len(said(session)) == 4
    assert main(["sessions", "rewind", session, "--to", "2", "--yes", "--force"]) == 0
    assert names(folder) == ["1.txt", "notes.txt"]


def test_what_cannot_be_done_says_so(session: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "rewind", session, "--to", "9", "--yes"]) == 1
    assert "there is no user message 9 to go back to; the session has 1 to 2" in capsys.readouterr().err
    assert main(["sessions", "rewind", session, "--to", "1"]) == 1
    assert "add --yes" in capsys.readouterr().err
    assert main(["sessions", "rewind", session, "--undo", "--yes"]) == 1
    assert "there is no rewind to undo" in capsys.readouterr().err
    assert main(["sessions", "rewind", "ffff", "--to", "1", "--yes"]) == 2
    folder.rename(folder.with_name("moved"))
    assert main(["sessions", "rewind", session, "--to", "1", "--yes"]) == 1
    assert "add --conversation" in capsys.readouterr().err
    assert len(said(session)) == 4


def test_without_a_number_the_messages_are_listed(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "rewind", session]) == 0
    assert capsys.readouterr().out.splitlines() == ["   1  make one", "   2  make two"]


def test_the_entries_are_shown_and_exported(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["sessions", "rewind", session, "--to", "2", "--yes"])
    capsys.readouterr()
    main(["sessions", "show", session])
    assert "rewound    to message 2: conversation and files" in capsys.readouterr().out
    main(["sessions", "export", session])
    kinds = [json.loads(line).get("kind") for line in capsys.readouterr().out.splitlines()]
    assert kinds[-1] == "rewound"
    assert "snapshot" in kinds


def test_it_removes_what_a_killed_process_left_in_the_folder(session: str, folder: Path) -> None:
    (folder / ".git" / MARKER).mkdir(parents=True)
    assert main(["sessions", "rewind", session, "--to", "1", "--files", "--yes"]) == 0
    assert names(folder) == ["notes.txt"]
