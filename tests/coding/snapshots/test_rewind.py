"""Rewinding a session of the coding agent: its files and its conversation are as they were at a message."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Message, ScriptedModel, Session, ToolUseBlock
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.coding.snapshots.scanning import Limits
from outrider.coding.toolbox import standard_tools
from outrider.coding.toolbox.workspace import Workspace
from outrider.events import Event

Call = tuple[str, dict[str, Any]]
LARGE = 3_000_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as log:
        yield log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a repository, files of several kinds, and ignored ones."""
    folder = tmp_path / "project"
    (folder / "src/deep").mkdir(parents=True)
    (folder / "empty").mkdir(mode=0o750)
    (folder / ".gitignore").write_text("build/\n*.log\n")
    (folder / "notes.txt").write_text("one\ntwo\n")
    (folder / "src/main.py").write_text("print('hello')\n")
    (folder / "src/run.sh").write_text("#!/bin/sh\necho hi\n")
    (folder / "src/run.sh").chmod(0o755)
    (folder / "src/deep/data.bin").write_bytes(bytes(range(256)) * 40)
    (folder / "link").symlink_to("src/main.py")
    (folder / "build").mkdir()
    (folder / "build/out.o").write_bytes(b"object")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
    return folder


def state(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything in the folder except the repository and what it ignores, with modes and contents."""
    found: dict[str, tuple[Any, ...]] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "build")]
        for name in [*folders, *files]:
            path = Path(place, name)
            status = path.lstat()
            content: object = None
            if path.is_symlink():
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            mode = 0 if path.is_symlink() else status.st_mode
            found[str(path.relative_to(folder))] = (mode, content)
    return found


def repository(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in (folder / ".git").rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


class Project:
    """A session in a folder, with real tools and a scripted model."""

    def __init__(self, log: Log, folder: Path, limits: Limits | None = None) -> None:
        self.log, self.folder = log, folder
        self.limits = limits
        self.events: list[Event] = []
        self.session = self.open(None)

    def open(self, id: str | None, steps: Sequence[Any] = ()) -> Session:
        self.workspace = Workspace(self.folder)
        tools = standard_tools(self.workspace, ["Read", "Write", "Edit", "Bash"], sandbox=None)
        self.model = ScriptedModel(list(steps))
        agent = Agent(self.model, tools=tools)
        session = Session.open(self.log, id, agent, cwd=self.folder, observer=self.events.append).now()
        session.use_folder(FolderSnapshots(self.folder, self.log, session.id, self.limits))
        return session

    def reopen(self) -> None:
        self.session.close()
        self.session = self.open(self.session.id)

    async def say(self, text: str, *calls: Call) -> None:
        """One turn: the model makes these calls, one in each reply, and then answers."""
        uses = [Message.assistant(ToolUseBlock(f"c{os.urandom(10).hex()}", *each)) for each in calls]
        tools = tuple(self.session.agent.tools)
        self.session.agent = Agent(ScriptedModel([*uses, f"Done: {text}"]), tools=tools)
        result = await self.session.run(text)
        assert result.status == "done", result.error

    def bash(self, command: str) -> Call:
        return "Bash", {"command": command}


@pytest.fixture
def project(log: Log, folder: Path) -> Iterator[Project]:
    project = Project(log, folder)
    yield project
    project.session.close()
    project.workspace.close()


def said(session: Session) -> list[str]:
    return [message.text for message in session.messages if message.text]


EDITS = (
    "sed -i s/hello/bye/ src/main.py",
    f"{sys.executable} -c \"open('made.txt','w').write('x'*1000); open('notes.txt','a').write('three')\"",
    "rm -r src/deep && rmdir empty",
    "mv notes.txt moved.txt && mkdir -p new/inner && mv src/run.sh new/inner/",
    "ln -sfn src link && ln -s nowhere dangling && chmod 600 src/main.py",
    f"head -c {LARGE} /dev/urandom > large.bin && ln large.bin hard.bin",
    "rm link && mkdir link && echo in > link/file && rm -r new && echo now-a-file > new",
)


async def run_all(project: Project) -> list[dict[str, tuple[Any, ...]]]:
    """Change the folder in every way, one message each. Return the states before each message, and the last."""
    states = []
    calls = [("Write", {"file_path": "src/added.py", "content": "new\n"})]
    states.append(state(project.folder))
    await project.say("message 1", *calls, ("Read", {"file_path": "notes.txt"}))
    states.append(state(project.folder))
    edit = {"file_path": "notes.txt", "old_string": "one", "new_string": "1"}
    await project.say("message 2", ("Read", {"file_path": "notes.txt"}), ("Edit", edit))
    for number, command in enumerate(EDITS, 3):
        states.append(state(project.folder))
        await project.say(f"message {number}", project.bash(command))
    states.append(state(project.folder))
    assert all(one != other for one, other in pairwise(states)), "a step changed nothing"
    return states


@pytest.mark.parametrize("order", ["backwards", "to the first", "undone each time"])
async def test_the_folder_is_byte_for_byte_as_it_was(project: Project, order: str) -> None:
    before = repository(project.folder)
    states = await run_all(project)
    targets = [1] if order == "to the first" else range(len(states) - 1, 0, -1)
    for to in targets:
        done = await project.session.rewind(to)
        assert not done.not_restored
        assert state(project.folder) == states[to - 1], f"message {to}"
        assert said(project.session)[-1:] == ([f"Done: message {to - 1}"] if to > 1 else [])
        assert done.message is not None
        assert done.message.text == f"message {to}"
        if order == "undone each time":
            await project.session.undo_rewind()
            assert state(project.folder) == states[-1]
            assert said(project.session)[-1] == f"Done: message {len(states) - 1}"
    assert (project.folder / "build/out.o").read_bytes() == b"object"
    assert repository(project.folder) == before
