"""Placeholders of protected paths: they hold a name while a command runs, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from outrider.coding import placeholder_keeper
from outrider.coding.placeholder_keeper import IDLE_SECONDS, MARKER, remove_unused
from outrider.coding.sandbox.bubblewrap import Placeholders
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


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def holding(path: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a path and has printed its ticket. It does not outlive the block."""
    code = "import sys, time; from outrider.coding.sandbox.bubblewrap import Placeholders; held = Placeholders(); "
    code += "print(held.hold([sys.argv[1]], sys.argv[2])[1], flush=True); time.sleep(600)"
    argv = [sys.executable, "-c", code, path, str(folder)]
    out, err = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(argv, stdout=out, stderr=err, text=True, start_new_session=True) as process:
        try:
            assert process.stdout
            process.ticket = process.stdout.readline().strip()  # type: ignore[attr-defined]
            assert os.path.isdir(path)
            yield process
        finally:
            process.kill()


def ticket_of(process: subprocess.Popen[str]) -> str:
    return str(process.ticket)  # type: ignore[attr-defined]


def end(placeholders: Placeholders) -> None:
    assert placeholders._keeper
    placeholders._keeper.end()


def keepers(path: str) -> list[int]:
    """The keepers that hold a path."""
    return [int(each.parts[2]) for each in Path("/proc").glob("[0-9]*/cmdline") if is_keeper(each) and has(each, path)]


def is_keeper(file: Path) -> bool:
    with suppress(OSError):
        return b"keeper.py" in file.read_bytes()
    return False


def has(file: Path, path: str) -> bool:
    with suppress(OSError):
        return any(os.readlink(each) == path for each in file.with_name("fd").iterdir())
    return False


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
    until(lambda: os.listdir(git) == ["HEAD"] and not git.stat().st_mode & stat.S_ISVTX)


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


def test_a_command_does_not_inherit_the_ticket(world: World, sandbox: Sandbox) -> None:
    assert world.run(["/bin/sh", "-c", "ls /proc/self/fd"], sandbox, "write").split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("group", [False, True])
def test_the_placeholders_of_a_killed_process_go(world: World, number: int, group: bool) -> None:
    """Also if all processes of its terminal are killed."""
    before, path = entries(world), str(world.second / ".vscode")
    with holding(path, world.outside) as process:
        os.killpg(process.pid, number) if group else process.send_signal(number)
        process.wait(60)
    until(lambda: entries(world) == before, seconds=5)


def test_a_command_outlives_the_process_and_keeps_its_placeholders(world: World) -> None:
    """In the terminal of an editor."""
    before, path = entries(world), str(world.second / ".vscode")
    with holding(path, world.outside) as process, open(ticket_of(process), "wb"):
        process.kill()
        process.wait()
        time.sleep(2 * IDLE_SECONDS)  # for the keeper, which would remove them too early
        assert os.path.isdir(path)
    until(lambda: entries(world) == before)


def test_a_command_that_starts_after_the_process_has_ended_does_not_run(world: World, sandbox: Sandbox) -> None:
    before = entries(world)
    argv = sandbox.wrap(["/bin/sh", "-c", "touch made"], "write", world.places)
    sandbox._placeholders._keeper.end()  # type: ignore[attr-defined]
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (ended.returncode, entries(world)) == (126, before)
    assert "too long ago" in ended.stderr


def test_another_sandbox_keeps_its_placeholder(world: World) -> None:
    path = str(world.second / ".vscode")
    one, two = Placeholders(), Placeholders()
    one.hold([path], str(world.outside))
    _, ticket = two.hold([path], str(world.home))
    with open(ticket, "wb"):
        end(one)
        remove_unused([path])
        assert os.path.isdir(path)
        end(two)
        assert os.path.isdir(path)
    until(lambda: not os.path.exists(path))


def test_of_two_processes_in_a_folder_one_is_killed(world: World) -> None:
    before, path = entries(world), str(world.second / ".vscode")
    with holding(path, world.outside) as killed, holding(path, world.home) as other:
        with open(ticket_of(other), "wb"):
            killed.kill()
            killed.wait()
            time.sleep(2 * IDLE_SECONDS)  # for its keeper, which would remove them too early
            assert os.path.isdir(path)
        until(lambda: entries(world) == before)
        assert other.poll() is None


@pytest.mark.parametrize("state", ["marked", "unmarked", "older"])
def test_leftovers_of_a_killed_keeper_are_swept(world: World, state: str) -> None:
    before, paths = entries(world), [str(world.second / name) for name in (".vscode", "Jenkinsfile")]
    if state == "marked":
        placeholders = Placeholders()
        placeholders.hold(paths, str(world.outside))
        (process,) = keepers(paths[0])
        os.kill(process, signal.SIGKILL)
        until(lambda: not keepers(paths[0]))
    for path in paths:
        if state == "unmarked":  # killed between the two folders
            os.mkdir(path)
            os.chmod(path, 0o1755)
        elif state == "older":  # a version that wrote its process into the name
            os.makedirs(f"{path}/{MARKER}-402-7-0a0b0c0d")
    assert entries(world) == before | {".vscode", "Jenkinsfile"}
    remove_unused(paths)
    assert entries(world) == before


def test_the_sweep_leaves_what_is_the_users(world: World) -> None:
    empty, full, file, link = (world.second / name for name in (".vscode", ".idea", "Jenkinsfile", ".husky"))
    empty.mkdir()
    (full / MARKER).mkdir(parents=True)
    (full / "mine").touch()
    file.touch()
    link.symlink_to(empty)
    before = sorted(world.second.rglob("*"))
    remove_unused(map(str, (empty, full, file, link, world.second / "missing")))
    assert sorted(world.second.rglob("*")) == before


def test_a_folder_with_something_in_its_marker_hides_nothing(world: World) -> None:
    (world.second / ".vscode" / MARKER / "inside").mkdir(parents=True)
    assert not placeholder_keeper.is_placeholder(str(world.second / ".vscode"))


def test_after_the_keeper_was_killed_another_one_keeps_the_placeholders(world: World) -> None:
    """Also for the commands of the first."""
    before, path, placeholders = entries(world), str(world.second / ".vscode"), Placeholders()
    _, running = placeholders.hold([path], str(world.outside))
    with open(running, "wb"):
        (process,) = keepers(path)
        os.kill(process, signal.SIGKILL)
        absent, ticket = placeholders.hold([path], str(world.outside))
        assert absent == [path]
        Path(ticket).write_text("")  # opens and closes it, as a command does
        time.sleep(2 * IDLE_SECONDS)  # for the keeper, which would remove them too early
        assert os.path.isdir(path)
    until(lambda: entries(world) == before)


def test_the_keeper_ends_with_the_process_and_is_no_zombie(world: World) -> None:
    path = str(world.second / ".vscode")
    with holding(path, world.outside) as process:
        (keeper,) = keepers(path)
        assert os.getsid(keeper) != os.getsid(process.pid)
        assert Path(f"/proc/{keeper}/cwd").resolve() == Path("/")
        assert b"HOME" not in Path(f"/proc/{keeper}/environ").read_bytes()
        outputs = {os.readlink(f"/proc/{keeper}/fd/{number}") for number in (1, 2)}
        assert outputs == {os.devnull}
        process.kill()
        until(lambda: not os.path.exists(f"/proc/{keeper}"))


def test_a_working_folder_may_be_deleted_meanwhile(world: World) -> None:
    path = str(world.second / ".vscode")
    with holding(path, world.outside) as process:
        (keeper,) = keepers(path)
        shutil.rmtree(world.second)
        process.kill()
        until(lambda: not os.path.exists(f"/proc/{keeper}"))
    assert not world.second.exists()


def test_a_forked_process_leaves_the_placeholders_of_its_parent(world: World) -> None:
    path, placeholders = str(world.second / ".vscode"), Placeholders()
    _, ticket = placeholders.hold([path], str(world.outside))
    with open(ticket, "wb"):
        if not (child := os.fork()):
            end(placeholders)
            os._exit(0)
        os.waitpid(child, 0)
        assert placeholders.hold([path], str(world.outside))[0] == [path]


def test_a_name_that_cannot_be_held_stops_the_command(world: World) -> None:
    with pytest.raises(OSError, match="too long"):
        Placeholders().hold([str(world.second / ".vscode"), str(world.second / ("x" * 256))], str(world.outside))
    until(lambda: ".vscode" not in entries(world))


def test_without_python_the_command_does_not_run(world: World) -> None:
    with pytest.raises(OSError, match="the process that protects names does not answer"):
        Placeholders("/missing").hold([str(world.second / ".vscode")], str(world.outside))


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
