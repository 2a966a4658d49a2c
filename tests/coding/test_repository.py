"""Which repository a folder belongs to, without running git, and without trusting what a project says of itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from outrider.coding.config.remembered import RememberedRules
from outrider.coding.repository import repository_folders, repository_of


@pytest.fixture
def good(tmp_path: Path) -> Path:
    top = tmp_path / "good"
    (top / "src" / "deep").mkdir(parents=True)
    quiet = {"cwd": top, "check": True, "capture_output": True}
    subprocess.run(["git", "init", "-q"], **quiet)  # type: ignore[call-overload]
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], **quiet)  # type: ignore[call-overload]
    subprocess.run(["git", "worktree", "add", "-q", "../tree"], **quiet)  # type: ignore[call-overload]
    return top


def test_subfolders_and_worktrees_have_the_rules_of_the_repository(good: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    RememberedRules(data, good / "src").add(["Bash(pytest:**) write"])
    for folder in (good, good / "src" / "deep", tmp_path / "tree"):
        assert repository_of(folder) == good
        assert RememberedRules(data, folder).shared == ("Bash(pytest:**) write",)
    assert RememberedRules(data, tmp_path).rules() == ()
    assert RememberedRules(data, tmp_path / "tree").remove("Bash(pytest:**) write")
    assert RememberedRules(data, good).rules() == ()


def test_rules_for_files_stay_with_the_folder_and_so_do_those_of_earlier_versions(good: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    RememberedRules(data, good).add(["Edit(./a.txt)"])
    assert RememberedRules(data, good).own == ("Edit(./a.txt)",)
    assert RememberedRules(data, good / "src").rules() == ()
    (path := RememberedRules(data, good).path).write_text(f'{{"project": "{good}", "allow": ["Bash(make)"]}}')
    assert RememberedRules(data, good).rules() == ("Bash(make)",)
    assert RememberedRules(data, good / "src").rules() == ()
    RememberedRules(data, good / "src").add(["Bash(ls)"])
    assert RememberedRules(data, good).rules() == ("Bash(make)", "Bash(ls)")
    assert RememberedRules(data, good / "src").forget()
    assert "Bash(make)" in path.read_text()


def test_no_project_passes_for_another(good: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    (evil / "worktrees" / "x").mkdir(parents=True)
    (evil / "worktrees" / "x" / "commondir").write_text(f"{good}/.git")
    (evil / "worktrees" / "x" / "gitdir").write_text(f"{evil}/.git")
    for said in (
        f"gitdir: {good}/.git",
        f"gitdir: {good}/.git/worktrees/tree",
        f"gitdir: {good}/.git/worktrees/missing",
        f"gitdir: {evil}/worktrees/x/../../../good/.git/worktrees/tree",
        "gitdir: \0",
        f"{good}/.git",
        "gitdir: x" * 5000,
        "",
    ):
        (evil / ".git").write_text(said)
        assert repository_of(evil) == evil, said
    (evil / ".git").write_text(f"gitdir: {evil}/worktrees/x")
    assert repository_of(evil) == evil  # its own list, in its own folder
    (evil / ".git").unlink()
    (evil / ".git").symlink_to(good / ".git")
    assert repository_of(evil) == evil
    (evil / "worktrees" / "x").rename(evil / "worktrees" / "y")
    (evil / "worktrees" / "x").symlink_to(good / ".git" / "worktrees" / "tree")
    (evil / ".git").unlink()
    (evil / ".git").write_text(f"gitdir: {evil}/worktrees/x")
    assert repository_of(evil) == evil


def test_nested_repositories_and_the_home_are_no_part_of_one(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (good / "vendor" / ".git").mkdir(parents=True)
    assert repository_of(good / "vendor") == good / "vendor"
    assert repository_of(good / ".git" / "hooks") is None
    (tmp_path / ".git").mkdir()
    (tmp_path / "download").mkdir()
    assert repository_of(tmp_path / "download") == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert repository_of(tmp_path / "download") is None
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", lambda path, known=os.lstat: _owned(known(path), 777))
        assert repository_of(good) is None


def _owned(status: os.stat_result, uid: int) -> os.stat_result:
    return os.stat_result((*status[:4], uid, *status[5:]))


def test_a_repository_has_its_worktrees_and_only_those_that_point_back(good: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in (good, good / "src", tree):
        assert repository_folders(folder) == (good, tree)
    named = good / ".git" / "worktrees" / "x"
    named.mkdir(parents=True)
    (named / "gitdir").write_text(f"{tmp_path}/private/.git\n")
    (tmp_path / "private" / ".git").mkdir(parents=True)
    assert repository_folders(good) == (good, tree)
    assert repository_folders(tmp_path) == (tmp_path,)
