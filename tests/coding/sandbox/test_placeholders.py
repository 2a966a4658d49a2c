"""Placeholders of protected paths: they hold a name while a command runs, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outrider.coding.sandbox import placeholders as placeholders_module
from outrider.coding.sandbox.placeholders import IDLE_SECONDS, Placeholders
from outrider.coding.sandbox.sandbox import Sandbox
from tests.coding.sandbox.test_escapes import working
from tests.coding.sandbox.world import World, mechanisms, new_world

pytestmark = pytest.mark.skipif("bubblewrap" not in mechanisms(), reason="bubblewrap is not here")


@pytest.fixture
def world() -> Iterator[World]:
    with new_world() as world:
        yield world


@pytest.fixture
def sandbox(world: World) -> Sandbox:
    return working("bubblewrap", world)


def entries(world: World) -> set[str]:
    return set(os.listdir(world.second)) | set(os.listdir(world.folder))


def start(world: World, sandbox: Sandbox, script: str) -> subprocess.Popen[bytes]:
    argv = sandbox.wrap(["/bin/sh", "-c", script], "write", world.places)
    return subprocess.Popen(argv, cwd=world.folder, stdin=subprocess.PIPE, start_new_session=True)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_is_left_and_the_exit_code_is_passed_on(world: World, sandbox: Sandbox) -> None:
    before = entries(world)
    with start(world, sandbox, "exit 7"):
        pass
    until(lambda: entries(world) == before)
    ended = subprocess.run(sandbox.wrap(["/bin/sh", "-c", "exit 7"], "write", world.places), stdin=subprocess.DEVNULL)
    assert ended.returncode == 7


def test_a_placeholder_stays_until_the_last_command_has_ended(world: World, sandbox: Sandbox) -> None:
    git = world.second / ".git"
    with start(world, sandbox, f"touch ready; read line; mkdir {git}; touch {git}/config") as long:
        until((world.folder / "ready").exists)
        world.run(["true"], sandbox, "write")
        time.sleep(2 * IDLE_SECONDS)  # for the thread that would remove it too early
        assert git.exists()
        long.communicate(b"go\n")
    until(lambda: not git.exists())


def test_what_the_user_makes_in_the_meantime_is_kept(world: World, sandbox: Sandbox) -> None:
    git = world.second / ".git"
    with start(world, sandbox, "touch ready; read line") as long:
        until((world.folder / "ready").exists)
        (git / "HEAD").write_text("ref: refs/heads/main")
        long.communicate(b"go\n")
    until(lambda: os.listdir(git) == ["HEAD"])


def test_the_user_can_remove_a_placeholder_and_create_the_file(world: World, sandbox: Sandbox) -> None:
    file = world.second / ".mcp.json"
    with start(world, sandbox, "touch ready; read line") as long:
        until((world.folder / "ready").exists)
        assert "outrider" in os.listdir(file)[0]
        shutil.rmtree(file)
        file.write_text("{}")
        world.run(["true"], sandbox, "write")
        long.communicate(b"go\n")
    until(lambda: not (world.second / ".vscode").exists())
    assert file.read_text() == "{}"


def test_an_empty_folder_that_the_user_makes_instead_is_kept(world: World, sandbox: Sandbox) -> None:
    mine = world.second / ".husky"
    with start(world, sandbox, "touch ready; read line") as long:
        until((world.folder / "ready").exists)
        shutil.rmtree(mine)
        mine.mkdir()
        long.communicate(b"go\n")
    until(lambda: not (world.second / ".vscode").exists())
    assert mine.is_dir()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_placeholders_of_a_killed_command_go(world: World, sandbox: Sandbox, number: int) -> None:
    before = entries(world) | {"ready"}
    with start(world, sandbox, "touch ready; sleep 1000") as long:
        until((world.folder / "ready").exists)
        os.killpg(long.pid, number)
    until(lambda: entries(world) == before)


def test_a_command_that_starts_late_finds_its_placeholders(world: World, sandbox: Sandbox) -> None:
    before = entries(world)
    argv = sandbox.wrap(["/bin/sh", "-c", f"mkdir {world.second}/.git"], "write", world.places)
    time.sleep(2 * IDLE_SECONDS)  # for the thread that would remove them too early
    assert (world.second / ".git").is_dir()
    assert subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True).returncode
    until(lambda: entries(world) == before)


def test_a_command_that_never_starts_does_not_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placeholders_module, "START_SECONDS", 0.2)
    path, placeholders = str(world.second / ".vscode"), Placeholders()
    _, started = placeholders.hold([path], str(world.outside))
    with open(started, "wb"):
        placeholders.hold([path], str(world.outside))
        until(lambda: len(placeholders._tickets) == 1 and not placeholders._deadlines)
        assert os.path.isdir(path)
    until(lambda: not os.path.exists(path))


def test_a_command_does_not_inherit_the_ticket(world: World, sandbox: Sandbox) -> None:
    assert world.run(["/bin/sh", "-c", "ls /proc/self/fd"], sandbox, "write").split() == ["0", "1", "2", "3"]


def test_the_placeholders_of_a_killed_process_go(world: World) -> None:
    before, path = entries(world), str(world.second / ".vscode")
    code = "import os, sys; from outrider.coding.sandbox.placeholders import Placeholders as P; "
    code += "P().hold([sys.argv[1]], sys.argv[2]); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, path, str(world.outside)])
    assert entries(world) == before | {".vscode"}
    absent, ticket = Placeholders().hold([path], str(world.outside))
    assert absent == [path]
    Path(ticket).write_text("")  # opens and closes it, as a command does
    until(lambda: entries(world) == before)


def test_another_sandbox_keeps_its_placeholder(world: World) -> None:
    path = str(world.second / ".vscode")
    one, two = Placeholders(), Placeholders()
    one.hold([path], str(world.outside))
    two.hold([path], str(world.outside))
    one._finalizer()
    assert os.path.isdir(path)
    two._finalizer()
    assert not os.path.exists(path)


def test_at_the_end_the_placeholders_of_a_running_command_stay(world: World) -> None:
    path, placeholders = str(world.second / ".vscode"), Placeholders()
    _, ticket = placeholders.hold([path], str(world.outside))
    with open(ticket, "wb"):
        placeholders._finalizer()
    assert os.path.isdir(path)


def test_a_handle_that_became_another_files_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placeholders_module, "START_SECONDS", 0.2)
    placeholders = Placeholders()
    placeholders.hold([], str(world.outside))
    (handle,) = placeholders._tickets
    reading, writing = os.pipe()
    try:
        os.write(writing, b"kept")
        os.dup2(reading, handle)
        until(lambda: not placeholders._tickets)
        assert os.read(handle, 10) == b"kept"
    finally:
        for each in (reading, writing, handle):
            os.close(each)


def test_a_ticket_is_used_again_and_made_anew_if_it_is_gone(world: World) -> None:
    placeholders, used = Placeholders(), set[str]()
    for _ in range(3):
        _, ticket = placeholders.hold([], str(world.outside))
        used.add(ticket)
        Path(ticket).write_text("")
        until(lambda: not placeholders._tickets)
    assert len(used) == 1
    os.unlink(ticket)
    assert os.path.exists(placeholders.hold([], str(world.outside))[1])


def test_only_the_command_prints(world: World, sandbox: Sandbox) -> None:
    argv = sandbox.wrap(["/bin/sh", "-c", "echo out; echo err >&2; touch ready; sleep 1000"], "write", world.places)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as long:
        until((world.folder / "ready").exists)
        os.killpg(long.pid, signal.SIGTERM)
        assert long.stdout
        assert long.stdout.read() == b"out\nerr\n"


def test_an_empty_folder_of_the_user_is_no_placeholder(world: World, sandbox: Sandbox) -> None:
    (world.second / ".vscode").mkdir()
    said = world.run(["/bin/sh", "-c", f"touch {world.second}/.vscode/tasks.json"], sandbox, "write")
    assert "Read-only" in said
    assert os.listdir(world.second / ".vscode") == []


def test_a_name_with_quotes_and_spaces_is_no_code(world: World, sandbox: Sandbox) -> None:
    strange = world.second / "a'b $(touch evil) \"c"
    strange.mkdir()
    places = type(world.places)(folder=strange, cwd=strange, temporary=world.temporary)
    argv = sandbox.wrap(["/bin/sh", "-c", "touch made; mkdir .git"], "write", places)
    subprocess.run(argv, cwd=world.folder, stdin=subprocess.DEVNULL, capture_output=True)
    until(lambda: os.listdir(strange) == ["made"])
    assert not Path(world.folder, "evil").exists()
