"""Finding a sandbox: each candidate is tried, and a sentence says what was found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.coding.sandbox import available
from outrider.coding.sandbox.available import find_sandbox, try_sandbox
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from tests.coding.sandbox.test_bubblewrap import stand_in

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

FAILS = "#!/bin/sh\necho 'first line' >&2\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other mechanism than the stand-in of the test, and no other folder of programs."""
    monkeypatch.setattr(available, "_bundled", lambda: None)
    monkeypatch.setattr(available, "landlock_version", lambda: 0)
    monkeypatch.setattr(available, "SYSTEM_PATH", "/nowhere")


def used(entry: Path, folders: Sequence[Path] = ()) -> str:
    """Return the bubblewrap that is used with this PATH."""
    sandbox = find_sandbox(looked(entry), folders=folders)
    assert isinstance(sandbox, Bubblewrap)
    return sandbox.program


def looked(folder: Path | str) -> dict[str, str]:
    return {"HOME": "/nonexistent", "PATH": f"{folder}"}


def test_without_any_mechanism_a_sentence_says_so() -> None:
    assert find_sandbox(looked("/nowhere")) is None
    assert try_sandbox(looked("/nowhere"))[1] == (
        "commands run without a sandbox: bubblewrap is not installed; the kernel has no Landlock"
    )


def test_a_bubblewrap_that_may_not_is_no_sandbox(tmp_path: Path) -> None:
    stand_in(tmp_path, FAILS)
    assert try_sandbox(looked(tmp_path)) == (
        None,
        "commands run without a sandbox: bubblewrap does not work here "
        "(bwrap: No permissions to create a new namespace); the kernel has no Landlock",
    )


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 7\n", "\x7fELFnonsense"])
def test_a_bubblewrap_that_does_not_run_is_no_sandbox(tmp_path: Path, text: str) -> None:
    stand_in(tmp_path, text)
    assert find_sandbox(looked(tmp_path)) is None
    assert "bubblewrap does not work here (" in try_sandbox(looked(tmp_path))[1]


def test_a_bubblewrap_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "TRIAL_SECONDS", 0.2)
    stand_in(tmp_path, "#!/bin/sh\nexec sleep 60\n")
    assert "(it did not answer within 0.2 seconds)" in try_sandbox(looked(tmp_path))[1]


def test_a_bubblewrap_named_by_a_relative_path_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_sandbox(looked(".")) is None


def test_one_that_works_is_tried_with_what_it_will_be_asked_for(tmp_path: Path) -> None:
    program = stand_in(tmp_path)
    sandbox, state = try_sandbox(looked(tmp_path))
    assert isinstance(sandbox, Bubblewrap)
    assert (sandbox.program, state) == (program, "commands run in a sandbox (bubblewrap)")
    assert {"--unshare-net", "--seccomp", "--proc"} <= set((tmp_path / "asked").read_text().splitlines())


def test_the_bundled_one_comes_first_and_the_other_is_used_when_it_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "system").mkdir()
    (tmp_path / "wheel").mkdir()
    system = stand_in(tmp_path / "system")
    bundled = stand_in(tmp_path / "wheel")
    monkeypatch.setattr(available, "_bundled", lambda: bundled)
    assert used(tmp_path / "system") == bundled
    stand_in(tmp_path / "wheel", FAILS)
    assert used(tmp_path / "system") == system


def test_a_bubblewrap_in_a_working_folder_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "system").mkdir()
    written = stand_in(tmp_path / "project")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "bwrap").symlink_to(written)
    monkeypatch.setattr(available, "_bundled", lambda: written)
    for entry in (tmp_path / "project", tmp_path / "links"):
        assert find_sandbox(looked(entry), folders=[tmp_path / "project"]) is None
    assert used(tmp_path / "links", folders=[tmp_path / "system"]) == written


def test_a_machine_without_a_filter_has_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path)
    monkeypatch.setattr(available, "seccomp_filter", lambda machine: None)
    assert "there is no seccomp filter for" in try_sandbox(looked(tmp_path))[1]
