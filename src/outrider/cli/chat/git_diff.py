"""`/diff`: what has changed in the folder since the last commit."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from outrider.coding.command_environment import command_environment
from outrider.errors import OutriderError
from outrider.processes.git import FILTERS, PLAIN_DIFF, PREFIX, filter_settings, git_environment
from outrider.processes.programs import ProgramNotFoundError, Programs
from outrider.processes.starting import run

SECONDS = 20.0

Confine = Callable[[Sequence[str]], list[str]]
"""Returns the arguments that run a command with less than the user's rights, where that is possible."""


def changes_since_commit(folder: Path, programs: Programs, confine: Confine) -> str:
    """Return a unified diff of the folder's changed files and the names of its new ones. Raises OutriderError."""
    git = _Git(folder, programs, confine)
    git.run("rev-parse", "--is-inside-work-tree")
    git.filters = filter_settings(git.run(*FILTERS, fails=True))
    has_commit = git.run("rev-parse", "--verify", "--quiet", "HEAD", fails=True)
    changed = git.run("diff", *PLAIN_DIFF, *(["HEAD"] if has_commit else []), "--", ".")
    new = git.run("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    names = "".join(f"new file: {name}\n" for name in new.decode(errors="replace").split("\0") if name)
    return changed.decode(errors="replace") + names


class _Git:
    """Runs git in a folder whose repository nobody trusts."""

    def __init__(self, folder: Path, programs: Programs, confine: Confine) -> None:
        self.filters: Sequence[str] = ()
        """The settings of filters, which are emptied."""
        self._folder = folder
        self._programs = programs
        self._confine = confine

    def run(self, *arguments: str, fails: bool = False) -> bytes:
        """Return what git prints. Raises OutriderError."""
        environment = git_environment(command_environment(os.environ), filters=self.filters)
        environment["PATH"] = self._programs.path
        try:
            command = self._confine([self._programs.require("git"), *PREFIX, *arguments])
            ended = run(command, environment=environment, seconds=SECONDS, folder=self._folder)
        except ProgramNotFoundError as error:
            raise OutriderError(str(error) if error.inside else "git is not installed") from None
        except OSError as error:
            raise OutriderError(f"git did not answer: {error}") from None
        if ended.code and not fails:
            said = ended.errors.decode(errors="replace").strip().split("\n")[0]
            raise OutriderError(said.removeprefix("fatal: ") or "git failed")
        return ended.output
