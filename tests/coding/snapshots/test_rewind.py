"""Rewinding a session of the coding agent: its files and its conversation are as they were at a message."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Log, Message, Session, ToolUseBlock, tool
from outrider.coding import Workspace, standard_tools
from outrider.coding.placeholder_keeper import MARKER, remove_unused
from outrider.coding.snapshots import scanning
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.coding.snapshots.ignoring import Ignoring
from outrider.coding.snapshots.scanning import Limits
from outrider.errors import ConversationError, RewindConflictError
from outrider.events import Event, Notice
from outrider.log.entries import SnapshotEntry
from outrider.log.transfer import export, import_session
from outrider.runtime import folder_watch
from outrider.testing import ScriptedModel
from outrider.tools.tool import Tool

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
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
    else:
        (folder / ".git").mkdir()
        (folder / ".git/index").write_bytes(b"the index")
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
        tools = standard_tools(self.workspace, ["Read", "Write", "Edit", "Bash"])
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


async def test_calls_side_by_side_have_one_snapshot_before_them(log: Log, folder: Path) -> None:
    @tool(effect="write")
    def put(name: str) -> str:
        """Make a file."""
        (folder / name).write_text(name)
        return name

    async def allow(use: ToolUseBlock, tool: Tool) -> Allow:
        return Allow()

    both = Message.assistant(*(ToolUseBlock(f"c{name}", "put", {"name": name}) for name in ("one", "two")))
    agent = Agent(ScriptedModel([both, "Done."]), tools=[put])
    async with Session.open(log, agent=agent, cwd=folder, approve=allow) as session:
        session.use_folder(FolderSnapshots(folder, log, session.id, None))
        before = state(folder)
        await session.run("Make two files.")
        entries = [record.entry for record in log.snapshots(session.id)]
        assert len([entry for entry in entries if isinstance(entry, SnapshotEntry) and entry.opens]) == 1
        await session.rewind(1)
        assert state(folder) == before


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


@pytest.mark.sampled(1)
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


async def test_only_the_files_or_only_the_conversation(project: Project) -> None:
    first = state(project.folder)
    await project.say("make it", project.bash("echo 1 > made.txt"))
    made = state(project.folder)
    await project.session.rewind(1, conversation=False)
    assert state(project.folder) == first
    assert said(project.session) == ["make it", "Done: make it"]
    await project.session.undo_rewind()
    assert state(project.folder) == made
    await project.session.rewind(1, files=False)
    assert state(project.folder) == made
    assert project.session.messages == []
    with pytest.raises(ConversationError, match="there is no user message 1 to go back to; the session has none"):
        await project.session.rewind(1)


async def test_a_file_changed_by_hand_is_a_conflict(project: Project) -> None:
    first = state(project.folder)
    await project.say("one", project.bash("echo agent >> notes.txt; echo agent > src/main.py"))
    (project.folder / "notes.txt").write_text("by hand\n")
    mine = state(project.folder)
    preview = await project.session.rewind_preview(1)
    assert preview.conflicts == ("notes.txt",)
    assert [(file.path, file.action) for file in preview.files] == [("notes.txt", "change"), ("src/main.py", "change")]
    assert "-by hand\n+one\n+two\n" in preview.files[0].diff
    with pytest.raises(RewindConflictError, match=r"notes\.txt"):
        await project.session.rewind(1)
    assert state(project.folder) == mine
    assert said(project.session) == ["one", "Done: one"]
    await project.session.rewind(1, force=True)
    assert state(project.folder) == first
    await project.session.undo_rewind()
    assert state(project.folder) == mine


async def test_a_file_changed_by_hand_between_two_calls_is_a_conflict(project: Project) -> None:
    await project.say("one", project.bash("echo agent > made.txt"))
    (project.folder / "made.txt").write_text("by hand\n")
    await project.say("two", project.bash("echo agent >> made.txt"))
    project.reopen()
    assert (await project.session.rewind_preview(2)).conflicts == ()
    assert (await project.session.rewind_preview(1)).conflicts == ("made.txt",)


async def test_what_the_user_did_before_a_message_stays(project: Project) -> None:
    await project.say("one", project.bash("true"))
    (project.folder / "notes.txt").write_text("by hand\n")
    await project.say("two", project.bash("echo agent > made.txt"))
    await project.session.rewind(2)
    assert (project.folder / "notes.txt").read_text() == "by hand\n"
    assert not (project.folder / "made.txt").exists()


async def test_a_rewind_survives_reopening_forks_and_exports(project: Project, log: Log, tmp_path: Path) -> None:
    first = state(project.folder)
    await project.say("one", project.bash("echo 1 > made.txt"))
    await project.say("two", project.bash("echo 2 > made.txt"))
    await project.session.rewind(2)
    await project.say("three", project.bash("echo 3 > made.txt"))
    expected = ["one", "Done: one", "three", "Done: three"]
    project.reopen()
    assert said(project.session) == expected
    name = project.session.id
    assert [message.text for message in log.messages(log.fork(name)) if message.text] == expected
    with Log(tmp_path / "other") as other:
        imported = import_session(other, export(log, name)).id
        assert [message.text for message in other.messages(imported) if message.text] == expected
    shown = [entry.entry.message.text for entry in log.shown_records(name) if hasattr(entry.entry, "message")]
    assert [text for text in shown if text] == expected
    await project.session.rewind(1)
    assert state(project.folder) == first
    await project.session.undo_rewind()
    await project.session.undo_rewind()
    assert said(project.session) == ["one", "Done: one", "two", "Done: two"]
    assert (project.folder / "made.txt").read_text() == "2\n"
    with pytest.raises(ConversationError, match="there is no rewind to undo"):
        await project.session.undo_rewind()


async def test_the_model_sees_what_is_left_and_ids_stay_unique(project: Project) -> None:
    tools = tuple(project.session.agent.tools)
    use = ToolUseBlock("call_1", "Bash", {"command": "true"})
    project.session.agent = Agent(ScriptedModel([Message.assistant(use), "Done."]), tools=tools)
    await project.session.run("one")
    await project.session.rewind(1)
    model = ScriptedModel([Message.assistant(use), "Again."])
    project.session.agent = Agent(model, tools=tools)
    await project.session.run("other")
    assert [message.text for message in model.requests[0].messages] == ["other"]
    calls = [call.id for message in project.session.messages for call in message.tool_calls]
    assert calls != ["call_1"]


async def test_a_file_over_the_limit_is_named_and_left_alone(log: Log, folder: Path) -> None:
    project = Project(log, folder, Limits(file_bytes=1000))
    (folder / "large.txt").write_bytes(b"x" * 2000)
    await project.say("one", project.bash("echo more >> large.txt; echo small > small.txt"))
    notices = [event.text for event in project.events if isinstance(event, Notice)]
    assert any("cannot be restored by rewinding" in text and "large.txt" in text for text in notices)
    preview = await project.session.rewind_preview(1)
    assert preview.not_kept == ("large.txt",)
    done = await project.session.rewind(1)
    assert done.not_restored == {"large.txt": "its content was not kept"}
    assert (folder / "large.txt").read_bytes() == b"x" * 2000 + b"more\n"
    assert not (folder / "small.txt").exists()
    project.session.close()


async def test_the_user_is_told_when_the_first_snapshot_takes_long(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "PATIENCE", 0.0)
    await project.say("one", project.bash("echo 1 > made.txt"))
    first, second, *others = [event.text for event in project.events if isinstance(event, Notice)]
    assert first.startswith("recording the files of the folder")
    assert re.fullmatch(r"recorded \d+ files? in \d+ s", second)
    assert not [text for text in others if text.startswith("recorded")]
    project.session.close()


async def test_a_folder_with_too_many_files_has_no_snapshots(log: Log, folder: Path) -> None:
    project = Project(log, folder, Limits(files=3))
    await project.say("one", project.bash("echo 1 > made.txt"))
    await project.say("two", project.bash("echo 2 > made.txt"))
    notices = [event.text for event in project.events if isinstance(event, Notice)]
    assert len([text for text in notices if "more than 3 files" in text]) == 1
    await project.session.rewind(2)
    assert said(project.session) == ["one", "Done: one"]
    assert (folder / "made.txt").read_text() == "2\n"
    project.session.close()


async def test_the_home_folder_has_no_snapshots(log: Log, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    project = Project(log, folder)
    await project.say("one", project.bash("echo 1 > made.txt"))
    assert any(isinstance(event, Notice) and "home folder" in event.text for event in project.events)
    assert log.snapshots(project.session.id) == []
    project.session.close()


async def test_files_that_are_no_longer_ignored_are_not_deleted(project: Project) -> None:
    await project.say("one", project.bash("echo '*.log' > .gitignore; echo 1 > made.txt"))
    await project.say("two", project.bash("echo 2 > made.txt"))
    done = await project.session.rewind(1)
    assert set(done.files) == {".gitignore", "made.txt"}
    assert (project.folder / "build/out.o").read_bytes() == b"object"


def stored(project: Project) -> bytes:
    """Everything in the snapshot store."""
    files = [path for path in project.log.snapshot_store.folder.rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() for path in files)


async def test_secrets_are_never_stored_and_a_rewind_leaves_them_alone(project: Project) -> None:
    (project.folder / ".env").write_text("canary-1")
    (project.folder / "src/server.pem").write_text("canary-2")
    await project.say("one", project.bash("echo canary-3 > src/id_rsa; echo canary-4 >> .env; echo 1 > made.txt"))
    assert b"canary" not in stored(project)
    done = await project.session.rewind(1)
    assert set(done.files) == {"made.txt"}
    assert (project.folder / ".env").read_text() == "canary-1canary-4\n"
    assert (project.folder / "src/id_rsa").exists()


@pytest.mark.parametrize("reopened", [False, True])
async def test_what_was_ignored_stays_out_when_the_rules_change(project: Project, reopened: bool) -> None:
    (project.folder / "private.log").write_text("canary-1")
    (project.folder / "build/key").write_text("canary-2")
    await project.say("one", project.bash("echo 1 > made.txt"))
    if reopened:
        project.reopen()
    await project.say("two", project.bash("echo > .gitignore; echo 2 > made.txt"))
    await project.say("three", project.bash("rm .gitignore"))
    project.reopen()
    await project.say("four", project.bash("echo canary-3 >> private.log; echo 3 > made.txt"))
    assert b"canary" not in stored(project)
    done = await project.session.rewind(1)
    assert set(done.files) == {".gitignore", "made.txt"}
    assert (project.folder / "private.log").read_text() == "canary-1canary-3\n"


async def test_a_link_that_was_swapped_in_leads_nowhere(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("precious\n")
    await project.say("one", project.bash("echo changed > src/main.py; echo more > src/more.py"))
    restore = FolderSnapshots.restore

    def swap_and_restore(self: FolderSnapshots, *arguments: Any) -> dict[str, str]:
        (project.folder / "src").rename(project.folder / "moved")
        (project.folder / "src").symlink_to(outside)
        return restore(self, *arguments)

    monkeypatch.setattr(FolderSnapshots, "restore", swap_and_restore)
    done = await project.session.rewind(1)
    assert set(done.not_restored) == {"src/main.py", "src/more.py"}
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"main.py": "precious\n"}


KILLED = """
import os, signal, sys
from pathlib import Path
from outrider import Log
from outrider.coding.placeholder_keeper import MARKER, remove_unused
from outrider.coding.snapshots import scanning
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.coding.snapshots.ignoring import Ignoring
from outrider.log.rewinding import Rewinder

left = int(sys.argv[4])
from outrider.coding.toolbox.no_follow import Folder
real = Folder.replace
def replace(self, old, new):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, old, new)
Folder.replace = replace
log = Log(sys.argv[1])
journal = log.open(sys.argv[2])
Rewinder(log, journal, FolderSnapshots(Path(sys.argv[3]), log, journal.id)).rewind(1)
"""


async def test_a_kill_in_the_middle_of_restoring(project: Project, log: Log) -> None:
    first = state(project.folder)
    command = "for i in 1 2 3 4 5; do echo $i > src/$i.py; done; rm notes.txt src/run.sh; echo x > src/main.py; rm link"
    await project.say("one", project.bash(command))
    last, name = state(project.folder), project.session.id
    project.session.close()
    for count in (0, 2):
        arguments = [sys.executable, "-c", KILLED, str(log.folder), name, str(project.folder), str(count)]
        killed = await asyncio.to_thread(subprocess.run, arguments, capture_output=True)
        assert killed.returncode == -9, killed.stderr
    assert state(project.folder) not in (first, last)
    project.session = project.open(name)
    assert said(project.session) == ["one", "Done: one"]
    done = await project.session.rewind(1)
    assert not done.not_restored
    assert state(project.folder) == first
    assert project.session.messages == []
    await project.session.undo_rewind()
    assert said(project.session) == ["one", "Done: one"]
    assert state(project.folder) == last, "undo goes back to before the first attempt"


async def test_snapshots_are_private_and_removed_with_their_session(
    project: Project, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await project.say("one", project.bash("echo 1 > made.txt"))
    fork = log.fork(project.session.id)
    project.session.close()
    files = [path for path in (log.folder / "snapshots").rglob("*") if path.is_file()]
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    monkeypatch.setattr("outrider.log.session_files.UNREFERENCED_SECONDS", -1.0)
    log.delete(project.session.id)
    assert log.remove_unreferenced_files() == (0, 0)
    log.delete(fork)
    assert log.remove_unreferenced_files()[0] == len(files)
    assert not [path for path in (log.folder / "snapshots").rglob("*") if path.is_file()]


async def test_calls_that_only_read_take_no_snapshot(project: Project, log: Log) -> None:
    await project.say("one", ("Read", {"file_path": "notes.txt"}))
    assert log.snapshots(project.session.id) == []
    assert not (log.folder / "snapshots").exists()
    assert not (await project.session.rewind_preview(1)).files


def held(folder: Path, *names: str) -> list[str]:
    """Placeholders of the sandbox, held by nobody."""
    for name in names:
        (folder / name / MARKER).mkdir(parents=True)
    return [str(folder / name) for name in names]


async def test_a_snapshot_has_no_placeholders(project: Project, folder: Path) -> None:
    (folder / ".idea").mkdir()
    (folder / ".idea/workspace.xml").write_text("mine")
    await project.say("one", project.bash("echo 1 > one.txt"))
    shutil.rmtree(folder / ".idea")
    before = state(folder)
    paths = held(folder, ".vscode", "Jenkinsfile", ".idea")
    await project.say("two", project.bash("echo 2 > two.txt"))
    await project.say("three", project.bash("echo 3 > three.txt"))
    remove_unused(paths)
    await project.session.rewind(2, force=True)
    assert state(folder) == before
    await project.session.undo_rewind()
    assert state(folder).keys() - before.keys() == {"two.txt", "three.txt"}


async def test_placeholders_of_running_commands_are_neither_removed_nor_conflicts(
    project: Project, folder: Path
) -> None:
    (folder / ".idea").mkdir()
    (folder / ".idea/workspace.xml").write_text("mine")
    await project.say("one", project.bash("rm -r .idea"))
    held(folder, ".vscode", ".idea")
    assert not (await project.session.rewind_preview(1)).conflicts
    await project.session.rewind(1)
    assert (folder / ".vscode" / MARKER).is_dir()
    assert (folder / ".idea/workspace.xml").read_text() == "mine"


async def test_placeholders_that_are_being_removed_are_not_recorded(project: Project, folder: Path) -> None:
    """The keeper removes the marker, and then the folder. A snapshot may fall in between."""
    half_removed = folder / "Jenkinsfile"
    half_removed.mkdir()
    half_removed.chmod(0o1700)
    await project.say("one", project.bash("echo 1 > one.txt"))
    half_removed.rmdir()
    await project.say("two", project.bash("echo 2 > two.txt"))
    preview = await project.session.rewind_preview(1)
    assert [file.path for file in preview.files] == ["one.txt", "two.txt"]


async def test_placeholders_that_older_versions_recorded_are_not_restored(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".idea").mkdir()
    before = state(folder)
    for name in (".vscode", ".idea"):
        (folder / name / f"{MARKER}-402-7-0a0b0c0d").mkdir(parents=True)
    (folder / ".idea/workspace.xml").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(scanning, "is_placeholder", lambda path: False)
        await project.say("one", project.bash("echo 1 > one.txt"))
    shutil.rmtree(folder / ".vscode")
    shutil.rmtree(folder / ".idea")
    await project.say("two", project.bash("echo 2 > two.txt"))
    await project.session.rewind(1, force=True)
    assert state(folder).keys() - before.keys() == {".idea/workspace.xml"}


async def test_a_held_repository_does_not_hide_the_rules_of_the_one_around_it(log: Log, tmp_path: Path) -> None:
    outer, folder = tmp_path / "outer", tmp_path / "outer/inner"
    (outer / ".git").mkdir(parents=True)
    (outer / ".gitignore").write_text("*.log\n")
    folder.mkdir()
    held(folder, ".git")
    assert Ignoring(folder).ignores("a.log", False)
