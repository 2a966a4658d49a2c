"""Shows a long text in the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys


def page(text: str) -> None:
    """Show a text in $PAGER or `less`; print it if there is no pager. The terminal must be free."""
    command = shlex.split(os.environ.get("PAGER", "")) or ["less"]
    found = shutil.which(command[0])
    if found is None:
        print(text, flush=True)
        return
    # -R: keep colours, -c: draw from the top. -X is not set: the text leaves the screen when the pager ends.
    environment = {**os.environ, "LESS": os.environ.get("LESS", "") or "-Rc"}
    encoded = text.encode(errors="replace")
    try:
        subprocess.run([found, *command[1:]], input=encoded, env=environment, check=False)
    except OSError as error:
        print(f"outrider: {command[0]}: {error.strerror or error}", file=sys.stderr)
