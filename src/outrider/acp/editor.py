"""The editor's files and terminals, as the tools of a session use them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from outrider.acp.client import Client
from outrider.acp.schema.client_requests import CreateTerminal, OfTerminal, Variable
from outrider.acp.wire import ClosedError, WireError

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds that an editor has to answer for a file."""


class EditorBuffers:
    """Files as the editor has them, unsaved changes included. Called from the threads of tools."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session
        self._loop = asyncio.get_running_loop()

    def read(self, path: Path) -> str | None:
        """The text; None if the editor cannot say. Raises OSError if it does not answer."""
        if not self._client.capabilities.fs.read_text_file:
            return None
        try:
            return self._wait(self._client.read_text(self._session, str(path)))
        except ClosedError:
            raise
        except WireError:
            return None

    def write(self, path: Path, text: str) -> bool:
        """Save through the editor; False if it does not do that. Raises OSError if it is not known to be saved."""
        if not self._client.capabilities.fs.write_text_file:
            return False
        try:
            self._wait(self._client.write_text(self._session, str(path), text))
        except WireError as error:
            raise OSError(f"the editor did not save it: {error}") from None
        except TimeoutError:
            raise OSError("the editor did not answer; nothing is known to be saved") from None
        return True

    def _wait(self, asking: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            return future.result(PATIENCE)
        except TimeoutError:
            future.cancel()
            raise


class EditorTerminals:
    """Commands in terminals of the editor."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output_bytes: int
    ) -> RunningTerminal:
        """Start a command. Raises OSError if the editor does not."""
        variables = [Variable(name, value) for name, value in environment.items()]
        asked = CreateTerminal(self._session, argv[0], list(argv[1:]), variables, str(cwd), output_bytes)
        try:
            return RunningTerminal(self._client, OfTerminal(self._session, await self._client.create_terminal(asked)))
        except ClosedError:
            raise
        except WireError as error:
            raise OSError(f"the editor did not start it: {error}") from None


class RunningTerminal:
    """A command in a terminal of the editor."""

    def __init__(self, client: Client, terminal: OfTerminal) -> None:
        self.id = terminal.terminal_id
        self._client = client
        self._terminal = terminal

    async def wait(self) -> int | None:
        """Its exit code; None if a signal ended it."""
        return (await self._client.wait_for_exit(self._terminal)).exit_code

    async def output(self) -> tuple[str, bool]:
        """What it has printed, and whether the beginning of that is cut off."""
        printed = await self._client.terminal_output(self._terminal)
        return printed.output, printed.truncated

    async def kill(self) -> None:
        """End it."""
        await self._client.kill_terminal(self._terminal)

    async def release(self) -> None:
        """It is not needed any more; what it printed stays on the screen."""
        await self._client.release_terminal(self._terminal)
