"""Bubblewrap: what it is asked for, what happens where it does not work, and, where it is there, that it holds."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from outrider.coding.sandbox import Sandbox, find_sandbox, try_sandbox
from outrider.coding.toolbox.shell.bash import bash
from outrider.coding.toolbox.workspace import Workspace
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
FAILS = "#!/bin/sh\necho 'first line' >&2\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"


def stand_in(folder: Path, text: str) -> str:
    program = folder / "bwrap"
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


# What bubblewrap is asked for


def wrapped(sandbox: Sandbox) -> list[str]:
    return sandbox.wrap(["bash", "-c", "x"], Path("/home/me/project"), Path("/home/me/project/src"), Path("/tmp/own"))


def test_the_command_stands_at_the_end_and_runs_in_the_folder_of_the_shell() -> None:
    argv = wrapped(Sandbox("/usr/bin/bwrap"))
    assert argv[0] == "/usr/bin/bwrap"
    assert argv[-6:] == ["--chdir", "/home/me/project/src", "--", "bash", "-c", "x"]


def test_only_the_workspace_and_temporary_files_can_be_written() -> None:
    argv = wrapped(Sandbox("bwrap"))
    binds = [(argv[place + 1], argv[place + 2]) for place, word in enumerate(argv) if word in ("--bind", "--bind-try")]
    assert binds == [("/tmp/own", "/tmp"), ("/tmp/own", "/tmp/own"), ("/home/me/project", "/home/me/project")]
    assert argv[1:4] == ["--ro-bind", "/", "/"]


def test_folders_that_the_user_named_can_be_written_too() -> None:
    argv = wrapped(Sandbox("bwrap", writable=("/home/me/.cache",)))
    place = argv.index("--bind-try")
    assert argv[place : place + 3] == ["--bind-try", "/home/me/.cache", "/home/me/.cache"]


def test_the_workspace_is_mounted_after_a_tmp_that_would_hide_it() -> None:
    argv = Sandbox("bwrap").wrap(["true"], Path("/tmp/project"), Path("/tmp/project"), Path("/var/own"))
    pairs = list(pairwise(argv))
    assert pairs.index(("/var/own", "/tmp")) < pairs.index(("/tmp/project", "/tmp/project"))


def test_processes_are_apart_and_end_with_their_parent() -> None:
    argv = wrapped(Sandbox("bwrap"))
    assert {"--unshare-pid", "--die-with-parent", "--new-session"} <= set(argv)
    assert ("--cap-drop", "ALL") in pairwise(argv)
    assert ("--proc", "/proc") in pairwise(argv)
    assert ("--dev", "/dev") in pairwise(argv)


def test_the_network_is_a_choice() -> None:
    assert "--unshare-net" not in wrapped(Sandbox("bwrap", network=True))
    assert "--unshare-net" in wrapped(Sandbox("bwrap", network=False))


def test_the_model_is_told_what_it_may_do(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    fenced = bash(workspace, Sandbox("bwrap", network=False)).description
    assert fenced.startswith(bash(workspace).description)
    assert fenced.endswith(
        "Commands run in a sandbox: they can write to the workspace, a /tmp of their own, and do not reach the network."
    )


# Whether there is one


def test_without_bubblewrap_there_is_no_sandbox_and_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_sandbox(network=True) is None
    assert try_sandbox()[1] == "commands run without a sandbox: bubblewrap is not installed"


def test_a_bubblewrap_that_may_not_is_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, FAILS)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_sandbox(network=True) is None
    assert try_sandbox()[1] == (
        "commands run without a sandbox: bubblewrap does not work here "
        "(bwrap: No permissions to create a new namespace)"
    )


def test_a_bubblewrap_that_says_nothing_is_no_sandbox_either(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "#!/bin/sh\nexit 7\n")
    assert find_sandbox(network=True, program=program) is None
    assert try_sandbox(program=program)[1].endswith("does not work here (exit code 7)")


def test_a_bubblewrap_that_is_no_program_is_no_sandbox(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "\x7fELFnonsense")
    assert find_sandbox(network=True, program=program) is None
    assert "does not work here" in try_sandbox(program=program)[1]


def test_a_bubblewrap_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.TRIAL_SECONDS", 0.2)
    program = stand_in(tmp_path, "#!/bin/sh\nexec sleep 60\n")
    assert try_sandbox(program=program)[1].endswith("(it did not answer within 0.2 seconds)")


def test_one_that_works_is_tried_with_what_it_will_be_asked_for(tmp_path: Path) -> None:
    program = stand_in(tmp_path, WORKS)
    assert find_sandbox(network=False, program=program) == Sandbox(program, network=False)
    assert {"--unshare-net", "--unshare-pid", "--proc"} <= set((tmp_path / "asked").read_text().splitlines())
    assert try_sandbox(network=False, program=program)[1] == "commands run in a sandbox (bubblewrap, without network)"
    assert try_sandbox(program=program)[1] == "commands run in a sandbox (bubblewrap, with network)"


# Commands in it


@pytest.fixture
def standing_in(tmp_path: Path) -> Iterator[Shelling]:
    (tmp_path / "project" / "a").mkdir(parents=True)
    shelling = Shelling(tmp_path / "project", Sandbox(stand_in(tmp_path, WORKS), network=False))
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


async def test_a_sandbox_that_has_gone_is_a_sentence(tmp_path: Path) -> None:
    result = await Shelling(tmp_path, Sandbox(str(tmp_path / "gone"))).run("echo no")
    assert result.is_error
    assert result.text == f"The command was not run: no such file or directory ({tmp_path}/gone)."


# The real one, where it is


@pytest.fixture
def fenced(tmp_path: Path) -> Iterator[Shelling]:
    sandbox = find_sandbox(network=False)
    if sandbox is None:
        pytest.skip(try_sandbox(network=False)[1])
    (tmp_path / "project").mkdir()
    shelling = Shelling(tmp_path / "project", sandbox)
    yield shelling
    shelling.workspace.close()


async def test_in_the_real_sandbox_the_workspace_can_be_written_and_nothing_else(fenced: Shelling) -> None:
    folder = fenced.workspace.folder
    outside = folder.parent / "outside"
    result = await fenced.run(
        f"echo x > inside; echo x > {outside}; echo x > ~/outrider-was-here; echo x > /tmp/shared-by-outrider"
    )
    assert (folder / "inside").read_text() == "x\n"
    assert not outside.exists()
    assert "outrider-was-here" not in os.listdir(Path.home())
    assert "shared-by-outrider" not in os.listdir("/tmp")
    assert "Read-only file system" in result.text
    assert (await fenced.run("cat /tmp/shared-by-outrider")).text == "x"


async def test_in_the_real_sandbox_the_folder_is_kept(fenced: Shelling) -> None:
    result = await fenced.run("mkdir a; cd a; exit 3")
    assert result.details["exit_code"] == 3
    assert fenced.workspace.shell_cwd == fenced.workspace.folder / "a"


async def test_in_the_real_sandbox_there_is_no_network(fenced: Shelling) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = await fenced.run(f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}")
    assert result.is_error


async def test_in_the_real_sandbox_other_processes_are_not_seen(fenced: Shelling) -> None:
    result = await fenced.run(f"kill -0 {os.getpid()}")
    assert result.is_error


async def test_in_the_real_sandbox_a_time_out_ends_everything(fenced: Shelling) -> None:
    nap = new_nap()
    running = asyncio.ensure_future(
        fenced.run(f"trap '' TERM; setsid sleep {nap} & sleep {nap}; sleep {nap}", timeout=2_500)
    )
    await until(lambda: len(sleepers(nap)) >= 2 or running.done())
    await running
    await until(lambda: not sleepers(nap))
