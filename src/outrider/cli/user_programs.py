"""The user's own programs: the editor, the pager and the browser."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys

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


SECONDS = 30.0
# In a process of its own, with a PATH that does not lead into the project: the module looks for browsers there.
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


async def open_page(url: str) -> bool:
    """Open a page. Return False if there is no browser beside the terminal: one in it would take the screen."""
    if sys.platform not in ("darwin", "win32") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    return await asyncio.to_thread(_open, url)


def _open(url: str) -> bool:
    environment = {**command_environment(os.environ), "PATH": Programs([os.curdir]).path}
    try:
        return run([sys.executable, "-I", "-c", _OPEN, url], environment=environment, seconds=SECONDS).code == 0
    except TimeoutError:
        return True  # it is slow
    except OSError:
        return False
