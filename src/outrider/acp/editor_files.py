"""The editor's text buffers, as the file tools use them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from outrider.acp.client import Client
from outrider.acp.connection import ClosedError, RpcError

T = TypeVar("T")
TIMEOUT = 10.0
"""Seconds to wait for a response about a file."""


class EditorBuffers:
    """Files as the editor has them, with unsaved changes. Its methods are called from the threads of tools."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session
        self._loop = asyncio.get_running_loop()

    def read(self, path: Path) -> str | None:
        """Return the text; None if the editor does not have it. Raises OSError if the editor does not respond."""
        if not self._client.capabilities.fs.read_text_file:
            return None
        try:
            return self._wait(self._client.read_text_file(self._session, str(path)))
        except ClosedError:
            raise
        except RpcError:
            return None

    def write(self, path: Path, text: str) -> bool:
        """Save through the editor; False if the editor does not offer that. Raises OSError if the save failed."""
        if not self._client.capabilities.fs.write_text_file:
            return False
        try:
            self._wait(self._client.write_text_file(self._session, str(path), text))
        except RpcError as error:
            raise OSError(f"the editor did not save it: {error}") from None
        except TimeoutError:
            raise OSError("the editor did not respond; the file may not be saved") from None
        return True

    def _wait(self, request: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return future.result(TIMEOUT)
        except TimeoutError:
            future.cancel()
            raise
