"""Which folders belong to one repository: the root of it, and its worktrees. Git itself is not run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 10_000
"""The largest file of git that names a folder."""


def repository_folders(folder: Path) -> tuple[Path, ...]:
    """Return the root of the repository around a folder, and its worktrees; without a repository, the folder.

    The first is the same for all folders of a repository. A worktree counts only if the repository and it name each
    other: a folder of another must not join one by itself.
    """
    folder = folder.resolve()
    root = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    if root is None:
        return (folder,)
    if (root / ".git").is_dir():
        return (root, *_worktrees(root))
    common = (_named(root / ".git", "gitdir:") or root).parent.parent  # of a worktree: .git/worktrees/NAME
    main = common.parent
    trees = (main, *_worktrees(main)) if common.name == ".git" else ()
    return trees if root in trees else (root,)


def repository_root(folder: Path) -> Path:
    """Return the root of the repository around a folder, the main one for a worktree; without one, the folder."""
    return repository_folders(folder)[0]


def _worktrees(main: Path) -> Iterator[Path]:
    """Yield the worktrees of a repository that point back to it."""
    names = main / ".git" / "worktrees"
    try:
        found = sorted(os.listdir(names))
    except OSError:
        return
    for name in found:
        dot = _named(names / name / "gitdir")
        if dot and dot.name == ".git" and _named(dot, "gitdir:") == names / name:
            yield dot.parent


def _named(file: Path, before: str = "") -> Path | None:
    """Return the resolved path that a file of git has; None if it has none."""
    try:
        text = file.read_text(errors="surrogateescape") if file.stat().st_size < MAX_BYTES else ""
        return (file.parent / text.removeprefix(before).strip()).resolve() if text.strip() else None
    except (OSError, ValueError):
        return None
