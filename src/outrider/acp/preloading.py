"""Imports modules before they are needed: while the editor prepares its next request, and while the user types."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from contextlib import suppress

FOR_SESSIONS = (
    "outrider.sync",
    "outrider.coding.config.loading",
    "outrider.acp.turns",
    "outrider.coding.mcp.server_files",
)
"""What `session/new` needs."""
FOR_PROMPTS = ("outrider.coding.permissions.decision", "outrider.providers.transport.http", "aiohttp")
"""What the first prompt needs."""


def preload(modules: Sequence[str]) -> None:
    """Import modules in a thread. Code that needs one of them meanwhile waits for it."""
    threading.Thread(target=_import, args=(modules,), daemon=True).start()


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        with suppress(Exception):  # the import that needs the module raises it again
            importlib.import_module(module)
