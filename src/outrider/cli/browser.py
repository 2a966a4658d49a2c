"""Opening a page in the user's browser."""

from __future__ import annotations

import asyncio
import os
import sys

from outrider.coding.command_environment import command_environment
from outrider.processes.programs import Programs
from outrider.processes.starting import run

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
