"""Files that commands and models must not read or change: one list for the sandbox, the judge and the file tools."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.coding.permissions.secrets import SECRETS, is_secret

__all__ = ["PROTECTED", "SECRETS", "git_folders", "is_secret", "protected_paths"]

PROTECTED: tuple[str, ...] = (
    *(".git", ".outrider", ".envrc", ".vscode", ".idea", ".devcontainer", ".claude", ".mcp.json"),
    *(".github/workflows", ".gitlab-ci.yml", ".circleci"),
)
"""Names in a working folder that programs outside the sandbox run or obey later."""


def git_folders(folder: Path) -> tuple[Path, ...]:
    """Return the `.git` of the repository around a folder, and what a worktree's `.git` file leads to."""
    for each in (folder, *folder.parents):
        git = each / ".git"
        if git.is_dir():
            return (git,)
        if git.is_file():
            return (git, *_linked(git))
    return ()


def protected_paths(folder: Path) -> tuple[Path, ...]:
    """Return the absolute paths, whether they exist or not."""
    return tuple(dict.fromkeys([*(folder / name for name in PROTECTED), *git_folders(folder)]))


def _linked(git: Path) -> list[Path]:
    gitdir = _pointed(git, "gitdir:")
    if gitdir is None:
        return []
    common = _pointed(gitdir / "commondir", "")
    return [gitdir] if common is None else [gitdir, common]


def _pointed(file: Path, prefix: str) -> Path | None:
    try:
        text = file.read_bytes()[:4096].decode(errors="surrogateescape").strip()
    except OSError:
        return None
    if not text.startswith(prefix):
        return None
    return Path(os.path.realpath(file.parent / text.removeprefix(prefix).strip()))
