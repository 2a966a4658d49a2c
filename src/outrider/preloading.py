"""Imports modules before they are needed, in a thread: while the user types, or beside other work."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from contextlib import suppress

HTTP = ("outrider.providers.transport.system_certificates", "outrider.providers.transport.client")
"""The HTTP client. Certificates come first: they are parsed without Python's lock."""
FOR_REQUESTS = ("outrider.coding.permissions.decision", "outrider.providers.transport.http", *HTTP)
"""What the first request needs."""


def preload(modules: Sequence[str]) -> None:
    """Import modules in a thread. Code that needs one of them meanwhile waits for it.

    So does the end of the program: Python crashes if it ends in the middle of an import.
    """
    threading.Thread(target=_import, args=(modules,), name="outrider-preload", daemon=False).start()


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        if not threading.main_thread().is_alive():
            return
        with suppress(Exception):  # the import that needs the module raises it again
            importlib.import_module(module)
