"""Opening a page in the user's browser."""

from __future__ import annotations

import asyncio
import os
import sys


async def open_page(url: str) -> bool:
    """Open a page. Return False if there is no browser beside the terminal: one in it would take the screen."""
    if sys.platform not in ("darwin", "win32") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    import webbrowser

    return await asyncio.to_thread(webbrowser.open, url)
