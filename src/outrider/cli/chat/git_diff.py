"""`/diff`: what has changed in the folder since the last commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from outrider.errors import OutriderError

SECONDS = 20.0
# A repository may name programs for diffs and file monitors in its settings: none of them runs.
_GIT = ("git", "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color")


def changes_since_commit(folder: Path) -> str:
    """Return a unified diff of the folder's changed files and the names of its new ones. Raises OutriderError."""
    _git(folder, "rev-parse", "--is-inside-work-tree")
    has_commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD", fails=True)
    changed = _git(folder, "diff", *_PLAIN, *(["HEAD"] if has_commit else []), "--", ".")
    new = _git(folder, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    names = "".join(f"new file: {name}\n" for name in new.split("\0") if name)
    return changed + names


def _git(folder: Path, *arguments: str, fails: bool = False) -> str:
    try:
        found = subprocess.run(
            [*_GIT, *arguments], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS
        )
    except FileNotFoundError:
        raise OutriderError("git is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OutriderError(f"git did not answer: {error}") from None
    if found.returncode and not fails:
        said = found.stderr.decode(errors="replace").strip().split("\n")[0]
        raise OutriderError(said.removeprefix("fatal: ") or "git failed")
    return found.stdout.decode(errors="replace")
