"""git in a folder whose repository nobody trusts: nothing that the repository names runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from outrider.coding.command_environment import command_environment
from outrider.errors import OutriderError
from outrider.processes.git import FILTERS, PLAIN_DIFF, PREFIX, filter_settings, git_environment
from outrider.processes.programs import ProgramNotFoundError, Programs
from outrider.processes.starting import Ended, run

SECONDS = 120.0
"""The longest that one command may take."""
Confine: TypeAlias = Callable[[Sequence[str]], list[str]]
"""Returns the arguments that run a command with less than the user's rights, where that is possible."""


class Git:
    """Runs git in a folder."""

    def __init__(
        self, folder: Path, programs: Programs, *, confine: Confine = list, more: Mapping[str, str] | None = None
    ) -> None:
        """`more` are variables of the environment."""
        self.folder = folder
        self._programs = programs
        self._confine = confine
        self._more = more or {}

    @cached_property
    def filters(self) -> Sequence[str]:
        """The settings of filters, merge drivers and hooks that turn them off."""
        return filter_settings(self._ended(FILTERS, ()).output)

    def run(self, *arguments: str, input: bytes | None = None, fails: bool = False) -> bytes:
        """Return what git prints. Raises OutriderError unless it `fails` as often as it wants."""
        ended = self._ended(arguments, self.filters, input)
        if ended.code and not fails:
            said = ended.errors.decode(errors="replace").strip().split("\n")[0]
            raise OutriderError(said.removeprefix("fatal: ") or "git failed")
        return ended.output

    def say(self, *arguments: str, fails: bool = False) -> str:
        """Return what git prints as a line. Raises as `run` does."""
        return os.fsdecode(self.run(*arguments, fails=fails)).strip("\n")

    def ask(self, *arguments: str, input: bytes | None = None) -> tuple[int, str]:
        """Return the exit code of git, and what it prints."""
        ended = self._ended(arguments, self.filters, input)
        return ended.code, os.fsdecode(ended.output or ended.errors)

    def with_index(self, index: Path) -> Git:
        return Git(
            self.folder, self._programs, confine=self._confine, more={**self._more, "GIT_INDEX_FILE": str(index)}
        )

    def _ended(self, arguments: Sequence[str], filters: Sequence[str], input: bytes | None = None) -> Ended:
        environment = {**git_environment(command_environment(os.environ), filters=filters), **self._more}
        environment["PATH"] = self._programs.path
        try:
            command = self._confine([self._programs.require("git"), *PREFIX, *arguments])
            return run(command, environment=environment, seconds=SECONDS, folder=self.folder, input=input)
        except ProgramNotFoundError as error:
            raise OutriderError(str(error) if error.inside else "git is not installed") from None
        except OSError as error:
            raise OutriderError(f"git did not answer: {error}") from None


def changes_since_commit(folder: Path, programs: Programs, confine: Confine) -> str:
    """Return a unified diff of the folder's changed files and the names of its new ones. Raises OutriderError."""
    git = Git(folder, programs, confine=confine)
    git.run("rev-parse", "--is-inside-work-tree")
    has_commit = git.run("rev-parse", "--verify", "--quiet", "HEAD", fails=True)
    changed = git.run("diff", *PLAIN_DIFF, *(["HEAD"] if has_commit else []), "--", ".")
    new = git.run("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    names = "".join(f"new file: {name}\n" for name in new.decode(errors="replace").split("\0") if name)
    return changed.decode(errors="replace") + names
