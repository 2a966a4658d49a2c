"""Shows a long text in the user's pager."""

from __future__ import annotations

import os
import shlex
import sys

from outrider.coding.command_environment import command_environment
from outrider.processes.programs import Programs
from outrider.processes.starting import run


def page(text: str, programs: Programs) -> None:
    """Show a text in $PAGER or `less`; print it if there is no pager. The terminal must be free."""
    command = shlex.split(os.environ.get("PAGER", "")) or ["less"]
    found = programs.find(command[0])
    if found is None:
        print(text, flush=True)
        return
    # -R: keep colours, -c: draw from the top. -X is not set: the text leaves the screen when the pager ends.
    environment = {**command_environment(os.environ), "PATH": programs.path}
    environment["LESS"] = os.environ.get("LESS", "") or "-Rc"
    encoded = text.encode(errors="replace")
    try:
        run([found, *command[1:]], environment=environment, seconds=None, input=encoded, shows=True)
    except OSError as error:
        print(f"outrider: {command[0]}: {error.strerror or error}", file=sys.stderr)
