"""Worktrees: what they begin with, how their changes come back, and what a killed process leaves."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.coding.git_commands import Git, changes_since_commit
from outrider.coding.worktrees import Worktrees
from outrider.environment import worktrees_folder
from outrider.errors import ConfigError, OutriderError, SessionHeldError
from outrider.filesystem import make_private, open_lock, try_lock
from outrider.processes.programs import Programs

NAME = "ab" * 16


@pytest.fixture(autouse=True)
def own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "data"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with a commit, a change that is not committed, a new file, a secret and an ignored file."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(20)))
    (folder / ".gitignore").write_text("ignored\n")
    (folder / "sub" / "b.txt").write_text("b\n")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=U", "-c", "user.email=u@example.com", "commit", "-qm", "first")
    (folder / "sub" / "b.txt").write_text("b, changed\n")
    (folder / "new.txt").write_text("new\n")
    (folder / ".env").write_text("KEY=1\n")
    (folder / "ignored").write_text("x\n")
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def worktrees(folder: Path) -> Worktrees:
    return Worktrees(Programs([folder]), lambda path: path.endswith(".env"))


def state(folder: Path) -> tuple[str, str, str]:
    """What must not change: the branch, the index and the refs. Left-over branches are in the last."""
    return git(folder, "rev-parse", "HEAD"), git(folder, "diff", "--cached"), git(folder, "for-each-ref")


def lines(folder: Path) -> list[str]:
    return (folder / "a.txt").read_text().splitlines()


async def test_it_has_what_the_folder_has_and_its_changes_come_back(folder: Path) -> None:
    before, trees = state(folder), worktrees(folder)
    async with trees.open(folder / "sub", NAME, "A task") as tree:
        assert tree.folder.name == "sub"
        assert (tree.folder / "b.txt").read_text() == "b, changed\n"
        assert (tree.path / "new.txt").read_text() == "new\n"
        assert not (tree.path / ".env").exists()
        assert not (tree.path / "ignored").exists()
        assert tree.path.stat().st_mode & 0o077 == 0
        (tree.folder / "b.txt").unlink()
        (tree.path / "bytes").write_bytes(bytes(range(256)))
        (tree.path / "run.sh").write_text("#!/bin/sh\n")
        (tree.path / "run.sh").chmod(0o755)
        (folder / "meanwhile.txt").write_text("by the user\n")
        said = await trees.settle(tree, "done")
    assert said.startswith("[Its changes were merged into the folder: 3 files: bytes, run.sh, sub/b.txt")
    assert not (folder / "sub" / "b.txt").exists()
    assert (folder / "bytes").read_bytes() == bytes(range(256))
    assert (folder / "run.sh").stat().st_mode & 0o100
    assert (folder / "meanwhile.txt").exists()
    assert (folder / "new.txt").exists()
    assert state(folder) == before
    assert not tree.path.exists()
    assert git(folder, "worktree", "list").count("\n") == 1


async def test_two_that_change_one_file_lose_nothing(folder: Path) -> None:
    """Changes of different lines are merged. Of the same lines, the second is kept, and the conflict is named."""
    trees = worktrees(folder)
    async with (
        trees.open(folder, "1" * 32, "One") as one,
        trees.open(folder, "2" * 32, "Two") as two,
        trees.open(folder, "3" * 32, "Three") as three,
    ):
        for tree, line, text in ((one, 2, "one"), (two, 15, "two"), (three, 2, "three")):
            changed = lines(tree.path)
            changed[line] = text
            (tree.path / "a.txt").write_text("\n".join(changed) + "\n")
        said = [await trees.settle(each, "done") for each in (one, two, three)]
    assert [lines(folder)[2], lines(folder)[15]] == ["one", "two"]
    assert ["merged into the folder" in each for each in said] == [True, True, False]
    assert "conflicts with what has changed in the folder since in a.txt" in said[2]
    assert "three" in git(folder, "show", "outrider/33333333:a.txt")
    async with trees.open(folder, "3" * 32, "Three") as three:  # it goes on with what was kept
        assert lines(three.path)[2] == "three"
        (three.path / "a.txt").write_text("\n".join(lines(folder)) + "\n")
        assert "merged" in await trees.settle(three, "done")
    assert "outrider/" not in git(folder, "branch")


@pytest.mark.parametrize("status", ["cancelled", "an exception"])
async def test_what_did_not_finish_is_kept_as_a_branch(folder: Path, status: str) -> None:
    trees, said = worktrees(folder), ""
    with pytest.raises(RuntimeError) if status == "an exception" else pytest.MonkeyPatch.context():
        async with trees.open(folder, NAME, "A task") as tree:
            (tree.path / "half.txt").write_text("half\n")
            if status == "an exception":
                raise RuntimeError
            said = await trees.settle(tree, status)
            assert "git diff" in said
    assert not (folder / "half.txt").exists()
    assert git(folder, "show", f"outrider/{NAME[:8]}:half.txt") == "half\n"
    assert not tree.path.exists()


async def test_one_without_changes_leaves_nothing(folder: Path) -> None:
    before, trees = state(folder), worktrees(folder)
    async with trees.open(folder, NAME, "A task") as tree:
        assert "no changes" in await trees.settle(tree, "done")
    assert state(folder) == before


async def test_nothing_that_the_repository_names_runs(folder: Path, tmp_path: Path) -> None:
    bait = tmp_path / "bait"
    (folder / ".gitattributes").write_text("*.txt filter=evil diff=evil merge=evil\n")
    for name in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.textconv",
        "merge.evil.driver",
        "core.fsmonitor",
    ):
        git(folder, "config", name, f"touch {bait}; cat")
    for name in ("post-checkout", "post-index-change", "reference-transaction"):  # git runs these from 2.54 on
        git(folder, "config", f"hook.a.{name}.command", f"touch {bait}")
        git(folder, "config", f"hook.a.{name}.event", name)
        assert Git(folder, Programs([folder])).say("config", "--type=bool", f"hook.a.{name}.enabled") == "false"
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {bait}\n")
        (hooks / name).chmod(0o755)
    trees = worktrees(folder)
    async with trees.open(folder, NAME, "A task") as tree:
        for place, line in ((tree.path, 2), (folder, 15)):
            changed = lines(place)
            changed[line] = "changed"
            (place / "a.txt").write_text("\n".join(changed) + "\n")
        bait.unlink(missing_ok=True)  # the test's own git may have run them
        assert "merged" in await trees.settle(tree, "done")
    assert not bait.exists()


def committed(folder: Path, *arguments: str) -> None:
    git(folder, "-c", "user.name=U", "-c", "user.email=u@example.com", "commit", "-qm", "x", *arguments)


def inner_repository(folder: Path, name: str) -> Path:
    """Make a repository in the folder, with a commit."""
    inner = folder / name
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "f").write_text("x\n")
    git(inner, "add", "f")
    committed(inner)
    return inner


@pytest.fixture
def submodule(folder: Path) -> Path:
    """A submodule in the project, named so that a pattern of git would not match it."""
    source = inner_repository(folder.parent, "source")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--", str(source), "[m]*")
    committed(folder, "--", ".gitmodules", "[[]m]*")
    return folder / "[m]*"


def set_trap(inner: Path, bait: Path) -> None:
    """Do in a repository inside what a command in the sandbox can: name a filter, and make git compare a file."""
    if (inner / ".git").is_file():
        modules = Path(git(inner, "rev-parse", "--absolute-git-dir").strip())
        (inner / ".git").unlink()
        shutil.copytree(modules, inner / ".git")
    (inner / ".git" / "config").write_text(f'[core]\nbare = false\n[filter "e"]\nclean = "touch {bait}; cat"\n')
    (inner / ".git" / "info").mkdir(exist_ok=True)
    (inner / ".git" / "info" / "attributes").write_text("* filter=e\n")
    (inner / "f").write_text("y\n")  # as long as before
    os.utime(inner / "f", (1, 1))


async def test_git_does_not_start_in_a_submodule(folder: Path, submodule: Path, tmp_path: Path) -> None:
    bait = tmp_path / "bait"
    set_trap(submodule, bait)
    trees = worktrees(folder)
    async with trees.open(folder, NAME, "A task") as tree:
        assert not bait.exists()
        assert not list((tree.path / submodule.name).iterdir())
        (tree.path / submodule.name).rmdir()
        shutil.copytree(submodule, tree.path / submodule.name)
        (tree.path / "work.txt").write_text("work\n")
        said = await trees.settle(tree, "done")
    assert said.startswith("[Its changes were merged into the folder: 1 file: work.txt")
    assert not bait.exists()
    git(folder, "status")
    assert bait.exists(), "the trap works: git would run it"


async def test_git_does_not_start_in_a_repository_inside(folder: Path, tmp_path: Path) -> None:
    """One is in the index without .gitmodules; others are new, and one of these is recorded before it is changed."""
    bait, trees = tmp_path / "bait", worktrees(folder)
    added = inner_repository(folder, "added")
    git(folder, "add", "added")
    for inner in (added, inner_repository(folder, "new")):
        set_trap(inner, bait)
    bait.unlink(missing_ok=True)  # the test's own git may have run it
    async with trees.open(folder, NAME, "A task") as tree:
        made = inner_repository(tree.path, "made")
        git(tree.path, "add", "made")
        set_trap(made, bait)
        await trees.settle(tree, "done")
    assert not bait.exists()
    git(folder, "status")
    assert bait.exists(), "the trap works: git would run it"


def test_a_diff_does_not_start_git_in_a_submodule(folder: Path, submodule: Path, tmp_path: Path) -> None:
    bait = tmp_path / "bait"
    set_trap(submodule, bait)
    (submodule / ".git" / "info" / "attributes").write_text("* diff=e\n")
    committed(submodule, "-a")
    git(submodule, "config", "diff.e.textconv", f"touch {bait}; cat")
    git(folder, "config", "diff.submodule", "diff")
    assert "+Subproject commit" in changes_since_commit(folder, Programs([folder]), list)
    assert not bait.exists()
    git(folder, "diff")
    assert bait.exists(), "the trap works: git would run it"


async def test_settings_that_hold_for_the_worktree_alone_name_no_filter(folder: Path, tmp_path: Path) -> None:
    bait = tmp_path / "bait"
    (folder / ".gitattributes").write_text("*.txt filter=evil\n")
    (folder / ".git" / "more").write_text(f'[filter "evil"]\nsmudge = "touch {bait}; cat"\n')
    git(folder, "config", "includeIf.gitdir:**/worktrees/**.path", "more")
    async with worktrees(folder).open(folder, NAME, "A task") as tree:
        assert len(lines(tree.path)) == 20
        assert not bait.exists()


async def test_a_worktree_that_cannot_be_filled_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, before = Git.run, state(folder)

    def failing(self: Git, *arguments: str, input: bytes | None = None, fails: bool = False) -> bytes:
        if arguments[0] == "reset":
            raise OutriderError("the disk is full")
        return run(self, *arguments, input=input, fails=fails)

    monkeypatch.setattr(Git, "run", failing)
    with pytest.raises(OutriderError, match="the disk is full"):
        async with worktrees(folder).open(folder, NAME, "A task"):
            pass
    assert git(folder, "worktree", "list").count("\n") == 1
    assert state(folder) == before
    assert worktrees(folder).recover() == []


async def test_all_files_can_be_removed(folder: Path) -> None:
    trees = worktrees(folder)
    async with trees.open(folder, NAME, "A task") as tree:
        for name in git(tree.path, "ls-files").split():
            (tree.path / name).unlink()
        assert "4 files" in await trees.settle(tree, "done")
    assert sorted(os.listdir(folder)) == [".env", ".git", "ignored"]


async def test_without_a_commit_there_is_none(tmp_path: Path) -> None:
    trees = worktrees(tmp_path)
    with pytest.raises(ConfigError, match="needs a git repository with a commit"):
        async with trees.open(tmp_path, NAME, "A task"):
            pass
    assert trees.recover() == []


KILLED = """
import asyncio, os, sys
from pathlib import Path
from outrider.coding.worktrees import Worktrees
from outrider.processes.programs import Programs

async def work(folder, name):
    async with Worktrees(Programs([folder]), lambda path: False).open(folder, name, "General: fix it") as tree:
        (tree.path / "work.txt").write_text("much work")
        print("ready", flush=True)
        sys.stdin.read()

asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
"""


async def test_a_killed_process_leaves_its_work_as_a_branch_and_no_worktree(folder: Path) -> None:
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop
        [sys.executable, "-c", KILLED, folder, NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        trees = worktrees(folder)
        assert trees.recover() == []  # it is alive
        with pytest.raises(SessionHeldError):
            async with trees.open(folder, NAME, "A task"):
                pass
        process.kill()
    (note,) = trees.recover()
    assert "General: fix it was interrupted" in note
    assert f"branch outrider/{NAME[:8]}" in note
    assert trees.recover() == []
    assert git(folder, "worktree", "list").count("\n") == 1
    assert git(folder, "show", f"outrider/{NAME[:8]}:work.txt") == "much work"
    async with trees.open(folder, NAME, "A task") as tree:
        assert (tree.path / "work.txt").read_text() == "much work"
        await trees.settle(tree, "done")
    assert (folder / "work.txt").read_text() == "much work"
    assert git(folder, "branch").split() == ["*", "main"]


async def test_many_at_once_are_merged_one_after_the_other(folder: Path) -> None:
    trees = worktrees(folder)

    async def work(number: int) -> str:
        async with trees.open(folder, f"{number:032}", str(number)) as tree:
            (tree.path / f"file{number}").write_text(str(number))
            return await trees.settle(tree, "done")

    said = await asyncio.gather(*map(work, range(4)))
    assert all("merged" in each for each in said)
    assert all((folder / f"file{number}").exists() for number in range(4))


async def test_a_worktree_is_not_made_while_another_process_makes_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git fails if it finds one that is half made."""
    trees = worktrees(folder)
    make_private(worktrees_folder())
    lock = open_lock(worktrees_folder() / "turn.lock")
    assert try_lock(lock)
    monkeypatch.setattr("outrider.coding.worktrees.TURN_SECONDS", 0)
    with pytest.raises(OutriderError, match="another process has been at work on worktrees"):
        async with trees.open(folder, NAME, "A task"):
            pass
    os.close(lock)
    async with trees.open(folder, NAME, "A task") as tree:
        assert tree.path.is_dir()
