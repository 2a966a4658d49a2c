"""Where the shell may stand while a command line runs: a `cd` may succeed, or fail."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from outrider.coding.permissions.paths import follow, shell_place
from outrider.coding.permissions.script import Command, Script
from outrider.coding.permissions.words import Word

MOST = 8
"""As many folders as a command may stand in, depending on which `cd` succeeds."""

_BACKGROUND = re.compile(r"(?<![&>])&(?![&>])")


class ShellCwd:
    """The folders in which the next command may run."""

    def __init__(self, places: Sequence[str], home: str) -> None:
        self.places = list(places)
        self._home = home
        self._lost = False
        self._logical = any(follow(place)[0] != os.path.normpath(place) for place in places)

    @property
    def is_home(self) -> bool:
        """Whether it is certainly the folder of the project, for which rules are agreed."""
        return not self._lost and all(shell_place(place, "/").resolved == self._home for place in self.places)

    def lose(self) -> None:
        """Note that the shell may have moved to where nobody knows: rules hold no more."""
        self._lost = True

    def move(self, command: Command, words: Sequence[Word], script: Script) -> Iterator[str]:
        """Go where `cd` leads: there, or still here if it fails. Why that is not certain, if it is not."""
        operands = [word for word in words[1:] if word.source != "--"]
        target = operands[0].hint if operands else os.path.expanduser("~")
        reached = [os.path.normpath(os.path.join(folder, target)) for folder in self.places]
        resolved = [shell_place(os.path.join(folder, target), folder).resolved for folder in self.places]
        sure = len(operands) == 1 and operands[0].value is not None and not target.startswith("-")
        simple = reached == resolved and not (self._logical and ".." in target) and not command.assignments
        if not sure or not simple or command.repeated or len(words) != len(command.words):
            yield f"it is not known where {command.title} leads"
        elif not any(os.path.isdir(path) for path in reached):
            yield f"{target} is no folder yet"
        elif target.startswith("/") and {*reached} == {self._home} and _is_done_first(command, script):
            self.places = [self._home]  # which exists
            return
        self.places = list(dict.fromkeys((*self.places, *reached, *filter(None, resolved))))


def _is_done_first(command: Command, script: Script) -> bool:
    """Whether the command is the first, and done by the shell itself: in no group, no pipe, not in the background."""
    text = script.text.lstrip()
    after = text.removeprefix(command.source).lstrip(" \t")
    begins = text.startswith(command.source) and after.startswith(("&&", ";", "\n"))
    return begins and not _BACKGROUND.search(text)
