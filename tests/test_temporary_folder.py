"""Temporary folders of killed processes are removed by the next process; those in use stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.temporary_folder import PREFIX, TemporaryFolder, remove_abandoned

HOLD = """
import sys
from pathlib import Path
from outrider.coding.toolbox.workspace import Workspace
workspace = Workspace(Path.cwd())
(workspace.temporary / "output.txt").write_text("much")
print(workspace.temporary, flush=True)
sys.stdin.read()
"""


def holder(above: Path) -> tuple[subprocess.Popen[str], Path]:
    environment = {**os.environ, "TMPDIR": str(above)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, number: signal.Signals) -> None:
    process, left = holder(tmp_path)
    with process:
        process.send_signal(number)
    assert left.is_dir()
    other, used = holder(tmp_path)
    with other:
        assert not left.exists()
        assert used.is_dir()
    assert not used.exists()


def test_a_folder_in_use_stays(tmp_path: Path) -> None:
    process, used = holder(tmp_path)
    with process:
        folder = TemporaryFolder(tmp_path / f"{PREFIX}mine")
        remove_abandoned(tmp_path)
        assert (used / "output.txt").read_text() == "much"
        assert folder.path.is_dir()
        folder.remove()
        assert not folder.path.exists()


def test_only_folders_of_its_own_are_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "outrider-old").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "kept")
    (tmp_path / f"{PREFIX}file").touch()
    (tmp_path / f"{PREFIX}left").mkdir()
    (tmp_path / f"{PREFIX}left/link").symlink_to(tmp_path / "kept")
    remove_abandoned(tmp_path)
    names = {"kept", "outrider-old", f"{PREFIX}link", f"{PREFIX}file"}
    assert {each.name for each in tmp_path.iterdir()} == names
    assert (tmp_path / "kept/file").exists()


def test_a_folder_that_another_process_removes_before_it_is_open_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, open_file, removed = tmp_path / "folder", os.open, list[object]()

    def late(name: Any, *rest: Any, **options: Any) -> int:
        if name == path and not removed:
            removed.append(name)
            path.rmdir()
        return open_file(name, *rest, **options)

    monkeypatch.setattr(os, "open", late)
    folder = TemporaryFolder(path)
    assert removed
    assert path.is_dir()
    folder.remove()
