"""Imports modules before they are needed, in a thread: while the user types, or beside other work."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from contextlib import suppress

FOR_REQUESTS = ("outrider.coding.permissions.decision", "outrider.providers.transport.http", "aiohttp")
"""What the first request needs."""


def preload(modules: Sequence[str]) -> None:
    """Import modules in a thread. Code that needs one of them meanwhile waits for it."""
    threading.Thread(target=_import, args=(modules,), daemon=True).start()


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        with suppress(Exception):  # the import that needs the module raises it again
            importlib.import_module(module)
