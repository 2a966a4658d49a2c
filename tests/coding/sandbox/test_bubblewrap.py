"""The bubblewrap sandbox: what bwrap is asked for, and commands of the Bash tool in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from outrider.coding.access import Access
from outrider.coding.sandbox.available import try_sandbox
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.sandbox import Confinement, Host
from tests.coding.toolbox.shelling import Shelling, new_nap, sleepers, until

# Stands in for bubblewrap: notes what it was asked for and runs the command in its folder, without any fence.
WORKS = """#!/bin/sh
printf '%s\\n' "$@" > "$(dirname "$0")/asked"
while [ "$1" != -- ]; do
  [ "$1" = --chdir ] && cd "$2"
  shift
done
shift
"$@"
"""


def stand_in(folder: Path, text: str = WORKS) -> str:
    program = folder / "bwrap"
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


def wrapped(base: Path, access: Access, *, program: str = "/usr/bin/bwrap", host: Host | None = None) -> list[str]:
    for name in ("home", "work", "own"):
        (base / name).mkdir(exist_ok=True)
    places = Confinement(folder=base / "work", cwd=base / "work", temporary=base / "own")
    sandbox = Bubblewrap(program, host or Host(str(base / "home")), b"filter")
    return sandbox.wrap(["bash", "-c", "x"], access, places)


def triples(argv: list[str], *options: str) -> list[tuple[str, str]]:
    return [(argv[at + 1], argv[at + 2]) for at, word in enumerate(argv) if word in options]


def test_the_command_stands_at_the_end_and_a_shell_opens_the_filter(tmp_path: Path) -> None:
    argv = wrapped(tmp_path, "read")
    assert argv[:3] == ["/bin/sh", "-c", 'exec "$@" 9<"$0"']
    assert argv[4:8] == ["/usr/bin/bwrap", "--ro-bind", "/", "/"]
    assert argv[-8:] == ["--seccomp", "9", "--chdir", str(tmp_path / "work"), "--", "bash", "-c", "x"]


def test_full_access_is_the_command_itself(tmp_path: Path) -> None:
    assert wrapped(tmp_path, "full") == ["bash", "-c", "x"]


def test_only_the_folder_and_temporary_files_can_be_written(tmp_path: Path) -> None:
    own, work = str(tmp_path / "own"), str(tmp_path / "work")
    assert triples(wrapped(tmp_path, "read"), "--bind") == [(own, "/tmp"), (own, own)]
    assert sorted(triples(wrapped(tmp_path, "write"), "--bind")) == sorted([(own, "/tmp"), (own, own), (work, work)])


def test_every_namespace_is_new_also_for_root(tmp_path: Path) -> None:
    argv = wrapped(tmp_path, "write")
    spaces = {f"--unshare-{name}" for name in ("user", "pid", "ipc", "uts", "cgroup-try", "net")}
    assert spaces | {"--die-with-parent", "--new-session"} <= set(argv)
    assert {("--cap-drop", "ALL"), ("--remount-ro", "/proc"), ("--dev", "/dev")} <= set(pairwise(argv))


def test_sockets_that_the_environment_names_are_covered(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    runtime, agent = tmp_path / "home" / "runtime", tmp_path / "home" / "agent"
    runtime.mkdir()
    agent.touch()
    names = {"XDG_RUNTIME_DIR": str(runtime), "DOCKER_HOST": f"unix://{agent}", "SSH_AUTH_SOCK": "/missing"}
    argv = wrapped(tmp_path, "read", host=Host.of({"HOME": str(tmp_path / "home"), **names}))
    assert ("--tmpfs", str(runtime)) in pairwise(argv)
    assert str(agent) in [place for _, place in triples(argv, "--ro-bind")]
    bus = Host.of({"HOME": "/", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/a/bus,guid=1;unix:abstract=/x"})
    assert bus.sockets == ("/a/bus", "/x")


def test_a_temporary_folder_inside_the_working_folder_is_not_bound(tmp_path: Path) -> None:
    places = Confinement(folder=tmp_path, cwd=tmp_path, temporary=tmp_path / "own")
    argv = Bubblewrap("bwrap", Host(""), b"").wrap(["true"], "write", places)
    assert triples(argv, "--bind") == [(str(tmp_path), str(tmp_path))]
    assert ("--tmpfs", "/tmp") in pairwise(argv)


def test_the_files_of_the_sandbox_are_the_owners_and_come_back(tmp_path: Path) -> None:
    sandbox = Bubblewrap("bwrap", Host(""), b"filter")
    places = Confinement(folder=tmp_path, cwd=tmp_path, temporary=tmp_path)
    first = Path(sandbox.wrap(["true"], "read", places)[3])
    assert (first.parent.stat().st_mode & 0o777, first.read_bytes()) == (0o700, b"filter")
    first.unlink()
    second = Path(sandbox.wrap(["true"], "read", places)[3])
    assert second.read_bytes() == b"filter"
    del sandbox
    assert not second.exists()
    assert not first.parent.exists()


# Commands of the Bash tool


@pytest.fixture
def standing_in(tmp_path: Path) -> Iterator[Shelling]:
    (tmp_path / "project" / "a").mkdir(parents=True)
    sandbox = Bubblewrap(stand_in(tmp_path), Host(""), b"")
    shelling = Shelling(tmp_path / "project", sandbox)
    yield shelling
    shelling.workspace.close()


async def test_the_folder_is_kept_and_the_exit_code_told_through_the_sandbox(standing_in: Shelling) -> None:
    result = await standing_in.run("cd a; echo in; exit 3")
    assert result.text == "in\nExit code 3."
    assert result.details["cwd"] == str(standing_in.workspace.folder / "a")
    assert (await standing_in.run("pwd")).text == str(standing_in.workspace.folder / "a")
    asked = (standing_in.workspace.folder.parent / "asked").read_text().splitlines()
    assert ("--chdir", str(standing_in.workspace.folder / "a")) in pairwise(asked)
    assert (str(standing_in.workspace.temporary / "tmp"), "/tmp") in pairwise(asked)


async def test_a_time_out_reaches_through_the_sandbox(standing_in: Shelling) -> None:
    nap = new_nap()
    result = await standing_in.run(f"setsid sleep {nap} & sleep {nap}", timeout=500)
    assert "did not finish" in result.text
    assert sleepers(nap) == []


@pytest.fixture
def fenced(tmp_path: Path) -> Iterator[Shelling]:
    sandbox, state = try_sandbox()
    if sandbox is None:
        pytest.skip(state)
    (tmp_path / "project" / "a").mkdir(parents=True)
    shelling = Shelling(tmp_path / "project", sandbox)
    yield shelling
    shelling.workspace.close()


async def test_in_the_real_sandbox_temporary_files_are_kept_between_commands(fenced: Shelling) -> None:
    await fenced.run('echo x > "${TMPDIR:-/tmp}/shared-by-outrider"')
    assert "shared-by-outrider" not in os.listdir("/tmp")
    assert (await fenced.run('cat "${TMPDIR:-/tmp}/shared-by-outrider"')).text == "x"


async def test_in_the_real_sandbox_the_folder_is_kept(fenced: Shelling) -> None:
    result = await fenced.run("cd a; exit 3")
    assert result.details["exit_code"] == 3
    assert fenced.workspace.shell_cwd == fenced.workspace.folder / "a"


async def test_in_the_real_sandbox_other_processes_are_not_signalled(fenced: Shelling) -> None:
    assert (await fenced.run(f"kill -0 {os.getpid()}")).is_error


async def test_in_the_real_sandbox_a_time_out_ends_everything(fenced: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(
        fenced.run(f"trap '' TERM; setsid sleep {nap} & sleep {nap}; sleep {nap}", timeout=2_500)
    )
    await until(lambda: len(sleepers(nap)) >= 2 or running.done())
    await running
    await until(lambda: not sleepers(nap))
