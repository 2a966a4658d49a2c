"""Everyday commands that only read, run for real: they work in the sandbox as outside, and can do nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from outrider.coding.sandbox.sandbox import Sandbox
from tests.coding.permissions.everyday_commands import EVERYDAY_COMMANDS
from tests.coding.sandbox.test_escapes import working
from tests.coding.sandbox.world import SECONDS, World, mechanisms, new_world

pytestmark = pytest.mark.skipif("bubblewrap" not in mechanisms(), reason="bubblewrap is not here")

SECRET = "correct-horse-battery-staple"
OPTIONAL = re.compile(r"(?<![\w./-])(rg|tree|node|npm|cargo|go|pip|jq|xxd|ruff|docker|file|column|python|make)(?= )")
"""Programs that are not on every machine."""
SLOW = re.compile(r"\b(npm|cargo|go|pip|docker)\b")
"""Programs that start slowly."""
DIFFERS = ("ps aux", "env |", "du -sh", "uname -a", "time ", "file src", "ls -l")
"""Commands whose output is not the same inside, or not the same twice: it has times, processes or sizes of secrets."""
ONE_BY_ONE = r"""for line in "$@"; do printf '\0'; bash -c "$line" 2>&1; printf '\1%s' "$?"; done"""
ATTEMPTS = f"""
touch canary; echo x >> a; rm -f b; mkdir new
cat .env src/.env "$HOME/.netrc" 2>/dev/null; grep -rs {SECRET} . "$HOME"; git grep --no-index -h {SECRET}
{{ exec 3<>/dev/tcp/127.0.0.1/$PORT; }} 2>/dev/null && echo connected
python3 -c 'import socket; socket.socket(socket.AF_UNIX)' 2>/dev/null && echo socket
"""
FILES = {
    "src/main.py": "import sys\n\n\ndef main():\n    print('foo')  # TODO\n\n\nmain()\n",
    "src/util.py": "class Foo:\n    pass\n",
    "tool.py": "print(1)\n",
    "a": "one:1\ntwo:2\n",
    "b": "two:2\nthree:3\n",
    "package.json": '{"name": "everyday", "version": "1.0.0"}\n',
    "Makefile": "test:\n\techo tested\n",
    ".env": f"KEY={SECRET}\n",
    "src/.env": f"KEY={SECRET}\n",
}


@pytest.fixture
def world() -> Iterator[World]:
    with new_world() as world:
        shutil.rmtree(world.folder)
        make_project(world.folder)
        (world.home / ".netrc").write_text(SECRET)
        yield world


@pytest.fixture
def sandbox(world: World) -> Sandbox:
    return working("bubblewrap", world)


def make_project(folder: Path) -> None:
    """Make a small project under git, as an agent finds it."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for line in ("init -q", "add src/main.py", "commit -qm one", "add a", "commit -qm two"):
        subprocess.run(["git", *identity, *line.split()], cwd=folder, check=True, capture_output=True)


def run(world: World, sandbox: Sandbox | None, script: str, *arguments: str) -> str:
    argv = ["/bin/bash", "-c", script, "bash", *arguments]
    environment = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "HOME": str(world.home),
        "GIT_PAGER": "cat",
        "PAGER": "cat",
        "PORT": str(world._facts["port"]),
    }
    ended = subprocess.run(
        sandbox.wrap(argv, "read", world.places) if sandbox else argv,
        cwd=world.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )
    return (ended.stdout + ended.stderr).decode(errors="replace")


def results(world: World, sandbox: Sandbox | None, commands: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Run commands in one shell. Return the output and the exit code of each."""
    parts = run(world, sandbox, ONE_BY_ONE, *commands).split("\0")[1:]
    ends = [(output, code) for output, _, code in (part.rpartition("\1") for part in parts)]
    return dict(zip(commands, ends, strict=True))


def state(world: World) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in world.folder.rglob("*") if path.is_file()}


def installed(slow: bool) -> list[str]:
    found = [each for each in EVERYDAY_COMMANDS if all(map(shutil.which, OPTIONAL.findall(each)))]
    return [each for each in found if bool(SLOW.search(each)) == slow]


def test_everyday_commands_work_in_the_sandbox_as_outside(world: World, sandbox: Sandbox) -> None:
    commands = installed(slow=False)
    before = state(world)
    inside = results(world, sandbox, commands)
    assert state(world) == before
    assert not [each for each in commands if SECRET in inside[each][0]]
    bare = results(world, None, commands)
    assert {each: inside[each][1] for each in commands} == {each: bare[each][1] for each in commands}
    same = [command for command in commands if not command.startswith(DIFFERS)]
    assert len(same) >= 50
    assert {each: inside[each] for each in same} == {each: bare[each] for each in same}


@pytest.mark.long
def test_slow_everyday_commands_end_in_the_sandbox_as_outside(world: World, sandbox: Sandbox) -> None:
    """They print that they cannot write their logs and caches, so only the ends are compared."""
    commands = installed(slow=True)
    before = state(world)
    inside = results(world, sandbox, commands)
    assert state(world) == before
    assert {each: inside[each][1] for each in commands} == {
        each: code for each, (_, code) in results(world, None, commands).items()
    }


def test_attempts_succeed_outside_and_fail_inside(world: World, sandbox: Sandbox) -> None:
    before = state(world)
    said = run(world, sandbox, ATTEMPTS)
    assert state(world) == before
    assert SECRET not in said
    assert not {"connected", "socket"} & set(said.split())
    said = run(world, None, ATTEMPTS)
    assert state(world) != before
    assert said.count(SECRET) >= 3
    assert {"connected", "socket"} <= set(said.split())
