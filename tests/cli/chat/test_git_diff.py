"""`/diff` in a hostile repository: nothing that it names runs, with a sandbox and without one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.coding.config.access_settings import SandboxSettings
from outrider.coding.config.settings import Settings
from outrider.coding.workbench import Workbench
from outrider.errors import OutriderError
from outrider.processes.programs import Programs
from tests.coding.sandbox.world import mechanisms

pytestmark = pytest.mark.skipif(Programs([]).find("git") is None, reason="git is not installed")
USES = ["off", *(["require"] if mechanisms() else [])]


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "file.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "file.txt").write_text("two\n")
    return folder


def evil(folder: Path) -> str:
    """Return a program that leaves a trace beside the project."""
    path = folder / "evil.sh"
    path.write_text(f"#!/bin/sh\necho x >> {folder.parent}/ran\ncat\n")
    path.chmod(0o755)
    return str(path)


def diff(folder: Path, use: str) -> str:
    bench = Workbench(Settings(sandbox=SandboxSettings(use=use)), folder)  # type: ignore[arg-type]
    try:
        return bench.project.changes_since_commit()
    finally:
        bench.close()


def a_filter(folder: Path) -> None:
    git(folder, "config", "filter.x.y=z.clean", evil(folder))
    git(folder, "config", "filter.p.process", evil(folder))
    git(folder, "config", "filter.p.required", "true")
    (folder / ".gitattributes").write_text("file.txt filter=x.y=z\n*.md filter=p\n")


def a_monitor(folder: Path) -> None:
    git(folder, "config", "core.fsmonitor", evil(folder))


def a_diff_program(folder: Path) -> None:
    git(folder, "config", "diff.external", evil(folder))
    git(folder, "config", "diff.x.textconv", evil(folder))
    git(folder, "config", "diff.x.command", evil(folder))
    (folder / ".gitattributes").write_text("*.txt diff=x\n")


def a_pager(folder: Path) -> None:
    git(folder, "config", "core.pager", evil(folder))
    git(folder, "config", "pager.diff", evil(folder))


def hooks(folder: Path) -> None:
    program = evil(folder)
    (folder / "hooks").mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (folder / "hooks" / name).symlink_to(program)
    git(folder, "config", "core.hooksPath", str(folder / "hooks"))


def a_submodule(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "a.txt").write_text("a\n")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "inner")
    git(folder, "add", "inner")
    git(folder, "commit", "-qm", "submodule")
    (inner / "a.txt").write_text("b\n")
    (folder / "file.txt").write_text("two\n")
    git(inner, "config", "core.fsmonitor", evil(folder))
    git(inner, "config", "filter.x.clean", evil(folder))
    (inner / ".gitattributes").write_text("*.txt filter=x\n")
    (folder / "file.txt").write_text("three\n")


TRAPS: list[Callable[[Path], None]] = [a_filter, a_monitor, a_diff_program, a_pager, hooks, a_submodule]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_nothing_that_a_repository_names_runs(project: Path, trap: Callable[[Path], None], use: str) -> None:
    trap(project)
    (project.parent / "ran").unlink(missing_ok=True)
    shown = diff(project, use)
    assert "diff --git a/file.txt b/file.txt" in shown
    assert not (project.parent / "ran").exists()


@pytest.mark.parametrize("use", USES)
def test_a_bare_repository_in_the_folder_is_none(tmp_path: Path, use: str) -> None:
    folder = tmp_path / "project"
    git(tmp_path, "init", "-q", "--bare", "project")
    git(folder, "--git-dir=.", "config", "core.bare", "false")
    git(folder, "--git-dir=.", "config", "core.worktree", ".")
    git(folder, "--git-dir=.", "config", "filter.x.clean", evil(folder))
    (folder / "a.txt").write_text("one")
    git(folder, "--git-dir=.", "add", "a.txt")
    (folder / ".gitattributes").write_text("*.txt filter=x")
    (folder / "a.txt").write_text("two")
    with pytest.raises(OutriderError, match="bare"):
        diff(folder, use)
    assert not (tmp_path / "ran").exists()


def test_git_in_the_project_is_not_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(evil(project))
    program.rename(project / "git")
    monkeypatch.setenv("PATH", f"{project}:{os.environ['PATH']}")
    assert "+two" in diff(project, "off")
    monkeypatch.setenv("PATH", str(project))
    with pytest.raises(OutriderError, match="git is inside the working folder and is not used by its name"):
        diff(project, "off")
    assert not (project.parent / "ran").exists()


def test_variables_do_not_lead_to_another_repository(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", evil(project))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor'='{evil(project)}'")
    assert "+two" in diff(project, "off")
    assert not (tmp_path / "ran").exists()
