"""The rules of Landlock: what is listed so that something else is left out. `test_escapes.py` applies them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from outrider.coding.sandbox import landlock
from outrider.coding.sandbox.landlock import Landlock
from outrider.coding.sandbox.sandbox import Confinement, DoubtError, Host
from tests.coding.sandbox.world import mechanisms


@pytest.fixture
def places(tmp_path: Path) -> Confinement:
    for name in ("work/.git", "work/src", "work/lib", "own"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work" / "src" / ".env").touch()
    (tmp_path / "work" / "src" / "main.py").touch()
    return Confinement(folder=tmp_path / "work", cwd=tmp_path / "work", temporary=tmp_path / "own")


def test_secrets_and_protected_entries_are_left_out(places: Confinement) -> None:
    folder = str(places.folder)
    rules = Landlock(Host("")).rules("write", places)
    assert rules.writable == (str(places.temporary), f"{folder}/lib", f"{folder}/src/main.py")
    assert {f"{folder}/.git", f"{folder}/lib", f"{folder}/src/main.py"} <= set(rules.readable)
    assert not {"/", "/etc", folder, f"{folder}/src", f"{folder}/src/.env", "/etc/shadow", "/tmp"} & set(rules.readable)
    assert rules.internet is False


def test_reading_changes_only_temporary_files(places: Confinement) -> None:
    assert Landlock(Host("")).rules("read", places).writable == (str(places.temporary),)
    assert Landlock(Host("")).rules("network", places).internet


def test_full_access_is_the_command_itself(places: Confinement) -> None:
    assert Landlock(Host("")).wrap(["ls"], "full", places) == ["ls"]


@pytest.mark.skipif("Landlock" not in mechanisms(), reason="the kernel has no Landlock")
def test_many_neighbours_of_a_secret_fit_into_the_arguments(places: Confinement) -> None:
    for number in range(2_000):
        (places.folder / "src" / f"{'long' * 20}-{number}").touch()
    sandbox = Landlock(Host(""))
    argv = sandbox.wrap(["/bin/sh", "-c", 'cat src/main.py; echo "$TMPDIR"'], "read", places)
    assert max(map(len, argv)) < 100_000
    ended = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ended.stdout == f"{places.temporary}\n", ended.stderr


@pytest.mark.skipif("Landlock" not in mechanisms(), reason="the kernel has no Landlock")
@pytest.mark.parametrize("script", ["import pty; pty.openpty()", "open('/dev/tty')", "open('/dev/ptmx')"])
def test_there_are_no_terminals_and_programs_say_so(places: Confinement, script: str) -> None:
    sandbox = Landlock(Host(""))
    argv = sandbox.wrap([sys.executable, "-c", script], "write", places)
    ended = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ended.returncode == 1
    assert "Permission denied" in ended.stderr or "out of pty devices" in ended.stderr
    argv = sandbox.wrap(["/bin/sh", "-c", "echo x > /dev/null && head -c 1 /dev/zero"], "read", places)
    ended = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (ended.stdout, ended.stderr) == ("\0", "")


@pytest.mark.skipif("Landlock" not in mechanisms(), reason="the kernel has no Landlock")
def test_what_it_does_not_stop_is_a_doubt(places: Confinement, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Landlock(Host(""))
    monkeypatch.setattr(landlock, "landlock_version", lambda: 6)
    assert sandbox.doubts("read", places) == sandbox.doubts("full", places) == ()
    assert sandbox.doubts("write", places) == (landlock.METADATA,)
    with pytest.raises(DoubtError, match="modes, owners and times"):
        sandbox.wrap(["ls"], "write", msgspec.structs.replace(places, accepted=()))
    monkeypatch.setattr(landlock, "landlock_version", lambda: 5)
    assert sandbox.doubts("read", places) == (landlock.SIGNALS,)


@pytest.mark.skipif("Landlock" not in mechanisms(), reason="the kernel has no Landlock")
def test_a_command_that_is_missing_is_a_sentence(places: Confinement) -> None:
    sandbox = Landlock(Host(""))
    argv = sandbox.wrap(["/missing"], "read", places)
    ended = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stderr) == (1, "outrider: No such file or directory (/missing)\n")
    missing = sandbox.rules("read", places).filter
    del sandbox  # removes its files
    ended = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stderr) == (1, f"outrider: No such file or directory ({missing})\n")
