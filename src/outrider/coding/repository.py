"""The repository of a folder, found by reading files alone: git would run programs that a repository names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from outrider.coding.settings_files import read_regular_file

_MOST = 4096
"""Bytes of a file that names a folder of git."""


def repository_of(folder: Path | str) -> Path | None:
    """Return the folder that stands for the repository of a folder, the same in all of its worktrees; None without one.

    It is the repository's first working tree, or a bare repository itself. A project must not pass for another: a link
    leads nowhere, a worktree counts only if the main repository lists it, and other users' repositories do not count.
    """
    folder = Path(os.path.realpath(folder))
    for top in (folder, *folder.parents):
        if top.name == ".git":
            return None
        try:
            status = os.lstat(top / ".git")
        except OSError:
            continue
        if top == Path(os.path.realpath(os.path.expanduser("~"))) or not _is_ours(status):
            return None  # a home is not one project
        return (_main_folder(top) or top) if stat.S_ISREG(status.st_mode) else top
    return None


def repository_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folder that stands for the repository of a folder, and its worktrees; without one, the folder."""
    main = repository_of(folder)
    return (folder.resolve(),) if main is None else (main, *_worktrees(main))


def _worktrees(main: Path) -> Iterator[Path]:
    """Yield the worktrees that a repository lists and that point back to it."""
    own = main / ".git"
    names = (own if own.is_dir() else main) / "worktrees"
    try:
        found = sorted(os.listdir(names))
    except OSError:
        return
    for name in found:
        try:
            tree = Path(os.path.realpath(names / name / _path_in(names / name / "gitdir"))).parent
        except (OSError, ValueError):
            continue
        if tree != main and repository_of(tree) == main:
            yield tree


def _main_folder(top: Path) -> Path | None:
    """Return the folder of the repository that lists a working tree with a `.git` file; None if none does."""
    try:
        said = _path_in(top / ".git", "gitdir:")
        own = Path(os.path.realpath(top / said))
        common = own.parent.parent  # resolved: no link leads from one project into the list of another
        listed = os.path.realpath(own / _path_in(own / "gitdir"))
        if own.parent.name != "worktrees" or listed != str(top / ".git") or not _is_ours(os.lstat(common)):
            return None
    except (OSError, ValueError):
        return None
    return common.parent if common.name == ".git" else common


def _path_in(file: Path, label: str = "") -> str:
    """Return the path that a file of git names. Raises ValueError or OSError if it names none."""
    text = os.fsdecode(read_regular_file(file, _MOST))
    path = text.removeprefix(label).strip()
    if not text.startswith(label) or not path or "\0" in path or "\n" in path:
        raise ValueError("it names no path")
    return path


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid in (0, os.getuid())
