"""Real commands that try to leave the sandbox: as root and as a user, with each mechanism of this machine.

Every probe is first seen to succeed without a sandbox, so that each of these tests can fail. `docs/sandbox.md` lists
the probes that a mechanism does not stop; the expectations here are the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.coding.access import Access
from outrider.coding.own_places import OwnPlaces
from outrider.coding.sandbox.available import trial_error
from outrider.coding.sandbox.sandbox import Confinement, Sandbox
from tests.coding.sandbox.probes import Probes
from tests.coding.sandbox.world import PYTHON, World, as_user, mechanisms, new_world, users

NAMES = {name for name in vars(Probes) if not name.startswith("_")}
OF_THE_MACHINE = {
    *("open_kernel_crypto", "open_a_vsock", "open_sysrq", "use_io_uring", "use_bpf", "use_perf", "use_userfaultfd"),
    *("make_a_user_namespace", "clone_a_user_namespace", "clone3_a_user_namespace", "type_into_the_terminal"),
    *("connect_to_a_socket_in_run", "add_a_key", "read_a_keyring", "become_root", "trace_the_victim"),
}
"""Probes that a machine may refuse by itself."""
OF_ROOT = {"write_core_pattern", "mount_something", "make_a_device", "enter_a_namespace", "change_the_host_name"}

EXPECTED: dict[tuple[str, Access], set[str]] = {
    ("bubblewrap", "read"): {"write_to_a_pipe_outside"},
    ("bubblewrap", "write"): {"write_to_a_pipe_outside", "write_in_the_folder", "write_below_the_folder"},
    ("Landlock", "read"): set(),
    ("Landlock", "write"): {"write_below_the_folder", "change_mode_outside", "change_times_outside"},
}
"""What a command may do, and what a mechanism cannot stop."""
NETWORK = {"connect_to_loopback", "send_to_loopback_by_udp"}
EXPECTED |= {(name, "network"): EXPECTED[name, "write"] | NETWORK for name in ("bubblewrap", "Landlock")}


@pytest.fixture(params=users().items(), ids=lambda item: str(item[0]))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with new_world(request.param[1]) as world:
        if subprocess.run([*as_user(world.user), PYTHON, "-c", ""], capture_output=True).returncode:
            pytest.skip(f"{request.param[0]} cannot run {PYTHON}")
        yield world


@pytest.fixture(params=mechanisms())
def sandbox(request: pytest.FixtureRequest, world: World) -> Sandbox:
    return working(request.param, world)


def working(mechanism: str, world: World) -> Sandbox:
    if mechanism not in mechanisms():
        pytest.skip(f"{mechanism} is not here")
    sandbox = world.sandbox(mechanism)
    if error := world.run(["/bin/sh", "-c", ":"], sandbox, "read") or trial_error(sandbox):
        pytest.skip(f"{mechanism} does not work here: {error}")
    return sandbox


def test_without_a_sandbox_every_escape_succeeds(world: World) -> None:
    before = world.outside_state()
    assert world.escapes() | OF_THE_MACHINE | (OF_ROOT if world.user else set()) == NAMES
    assert world.outside_state() != before


@pytest.mark.sampled(4)
@pytest.mark.parametrize("access", ["read", "write", "network"])
def test_no_escape_succeeds(world: World, sandbox: Sandbox, access: Access) -> None:
    before = world.outside_state()
    assert world.escapes(sandbox, access) == EXPECTED[sandbox.name, access]
    assert world.outside_state() == before


# Secrets


def test_a_secret_that_appears_is_masked_for_the_next_command(world: World, sandbox: Sandbox) -> None:
    late = world.folder / "lib" / ".env.local"
    assert "No such file" in world.run(["cat", str(late)], sandbox, "read")
    late.write_text("canary")
    late.chmod(0o644)
    assert "canary" in world.run(["cat", str(late)])
    assert "canary" not in world.run(["cat", str(late)], sandbox, "read")


def test_a_folder_around_a_secret_cannot_be_moved(world: World, sandbox: Sandbox) -> None:
    said = world.run(["/bin/sh", "-c", "mkdir lib/node_modules; mv src lib/node_modules/src"], sandbox, "write")
    assert "busy" in said or "denied" in said
    assert world.run(["cat", "src/.env"]) == "canary"
    world.run(["/bin/sh", "-c", "mkdir -p lib/node_modules; mv src lib/node_modules/src"])
    assert "canary" in world.run(["cat", "lib/node_modules/src/.env"])
    assert "canary" not in world.run(["cat", "lib/node_modules/src/.env"], sandbox, "read")


def test_files_move_between_folders_around_secrets(world: World) -> None:
    sandbox = working("bubblewrap", world)
    script = "import os; os.rename('src/main.py', 'lib/moved.py'); os.link('lib/moved.py', 'src/linked.py')"
    assert world.run([PYTHON, "-c", script], sandbox, "write") == ""
    assert (world.folder / "src" / "linked.py").exists()


def test_a_rename_between_the_search_and_the_start_uncovers_nothing(world: World) -> None:
    """A command is prepared, another one puts a decoy in the place of a secret's folder, the first one starts."""
    sandbox = working("bubblewrap", world)
    prepared = world.wrapped(["/bin/sh", "-c", "cat src/.env moved/.env"], sandbox, "read")
    world.run(["/bin/sh", "-c", "mv src moved; mkdir src; echo decoy > src/.env"], sandbox, "write")
    ended = subprocess.run([*as_user(world.user), *prepared], cwd=world.folder, capture_output=True, text=True)
    assert "canary" not in ended.stdout
    assert (world.folder / "src" / "main.py").exists()


RENAMES = """
import os
open("lib/ready", "w").close()
while not os.path.exists("lib/stop"):
    for one, other in (("src", "moved"), ("moved", "src")):
        try: os.rename(one, other)
        except OSError: pass
"""


@pytest.mark.long
def test_no_secret_is_read_while_another_command_renames_its_folder(world: World) -> None:
    sandbox = working("bubblewrap", world)
    argv = world.wrapped([PYTHON, "-c", RENAMES], sandbox, "write")
    renaming = subprocess.Popen([*as_user(world.user), *argv], cwd=world.folder, stdin=subprocess.DEVNULL)
    try:
        while not (world.folder / "lib" / "ready").exists():
            assert renaming.poll() is None
        for _ in range(60):
            assert "canary" not in world.run(["/bin/sh", "-c", "cat src/.env moved/.env"], sandbox, "read")
        (world.folder / "lib" / "stop").touch()
        renaming.wait()
    finally:
        renaming.kill()
        renaming.wait()


def test_ordinary_files_are_read_and_empty_ones_stand_for_secrets(world: World) -> None:
    sandbox = working("bubblewrap", world)
    assert world.run(["cat", ".env", "src/main.py"], sandbox, "read") == "print()"


def test_own_files_are_not_there_but_scripts_of_skills_run(world: World, sandbox: Sandbox) -> None:
    for access in ("read", "write"):
        assert world.run(["/bin/sh", f"{world.settings}/skills/paint/run.sh"], sandbox, access) == "painted\n"
    if sandbox.name == "bubblewrap":
        assert world.run(["ls", "-A", str(world.settings)], sandbox, "read") == "skills\n"
        assert [world.run(["ls", "-A", str(each)], sandbox, "read") for each in (world.data, "data")] == ["", ""]


def test_a_working_folder_inside_the_data_folder_is_there_alone(world: World, sandbox: Sandbox) -> None:
    inside = world.data / "checkouts" / "one"
    inside.mkdir(parents=True)
    (inside / "file").write_text("ordinary")
    own = OwnPlaces((str(world.data),), (str(inside),))
    places = Confinement(folder=inside, cwd=inside, temporary=world.temporary, kept=(world.data,), own=own)
    for path in (world.data, *world.data.rglob("*")):
        os.chown(path, world.user, world.user)
    script = f"cat file; cat {world.data}/sessions/log.db; echo x > made"
    argv = world.wrapped(["/bin/sh", "-c", script], sandbox, "write", places)
    said = subprocess.run([*as_user(world.user), *argv], capture_output=True, text=True).stdout
    assert said == "ordinary"
    assert not (inside / "made").exists()


# Git


@pytest.mark.skipif(not shutil.which("git"), reason="there is no git")
def test_the_git_folders_of_a_worktree_cannot_be_changed(world: World, sandbox: Sandbox) -> None:
    main, tree = world.second / "main", world.folder / "tree"
    config = "-c user.name=me -c user.email=me@example.org -c safe.directory=*"
    script = (
        f"git init -q {main} && cd {main} && git {config} commit -q --allow-empty -m x && git worktree add -q {tree}"
    )
    world.run(["/bin/sh", "-c", script])
    assert (tree / ".git").is_file()
    places = Confinement(folder=tree, cwd=tree, temporary=world.temporary, writable=(world.second,))
    shared = main / ".git"
    attack = (
        f"echo evil > .git; mv .git x; cd {shared}; echo evil >> config; echo evil > worktrees/tree/config.worktree"
    )
    argv = world.wrapped(["/bin/sh", "-c", attack], sandbox, "write", places)
    subprocess.run([*as_user(world.user), *argv], capture_output=True)
    assert "evil" not in (tree / ".git").read_text()
    assert "evil" not in (main / ".git" / "config").read_text()
    assert not (main / ".git" / "worktrees" / "tree" / "config.worktree").exists()
    world.run(["/bin/sh", "-c", f"cd {tree}; {attack}"])
    assert "evil" in (main / ".git" / "config").read_text()


def test_below_the_root_of_a_repository_its_git_folder_is_read_only(world: World, sandbox: Sandbox) -> None:
    places = Confinement(folder=world.folder / "lib", cwd=world.folder / "lib", temporary=world.temporary)
    attack = "mkdir .git; echo evil > .git/config; echo evil >> ../.git/config; echo done"
    argv = world.wrapped(["/bin/sh", "-c", attack], sandbox, "write", places)
    said = subprocess.run([*as_user(world.user), *argv], capture_output=True, text=True).stdout
    assert said == "done\n"
    assert "evil" not in (world.folder / ".git" / "config").read_text()
    assert not (world.folder / "lib" / ".git" / "config").exists()


# Links that change while commands run


SWAP = """
import ctypes, os
os.mkdir("lib/d"); open("lib/d/.env", "w").close(); os.symlink(TARGET, "lib/link")
open("lib/ready", "w").close()
number, here, exchange = (316 if os.uname().machine == "x86_64" else 276), -100, 2
while not os.path.exists("lib/stop"):
    if ctypes.CDLL(None).syscall(number, here, b"lib/d", here, b"lib/link", exchange):
        os._exit(1)
"""
"""Make a folder with a secret, and exchange it with a link again and again."""


def test_links_swapped_by_a_running_command_lead_nowhere(world: World) -> None:
    sandbox = working("bubblewrap", world)
    script = SWAP.replace("TARGET", repr(str(world.outside)))
    argv = world.wrapped([PYTHON, "-c", script], sandbox, "write")
    attack = f"echo x > lib/d/swapped; echo x > {world.outside}/direct; :"
    swapping = subprocess.Popen([*as_user(world.user), *argv], cwd=world.folder, stdin=subprocess.DEVNULL)
    try:
        while not (world.folder / "lib" / "ready").exists():
            assert swapping.poll() is None
        before = world.outside_state()
        for _ in range(8):
            world.run(["/bin/sh", "-c", attack], sandbox, "write")
        assert swapping.poll() is None
        assert world.outside_state() == before
        (world.folder / "lib" / "stop").touch()
        swapping.wait()
    finally:
        swapping.kill()
        swapping.wait()
    shutil.rmtree(world.folder / "lib")
    (world.folder / "lib").mkdir()
    (world.folder / "lib" / "d").symlink_to(world.outside)
    world.run(["/bin/sh", "-c", attack])
    assert {Path(name).name for name in world.outside_state().keys() - before.keys()} == {"swapped", "direct"}


def test_a_user_namespace_is_made_also_for_root(world: World) -> None:
    sandbox = working("bubblewrap", world)
    script = "for each in user pid net ipc uts mnt; do readlink /proc/self/ns/$each; done"
    outside = world.run(["/bin/sh", "-c", script]).split()
    inside = world.run(["/bin/sh", "-c", script], sandbox, "read").split()
    assert len(inside) == len(outside) == 6
    assert not set(inside) & set(outside)
