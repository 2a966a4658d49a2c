"""Hazards of searching: secrets, special files, links, odd names, floods, cancels, and an rg that is not ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import sysconfig
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.permissions.file_access import is_hidden
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.coding.toolbox import throttle
from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.search.glob import glob
from outrider.coding.toolbox.search.grep import grep
from outrider.coding.toolbox.workspace import Workspace
from outrider.processes import programs
from outrider.processes.programs import Programs
from outrider.tools.tool import Tool
from tests.coding.toolbox.calling import call, put

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")

SECRETS = (".env", ".env.*", "!.env.example", "*.pem", ".ssh/", ".aws/credentials", "/etc/shadow")
MODES = ("files_with_matches", "content", "count")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    put(folder / "a.py", "needle\n")
    return folder


def secret_in(folder: Path) -> Callable[[str], bool]:
    policy = Policy(folder=folder, secrets=SECRETS)
    return lambda path: is_hidden(policy, path)


def both(folder: Path) -> list[tuple[Tool, dict[str, str]]]:
    workspace = Workspace(folder)
    return [
        (glob(workspace, hidden=secret_in(folder)), {"pattern": "**"}),
        (grep(workspace, hidden=secret_in(folder)), {"pattern": "needle"}),
    ]


# Secrets


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pattern", [None, "*", "**", ".env*", "**/.env", "*.pem", "!nothing", ".*/**"])
async def test_no_search_shows_a_secret(folder: Path, mode: str, pattern: str | None) -> None:
    for name in (
        ".env",
        ".ENV",
        "sub/.env.local",
        "sub/key.pem",
        "deep/.ssh/id",
        "deep/.ssh/more/x",
        ".aws/credentials",
    ):
        put(folder / name, "needle of gold")
    tool = grep(Workspace(folder), hidden=secret_in(folder))
    result = await call(tool, pattern="needle", glob=pattern, output_mode=mode)
    assert "gold" not in result.text
    assert {line.partition(":")[0] for line in result.text.split("\n")} <= {"a.py", "[1 line in 1 file]", result.text}


@pytest.mark.parametrize("pattern", ["**", ".*", "**/.env*", ".env", "sub/.env", "sub/*", "**/*.{env,pem}", ".ssh/*"])
async def test_no_listing_names_a_secret(folder: Path, pattern: str) -> None:
    for name in (".env", "sub/.env", "sub/key.pem", ".ssh/id"):
        put(folder / name, "x")
    result = await call(glob(Workspace(folder), hidden=secret_in(folder)), pattern=pattern)
    assert result.text in ("a.py", f"No file matches {pattern}.") or "excluded from searches" in result.text


@pytest.mark.parametrize("path", [".env", "sub/../.env", "link", ".ssh", ".ssh/more", ".ssh/more/x", "to_ssh/more"])
async def test_a_secret_that_is_named_is_kept_back(folder: Path, path: str) -> None:
    put(folder / ".env", "needle")
    put(folder / ".ssh/more/x", "needle")
    put(folder / "sub/y")
    (folder / "link").symlink_to(".env")
    (folder / "to_ssh").symlink_to(".ssh")
    result = await call(
        grep(Workspace(folder), hidden=secret_in(folder)), pattern="needle", path=path, output_mode="content"
    )
    assert result.is_error
    assert "is excluded from searches: it may hold secrets" in result.text


async def test_what_a_pattern_takes_back_is_shown(folder: Path) -> None:
    put(folder / ".env.example", "needle")
    put(folder / ".env.other", "needle")
    result = await call(grep(Workspace(folder), hidden=secret_in(folder)), pattern="needle", glob=".env*")
    assert result.text == ".env.example"


async def test_outside_the_project_secrets_are_kept_back_too(folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "home/.ssh/id", "needle")
    put(tmp_path / "home/.aws/credentials", "needle")
    put(tmp_path / "home/fine.txt", "needle")
    result = await call(
        grep(Workspace(folder), hidden=secret_in(folder)), pattern="needle", path=str(tmp_path / "home")
    )
    assert result.text == str(tmp_path / "home/fine.txt")


async def test_a_rule_that_denies_reading_hides_from_searches(folder: Path) -> None:
    put(folder / "private/x.py", "needle")
    policy = Policy(folder=folder, deny=(Rule.parse("Read(private/**)"),))
    tool = grep(Workspace(folder), hidden=lambda path: is_hidden(policy, path))
    assert (await call(tool, pattern="needle")).text == "a.py"
    assert (await call(tool, pattern="needle", path="private")).is_error


# Special files and links


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_device])
async def test_a_special_file_is_refused_when_named_and_passed_over_otherwise(
    folder: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    make(folder / "special")
    for tool, arguments in both(folder):
        named = await call(tool, **arguments, path="special", within=20)
        assert named.is_error
        assert "neither a folder nor a regular file" in named.text
        assert (await call(tool, **arguments, within=20)).text == "a.py"


async def test_links_are_not_followed_unless_they_are_named(folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "outside/b.py", "needle")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder)
    for tool, arguments in both(folder):
        assert (await call(tool, **arguments)).text == "a.py"
        assert (await call(tool, **arguments, path="out")).text == str(tmp_path / "outside/b.py")


async def test_a_link_to_itself_is_refused(folder: Path) -> None:
    (folder / "self").symlink_to("self")
    for tool, arguments in both(folder):
        result = await call(tool, **arguments, path="self")
        assert result.is_error
        assert result.text.startswith("self ")


# Odd names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"two\nlines.txt", "two\\nlines.txt"),
        (b"not utf-8 \xff.txt", "not utf-8 \\udcff.txt"),
        (b"-rf.txt", "-rf.txt"),
        (b"a:1:b.txt", "a:1:b.txt"),
        (b"a.py: WARNING.txt", "a.py: WARNING.txt"),
        ("Straße é.txt".encode(), "Straße é.txt"),
        (b"esc\x1b[31m.txt", "esc\\x1b[31m.txt"),
    ],
)
async def test_any_name_is_found_and_shown_in_one_line(tmp_path: Path, name: bytes, shown: str) -> None:
    folder = tmp_path / "project"
    put(folder / os.fsdecode(name), "first\nneedle\n")
    tool = grep(Workspace(folder))
    assert (await call(glob(Workspace(folder)), pattern="*.txt")).text == shown
    assert (await call(tool, pattern="needle")).text == shown
    assert (await call(tool, pattern="needle", output_mode="content")).text == f"{shown}:2:needle"
    assert (await call(tool, pattern="needle", output_mode="count")).text.startswith(f"{shown}:1\n")


async def test_a_project_in_a_folder_with_an_odd_name_works(tmp_path: Path) -> None:
    folder = tmp_path / "[x] {a,b} *\n-- é"
    put(folder / "src/a.py", "needle")
    for tool, arguments in both(folder):
        assert (await call(tool, **arguments)).text == "src/a.py"
    assert (await call(glob(Workspace(folder)), pattern="*.py", path=str(folder / "src"))).text == "src/a.py"


# Floods, cancels, programs that are not rg


async def test_a_flood_is_stopped_and_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "MAX_OUTPUT", 1024 * 1024)
    put(folder / "flood.txt", "needle\n" * 300_000)
    result = await call(grep(Workspace(folder)), pattern="needle", output_mode="content")
    assert result.text.endswith("[The search was stopped: there is too much output. More lines match.]")
    assert "more lines not shown" in result.text


def program(path: Path, script: str) -> Path:
    put(path, f"#!/bin/sh\n{script}\n").chmod(0o755)
    return path


async def test_an_endless_listing_fills_no_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = program(tmp_path / "rg", f"exec yes {folder}/other.txt")  # one path without an end
    monkeypatch.setattr(ripgrep, "find", lambda programs: endless)
    monkeypatch.setattr(ripgrep, "MAX_OUTPUT", 4 * 1024 * 1024)
    tracemalloc.start()
    try:
        result = await call(glob(Workspace(folder)), pattern="**/*.py")
        assert tracemalloc.get_traced_memory()[1] < 40 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert "too many files here to list them all" in result.text


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("output", ["exec sleep 1000", "exec yes"])
async def test_a_cancelled_search_ends_with_all_it_started(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM INT; sleep 1000 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; {output}"
    stubborn = program(tmp_path / "rg", script)
    monkeypatch.setattr(ripgrep, "find", lambda programs: stubborn)
    monkeypatch.setattr(ripgrep, "MAX_OUTPUT", 1 << 60)
    search = asyncio.ensure_future(call(grep(Workspace(folder)), pattern="x", within=100))
    deadline = time.monotonic() + 60
    while not pids.exists():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    started = [int(pid) for pid in pids.read_text().split()]
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    while any(map(is_running, started)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_search_can_be_cancelled_at_any_point(folder: Path) -> None:
    tool = grep(Workspace(folder))
    for ticks in range(60):
        search = asyncio.ensure_future(call(tool, pattern="needle"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        search.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            assert (await search).text == "a.py"


async def test_progress_is_shown_while_a_search_takes_long(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = tmp_path / "done"
    script = f"while [ ! -e {done} ]; do printf '%s\\0' {folder}/a.py; sleep 0.02; done"
    slow = program(tmp_path / "rg", script)
    monkeypatch.setattr(ripgrep, "find", lambda programs: slow)
    monkeypatch.setattr(throttle, "FIRST", 0.0)
    shown: list[Any] = []

    def show(content: Any) -> None:
        shown.append(content)
        if len(shown) == 3:
            put(done)

    await call(grep(Workspace(folder)), pattern="needle", shown=show)
    assert shown[:3] == ["1 file so far"] * 3


def test_progress_is_shown_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shown: list[float] = []
    paced = throttle.ProgressThrottle(shown.append)
    for tick in range(2000):
        clock[0] = 100 + tick / 1000
        paced.show(lambda: clock[0])
    assert shown[0] >= 100.5
    assert len(shown) <= 16


async def test_settings_of_ripgrep_do_not_reach_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmful = put(tmp_path / "rgrc", "--invert-match\n--pre=/bin/false\n--no-ignore\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(harmful))
    result = await call(grep(Workspace(folder)), pattern="needle", output_mode="content")
    assert result.text == "a.py:1:needle"


async def test_without_ripgrep_there_is_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "find", lambda programs: None)
    for tool, arguments in both(folder):
        result = await call(tool, **arguments)
        assert result.is_error
        assert result.text == ripgrep.MISSING


async def test_a_program_that_cannot_be_run_is_a_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = put(tmp_path / "rg", b"\x7fELF nonsense")
    broken.chmod(0o755)
    monkeypatch.setattr(ripgrep, "find", lambda programs: broken)
    for tool, arguments in both(folder):
        result = await call(tool, **arguments)
        assert result.is_error
        assert result.text.startswith("The search cannot start")


def test_ripgrep_is_found_beside_python_then_on_the_path_but_never_in_the_folder_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    assert ripgrep.find(Programs([project])) is not None
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)  # not a virtual environment: its scripts may be elsewhere
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "scripts"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f".:{project / 'bin'}:{tmp_path / 'path'}")
    program(project / "rg", "")
    program(project / "bin/rg", "")
    assert ripgrep.find(Programs([project])) is None
    on_path = program(tmp_path / "path/rg", "")
    assert ripgrep.find(Programs([project])) == on_path
    beside = program(tmp_path / "scripts/rg", "")
    assert ripgrep.find(Programs([project])) == beside
    assert ripgrep.find(Programs([project, tmp_path / "scripts"])) == on_path


def test_ripgrep_is_found_through_a_link_in_the_folder_to_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, link, real = tmp_path / "project", tmp_path / "project/.venv", tmp_path / "real"
    beside = program(real / "bin/rg", "")
    project.mkdir()
    link.symlink_to(real)
    monkeypatch.setattr(sys, "prefix", str(link))
    monkeypatch.setattr(sys, "executable", str(link / "bin/python"))
    monkeypatch.setenv("PATH", str(link / "bin"))
    assert ripgrep.find(Programs([project])) is None, "it is not the environment that runs Outrider"
    monkeypatch.setattr(programs, "ENVIRONMENTS", {str(link): str(real)})
    assert ripgrep.find(Programs([project])) == beside


async def test_many_searches_at_once_all_end(folder: Path) -> None:
    for number in range(50):
        put(folder / f"{number}.txt", f"needle {number}\n")
    tool = grep(Workspace(folder))
    results = await asyncio.gather(*(call(tool, pattern=f"needle {number}$") for number in range(50)))
    assert [result.text for result in results] == [f"{number}.txt" for number in range(50)]
