"""Which folders belong to one repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from outrider.coding.repository import repository_folders, repository_root


def git(*arguments: str, cwd: Path) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with a commit."""
    folder = tmp_path / "main"
    (folder / "src").mkdir(parents=True)
    git("init", cwd=folder)
    git("commit", "--allow-empty", "-m", "one", cwd=folder)
    return folder


def test_a_worktree_and_subfolders_belong_to_the_repository(main: Path) -> None:
    tree = main.parent / "tree"
    git("worktree", "add", str(tree), cwd=main)
    (tree / "src").mkdir()
    for folder in (main, main / "src", tree, tree / "src"):
        assert repository_folders(folder) == (main, tree)
        assert repository_root(folder) == main


def test_without_a_repository_it_is_the_folder(tmp_path: Path) -> None:
    assert repository_folders(tmp_path) == (tmp_path,)
    (tmp_path / "link").symlink_to(tmp_path)
    assert repository_folders(tmp_path / "link") == (tmp_path,)


@pytest.mark.parametrize(
    "content", ["gitdir: {main}/.git/worktrees/x\n", "gitdir: {main}/.git\n", "", "gitdir: \n", "x"]
)
def test_a_folder_does_not_join_a_repository_by_itself(main: Path, content: str) -> None:
    foreign = main.parent / "foreign"
    foreign.mkdir()
    (foreign / ".git").write_text(content.format(main=main))
    assert repository_folders(foreign) == (foreign,)
    assert repository_folders(main) == (main,)


def test_a_repository_does_not_claim_a_folder_that_does_not_point_back(main: Path) -> None:
    named = main / ".git" / "worktrees" / "x"
    named.mkdir(parents=True)
    (named / "gitdir").write_text(f"{main.parent}/private/.git\n")
    (main.parent / "private" / ".git").mkdir(parents=True)
    assert repository_folders(main) == (main,)
