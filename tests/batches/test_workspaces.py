"""Tasks that name a git repository: a workspace of their own, bounds, and no secret anywhere."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Log, ToolContext, tool
from outrider.batches import TaskResult, batch, workspaces
from outrider.batches.files import read_tasks
from outrider.batches.local_queue import LocalQueue
from outrider.batches.running import ANEW
from outrider.batches.task import Task, make_task
from outrider.batches.workspaces import CheckoutError, Workspaces
from outrider.errors import SessionHeldError
from outrider.providers.base import Request
from outrider.testing import Delay, ScriptedModel, Step, call
from outrider.tools.approval import Defer

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgSign=false")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits: a.txt says "one", then "two"."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for text in ("one", "two"):
        (folder / "a.txt").write_text(text)
        git(folder, "add", "a.txt")
        git(folder, "commit", "--quiet", "-m", text)
    return folder


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"repository": "https://ann:s3cret@host/a.git"}, "has a password or a token"),
        ({"repository": "https://s3cret@host/a.git"}, "has a password or a token"),
        ({"repository": "ssh://git:s3cret@host/a.git"}, "has a password or a token"),
        ({"repository": "ext::sh -c s3cret"}, "not an address that git can use"),
        ({"repository": "ext::s3cret"}, "not an address that git can use"),
        ({"repository": "--upload-pack=s3cret"}, "not an address that git can use"),
        ({"repository": "ftp://host/a.git"}, "not an address that git can use"),
        ({"repository": "some/folder"}, "not an address that git can use"),
        ({"repository": "/a", "revision": "--force"}, "must be a branch, a tag or a commit"),
        ({"repository": "/a", "cwd": "/b"}, "a cwd or a repository, not both"),
        ({"revision": "main"}, "revision needs a repository"),
    ],
)
def test_a_bad_repository_is_refused_before_anything_starts(fields: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        make_task({"prompt": "x", **fields}, 1)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        *("https://host/a.git", "https://host:8443/@scope/a", "ssh://git@host/a.git", "git@host:team/a.git"),
        *("host:a.git", "file:///srv/a.git", "/srv/a.git"),
    ],
)
def test_addresses_that_git_takes_are_accepted(address: str) -> None:
    assert make_task({"prompt": "x", "repository": address, "revision": "release/1.2"}, 1).repository == address


def test_the_default_folder_is_not_for_tasks_with_a_repository() -> None:
    lines = [b'{"prompt": "x", "repository": "/srv/a"}', b'{"prompt": "y"}']
    assert [task.cwd for task in read_tasks(lines, "tasks", {"cwd": "/work"})] == ["", "/work"]


async def test_the_revision_is_checked_out_and_removed_afterwards(tmp_path: Path, repository: Path) -> None:
    places = Workspaces(tmp_path / "workspaces")
    first = git(repository, "rev-parse", "HEAD~1")
    for revision, text in (("", "two"), (first, "one"), (first[:12], "one")):
        async with places.checkout(str(repository), revision, "s") as workspace:
            assert (workspace.folder / "a.txt").read_text() == text
            assert workspace.folder.stat().st_mode & 0o777 == 0o700
        assert list((tmp_path / "workspaces").iterdir()) == []


@pytest.mark.parametrize("revision", ["", "main", "release/1", "v1"])
async def test_a_server_of_plain_files_will_do(tmp_path: Path, repository: Path, revision: str) -> None:
    """Such a server gives out no single commits."""
    git(repository, "branch", "-M", "main")
    git(repository, "branch", "release/1")
    git(repository, "tag", "v1")
    git(tmp_path, "clone", "--quiet", "--bare", "repository", "served.git")
    git(tmp_path / "served.git", "update-server-info")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = asyncio.ensure_future(asyncio.to_thread(server.serve_forever, 0.01))
        try:
            address = f"http://127.0.0.1:{server.server_port}/served.git"
            async with Workspaces(tmp_path / "workspaces").checkout(address, revision, "s") as workspace:
                assert (workspace.folder / "a.txt").read_text() == "two"
        finally:
            await asyncio.to_thread(server.shutdown)
            await serving


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_QUARANTINE_PATH", "GIT_NAMESPACE"]
)
async def test_a_workspace_is_whole_where_a_git_hook_started_the_worker(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "other").mkdir()
    async with Workspaces(tmp_path / "workspaces").checkout(str(repository), "", "s") as usual:
        expected = git(usual.folder, "log", "--oneline")
    monkeypatch.setenv(name, str(tmp_path / "other"))
    async with Workspaces(tmp_path / "workspaces").checkout(str(repository), "", "s") as workspace:
        monkeypatch.delenv(name)
        assert git(workspace.folder, "log", "--oneline") == expected
    assert list((tmp_path / "other").iterdir()) == []


async def test_a_stopped_task_keeps_its_workspace_and_one_process_works_in_it(tmp_path: Path, repository: Path) -> None:
    places = Workspaces(tmp_path / "workspaces")
    with suppress(RuntimeError):
        async with places.checkout(str(repository), "", "s") as workspace:
            (workspace.folder / "a.txt").write_text("changed")
            with pytest.raises(SessionHeldError):
                await places.checkout(str(repository), "", "s").__aenter__()
            raise RuntimeError
    async with places.checkout(str(repository), "", "s") as workspace:
        assert not workspace.is_new
        assert (workspace.folder / "a.txt").read_text() == "changed"


async def test_what_stopped_tasks_have_left_is_removed_one_day(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Workspaces(tmp_path / "workspaces")
    with suppress(RuntimeError):
        async with places.checkout(str(repository), "", "left"):
            raise RuntimeError
    monkeypatch.setattr(workspaces, "KEPT_SECONDS", -1.0)
    async with places.checkout(str(repository), "", "s"):
        assert sorted(path.name for path in (tmp_path / "workspaces").iterdir()) == ["s", "s.lock"]


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [("CHECKOUT_BYTES", 100, "has more than"), ("CHECKOUT_SECONDS", 0.0, "took more than")],
)
async def test_a_checkout_is_bounded(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, said: str
) -> None:
    monkeypatch.setattr(workspaces, limit, value)
    with pytest.raises(CheckoutError, match=said):
        async with Workspaces(tmp_path / "workspaces").checkout(str(repository), "", "s"):
            pass
    assert [path.name for path in (tmp_path / "workspaces").iterdir()] == ["s.lock"]


@pytest.mark.parametrize(
    ("name", "revision", "said"), [("repository", "nowhere", "no revision"), ("gone", "", "does not appear to be")]
)
async def test_what_cannot_be_checked_out_is_a_failed_task(
    tmp_path: Path, repository: Path, name: str, revision: str, said: str
) -> None:
    task = Task("Look.", repository=str(repository.with_name(name)), revision=revision)
    with Log(tmp_path / "log") as log:
        (result,) = [each async for each in batch(Agent(ScriptedModel(["never"])), [task], log=log)]
    assert result.status == "error"
    assert said in result.error


class Editor:
    """An agent that changes the first file of its task's folder, and hangs once in the middle."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.held = asyncio.Event()
        self.read: list[str] = []

        @tool(effect="write")
        def change(context: ToolContext, text: str) -> str:
            """Change it."""
            self.found.append((context.cwd / "a.txt").read_text())
            (context.cwd / "a.txt").write_text(text)
            return "changed"

        self.agent = Agent(ScriptedModel(self._step), tools=[change])

    def _step(self, request: Request) -> Step:
        self.read = [message.text for message in request.messages if message.role == "user"]
        calls = sum(bool(message.tool_results) for message in request.messages)
        if calls == 0 or (calls == 1 and self.held.is_set()):
            return call("change", text=f"changed {calls}")
        if calls == 1:
            self.held.set()
            return Delay(3600, "never")
        return "done"


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_resumed_task_finds_its_changes_or_is_told_that_they_are_gone(
    tmp_path: Path, repository: Path, is_lost: bool
) -> None:
    editor = Editor()
    task = Task("Change it.", repository=str(repository))
    with Log(tmp_path / "log") as log:

        async def run() -> str:
            (result,) = [each async for each in batch(editor.agent, [task], log=log, name="job", workers=1)]
            return result.text

        running = asyncio.ensure_future(run())
        await editor.held.wait()
        running.cancel()
        await asyncio.wait([running])
        if is_lost:
            shutil.rmtree(tmp_path / "log" / "workspaces")
        assert await run() == "done"
    assert editor.found == ["two", "two" if is_lost else "changed 0"]
    assert (ANEW in editor.read) is is_lost
    assert (repository / "a.txt").read_text() == "two"
    assert list((tmp_path / "log" / "workspaces").iterdir()) == []


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_task_that_waits_keeps_its_workspace_or_asks_again(
    tmp_path: Path, repository: Path, is_lost: bool
) -> None:
    """An answer was given for the files that the task had then: in another workspace it does not count."""
    found: list[str] = []

    @tool(effect="write")
    def change(context: ToolContext, text: str) -> str:
        """Change the file."""
        found.append((context.cwd / "a.txt").read_text())
        (context.cwd / "a.txt").write_text(text)
        return "changed"

    def approve(use: Any, tool: Any) -> bool:
        if use.input["text"] == "first":
            return True
        raise Defer("Change it again?")

    def step(request: Request) -> Step:
        results = [each for message in request.messages for each in message.tool_results]
        done = sum(each.text == "changed" for each in results)
        return "done" if done == 2 else call("change", text=["first", "second"][done])

    agent = Agent(ScriptedModel(step), tools=[change])
    task = Task("Change it.", repository=str(repository))
    with Log(tmp_path / "log") as log:

        async def run() -> TaskResult:
            stream = batch(agent, [task], log=log, name="job", workers=1, approve=approve)
            (result,) = [each async for each in stream]
            return result

        waiting = await run()
        if is_lost:
            shutil.rmtree(tmp_path / "log" / "workspaces")
            queue = LocalQueue(log.folder)  # as if a worker was killed before the task was parked
            queue._write(lambda connection: connection.execute("UPDATE task SET worker = ''"))
            queue.close()
            waiting = await run()
        log.answer(waiting.questions[0].id, Allow())
        if is_lost:
            shutil.rmtree(tmp_path / "log" / "workspaces")
            waiting = await run()
            assert waiting.status == "waiting"
            assert any(ANEW in message.text for message in log.messages(waiting.session))
            log.answer(waiting.questions[0].id, Allow())
        assert (await run()).text == "done"
    assert found == ["two", "two" if is_lost else "first"]
    assert list((tmp_path / "log" / "workspaces").iterdir()) == []
