"""Track the folders that the shell may be in while a command line runs: a `cd` may succeed or fail."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from outrider.coding.permissions.paths import follow_links, resolve_shell_path
from outrider.coding.permissions.shell.script import Command, Script
from outrider.coding.permissions.shell.words import Word

MAX_FOLDERS = 8
"""The most folders that are tracked for one command."""

_BACKGROUND = re.compile(r"(?<![&>])&(?![&>])")


class ShellCwd:
    """The folders in which the next command may run."""

    def __init__(self, folders: Sequence[str], project: str) -> None:
        self.folders = list(folders)
        self._project = project
        self._unknown = False
        self._logical = any(follow_links(folder)[0] != os.path.normpath(folder) for folder in folders)

    @property
    def is_project(self) -> bool:
        """Return whether the shell is certainly in the project's folder, where allow rules apply."""
        return not self._unknown and all(
            resolve_shell_path(folder, "/").resolved == self._project for folder in self.folders
        )

    def mark_unknown(self) -> None:
        """Record that the shell may be in an unknown folder, where allow rules do not apply."""
        self._unknown = True

    def change(self, command: Command, words: Sequence[Word], script: Script) -> Iterator[str]:
        """Apply a `cd`, which may fail. Yield why its target is uncertain."""
        operands = [word for word in words[1:] if word.source != "--"]
        target = operands[0].hint if operands else os.path.expanduser("~")
        reached = [os.path.normpath(os.path.join(folder, target)) for folder in self.folders]
        resolved = [resolve_shell_path(os.path.join(folder, target), folder).resolved for folder in self.folders]
        sure = len(operands) == 1 and operands[0].value is not None and not target.startswith("-")
        simple = reached == resolved and not (self._logical and ".." in target) and not command.assignments
        if not sure or not simple or command.repeated or len(words) != len(command.words):
            yield f"it is not known where {command.title} leads"
        elif not any(os.path.isdir(path) for path in reached):
            yield f"{target} is not a folder yet"
        elif target.startswith("/") and {*reached} == {self._project} and _runs_first(command, script):
            self.folders = [self._project]  # it exists, so `cd` does not fail
            return
        self.folders = list(dict.fromkeys((*self.folders, *reached, *filter(None, resolved))))


def _runs_first(command: Command, script: Script) -> bool:
    """Return whether the command is the first one, and not in a group, a pipe or the background."""
    text = script.text.lstrip()
    after = text.removeprefix(command.source).lstrip(" \t")
    begins = text.startswith(command.source) and after.startswith(("&&", ";", "\n"))
    return begins and not _BACKGROUND.search(text)
