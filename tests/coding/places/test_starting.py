"""Hands are started where there is only a Python: in another root, with a damaged cache, without a home, with noise."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import stat
from pathlib import Path

import pytest

from outrider.coding import standard_tools, workspace_at
from outrider.coding.hands import bundle, starter
from outrider.coding.hands.place import Place
from outrider.coding.toolbox.search import ripgrep
from outrider.errors import HandsError
from outrider.processes.programs import Programs
from outrider.testing import tool_context
from tests.coding.places import needs_other_root
from tests.other_root import OtherRoot

pytestmark = [needs_other_root, pytest.mark.usefixtures("one_bundle")]
PREAMBLE = b"outrider-hands"


@pytest.fixture
def root(tmp_path: Path) -> OtherRoot:
    """Return a root with Python and a shell."""
    return OtherRoot(tmp_path / "root")


def begin(place: str) -> None:
    """Start hands in a place, and see their first line."""

    async def run() -> None:
        streams = await Place.parse(place).start()
        try:
            async with asyncio.timeout(20):
                assert PREAMBLE in await streams.reader.readline()
        finally:
            await streams.close()

    asyncio.run(run())


def refused(place: str) -> str:
    """Return why hands do not start in a place."""
    with pytest.raises(HandsError) as error:
        begin(place)
    assert "\n" not in str(error.value)
    return str(error.value)


def cache(root: OtherRoot) -> Path:
    return root.home / ".cache" / "outrider" / "hands"


def test_the_bundle_is_sent_once_kept_private_and_checked_before_each_use(root: OtherRoot) -> None:
    begin(root.prefix())
    (archive,) = cache(root).glob("*.pyz")
    modules = archive.with_suffix("")
    kept = archive.stat()
    assert {stat.S_IMODE(each.stat().st_mode) for each in (cache(root), modules)} == {0o700}
    assert {stat.S_IMODE(each.stat().st_mode) for each in modules.rglob("*") if each.is_file()} == {0o600}
    begin(root.prefix())
    assert archive.stat().st_ino == kept.st_ino  # a second one would have another

    version = modules / "outrider" / "version.py"
    right = version.read_bytes()
    version.write_text("raise SystemExit('changed')")
    (modules / "msgspec.py").write_text("raise SystemExit('added')")
    begin(root.prefix())
    assert version.read_bytes() == right
    assert not (modules / "msgspec.py").exists()

    archive.write_bytes(archive.read_bytes()[:-100])
    begin(root.prefix())
    assert archive.stat().st_size == kept.st_size


def test_a_home_that_cannot_keep_it(root: OtherRoot) -> None:
    """Read-only, full, missing: a temporary folder is used. If nothing can be written, the reasons are said."""
    home = "mount -t tmpfs -o {} tmpfs home/ann"
    for mount in (home.format("ro"), home.format("size=100k"), ""):
        root.mounts = [mount] if mount else []
        begin(root.prefix() if mount else root.prefix(home="", cwd="/"))
        (own,) = (root.folder / "tmp").iterdir()
        assert own.name.startswith("outrider-hands-")
        assert not cache(root).exists()
    root.mounts = [home.format("ro"), "mount -t tmpfs -o size=100k tmpfs tmp", "mount -t tmpfs -o ro tmpfs dev/shm"]
    said = refused(root.prefix())
    assert "there is no folder to keep Outrider's hands in" in said
    assert "Read-only file system" in said
    assert "No space left on device" in said
    assert "set XDG_CACHE_HOME" in said


def test_a_folder_of_another_user_in_tmp_is_not_used(root: OtherRoot) -> None:
    planted = root.folder / "tmp" / f"outrider-hands-{0}"
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    (root.folder / "var" / "tmp").mkdir(parents=True)
    begin(root.prefix(home="", cwd="/"))
    assert not list(planted.iterdir())
    assert list((root.folder / "var" / "tmp").iterdir())


def test_without_a_python_that_is_new_enough(tmp_path: Path) -> None:
    bare = OtherRoot(tmp_path / "bare", python=False)
    assert refused(bare.prefix()) == "there is no Python, and hands need Python 3.11 or newer there"
    old = bare.folder / "bin" / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.2\nexit 1\n')
    old.chmod(0o755)
    assert refused(bare.prefix()) == "there is Python 3.9.2, and hands need Python 3.11 or newer there"


def test_noise_before_the_first_byte(root: OtherRoot) -> None:
    noise = "i=0; while [ $i -lt 2000 ]; do echo noise $i; i=$((i+1)); done; printf 'Welcome to build'"
    begin(shlex.join(["sh", "-c", f'{noise}; exec "$@"', "sh"]) + " " + root.prefix())


def test_noise_without_end_or_nothing_at_all(root: OtherRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "_END_SECONDS", 0.1)  # these do not end by themselves
    assert "prints too much" in refused("sh -c 'while :; do echo yes; done' sh")
    assert "prints too much" in refused("sh -c 'while :; do printf yes; done' sh")
    assert refused("sh -c 'echo first >&2; echo the door is locked >&2; exit 1' sh") == "the door is locked"
    assert refused("sh -c 'exit 1' sh") == "the connection ended before the hands began"
    monkeypatch.setattr("outrider.coding.hands.starter.START_SECONDS", 0.2)
    assert refused("sh -c 'sleep 60' sh") == "it did not answer within 0.2 seconds"


def test_a_folder_that_is_not_there(root: OtherRoot) -> None:
    async def run() -> None:
        place = Place("command", "", "/srv/gone", command=tuple(root.argv()))
        await place.start()

    with pytest.raises(HandsError, match="there is no folder /srv/gone"):
        asyncio.run(run())


def test_no_key_goes_there(root: OtherRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-api03-hidden-word-0123456789")
    monkeypatch.setenv("OUTRIDER_LOG_KEY", "another-hidden-word")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://hidden-word.example")
    there = tmp_path / "environment"
    begin(shlex.join(["sh", "-c", f'env > {there}; exec "$@"', "sh"]) + " " + root.prefix())
    variables = there.read_text()
    assert "HOME=" in variables
    assert "hidden-word" not in variables
    assert "OUTRIDER" not in variables


async def test_searches_use_the_ripgrep_of_the_place_and_say_if_there_is_none(root: OtherRoot) -> None:
    (root.home / "a.txt").write_text("hello\n")
    program = ripgrep.find(Programs([]))
    assert program

    async def found() -> list[str]:
        async with workspace_at(root.prefix()) as workspace:
            tools = standard_tools(workspace, ["Glob", "Grep"])
            return [(await each.invoke({"pattern": "[ah].*"}, tool_context())).text for each in tools]

    assert await found() == [ripgrep.MISSING] * 2
    shutil.copy(program, root.folder / "bin" / "rg")
    assert await found() == ["a.txt"] * 2


def test_a_bundle_that_was_copied_there_runs_by_itself(root: OtherRoot) -> None:
    (root.home / "hands.pyz").write_bytes(bundle.find_bundle(bundle.Target.here()))
    begin(root.prefix() + " python3 -IS hands.pyz --folder /home/ann")
    assert os.path.isdir(cache(root))
