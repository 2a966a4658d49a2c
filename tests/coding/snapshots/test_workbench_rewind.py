"""Sessions of the coding agent record their folder; others pay nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider import Agent, Log, Session, tool
from outrider.coding.config.loading import load
from outrider.coding.placeholder_keeper import MARKER
from outrider.coding.workbench import Workbench
from outrider.log.entries import SnapshotEntry
from outrider.testing import ScriptedModel, call
from tests.coding.sandbox.test_placeholders import until
from tests.coding.sandbox.world import mechanisms


async def test_what_sub_agents_and_their_commands_changed_is_rewound(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\n")
    settings = load(folder, environment=os.environ, flags={"permissions.mode": "all", "sandbox.use": "off"}).settings
    steps = [
        call("Task", description="Change it", prompt="Change the notes.", subagent_type="general"),
        call("Bash", command="sed -i s/one/two/ notes.txt && echo new > made.txt"),
        "I changed the notes.",
        "Done.",
    ]
    bench = Workbench(settings, folder)
    with Log(tmp_path / "log") as log, bench.open(log, model="demo") as session:
        session.agent = bench.agent(model=ScriptedModel(steps))
        result = await session.run("Change the notes.")
        assert result.text == "Done."
        assert (folder / "notes.txt").read_text() == "two\n"
        done = await session.rewind(1)
        assert set(done.files) == {"notes.txt", "made.txt"}
        assert {path.name: path.read_text() for path in folder.iterdir()} == {"notes.txt": "one\n"}
        assert session.messages == []
    bench.close()


async def test_a_session_without_a_folder_pays_nothing(tmp_path: Path) -> None:
    @tool
    def write() -> str:
        """Write something."""
        return "written"

    agent = Agent(ScriptedModel([call("write"), "Done.", "More."]), tools=[write])
    with Log(tmp_path / "log") as log:
        async with Session.open(log, agent=agent, cwd=tmp_path) as session:
            await session.run("one")
            await session.run("two")
            await session.rewind(2)
            assert [message.text for message in session.messages if message.text] == ["one", "Done."]
            assert not any(isinstance(record.entry, SnapshotEntry) for record in log.records(session.id))
    assert not (tmp_path / "log/snapshots").exists()


def test_a_workbench_removes_what_a_killed_process_left_in_its_folders(tmp_path: Path) -> None:
    folder, other = tmp_path / "project", tmp_path / "other"
    for each in (folder / ".git", folder / "Jenkinsfile", other / ".vscode"):
        (each / MARKER).mkdir(parents=True)
    settings = load(folder, environment=os.environ, flags={"permissions.folders": [str(other)]}).settings
    Workbench(settings, folder).close()
    assert os.listdir(folder) + os.listdir(other) == []


@pytest.mark.skipif("bubblewrap" not in mechanisms(), reason="bubblewrap is not here")
async def test_after_commands_with_write_a_rewind_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    settings = load(folder, environment=os.environ, flags={"permissions.mode": "all", "sandbox.use": "auto"}).settings
    commands = [call("Bash", command=f"echo {n} > {n}.txt", access="write") for n in (1, 2)]
    bench = Workbench(settings, folder)
    with Log(tmp_path / "log") as log, bench.open(log, model="demo") as session:
        session.agent = bench.agent(model=ScriptedModel([commands[0], "One.", commands[1], "Two."]))
        await session.run("Write one.")
        await session.run("Write two.")
        assert not any(
            record.entry.changes and MARKER in str(log.snapshot_store.changes(record.entry.changes))
            for record in log.records(session.id)
            if isinstance(record.entry, SnapshotEntry)
        )
        await session.rewind(2)
    bench.close()
    del bench, session
    until(lambda: os.listdir(folder) == ["1.txt"])
