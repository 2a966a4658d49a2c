"""Opens a file in the user's own editor."""

from __future__ import annotations

import os
import shlex

from outrider.coding.command_environment import command_environment
from outrider.processes.programs import Programs
from outrider.processes.starting import run

_USUAL = ("/usr/bin/editor", "/usr/bin/nano", "/usr/bin/vi")


def edit_file(filename: str, programs: Programs) -> bool:
    """Open a file in $VISUAL, $EDITOR or a usual editor. Return whether one ended without an error.

    The terminal must be free.
    """
    wanted = (os.environ.get("VISUAL", ""), os.environ.get("EDITOR", ""), *_USUAL)
    commands = (shlex.split(each) for each in wanted if each)
    found = ([program, *words[1:]] for words in commands if (program := programs.find(words[0])))
    command = next(found, None)
    if command is None:
        return False
    environment = {**command_environment(os.environ), "PATH": programs.path}
    try:
        return run([*command, filename], environment=environment, seconds=None, shows=True).code == 0
    except OSError:
        return False
