"""What the tools use of the editor: its text buffers and its terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from outrider.acp import schema
from outrider.acp.client import EditorClient
from outrider.acp.connection import ClosedError
from outrider.jsonrpc import RpcError

T = TypeVar("T")
ANYTHING: Any = Any
"""The result of a request that has none: clients in Lua send `[]`, which is how an empty table is encoded."""
TIMEOUT = 10.0
"""Seconds to wait for a response about a file."""


class EditorBuffers:
    """Files as the editor has them, with unsaved changes. Its methods are called from the threads of tools."""

    def __init__(self, client: EditorClient, session: str) -> None:
        self._client = client
        self._session = session
        self._request = client.connection.request
        self._loop = asyncio.get_running_loop()

    def read(self, path: Path) -> str | None:
        """Return the text; None if the editor does not have it. Raises OSError if the editor does not respond."""
        if not self._client.capabilities.fs.read_text_file:
            return None
        try:
            request = schema.ReadTextFileRequest(self._session, str(path))
            return self._wait(self._request("fs/read_text_file", request, schema.ReadTextFileResponse)).content
        except ClosedError:
            raise
        except RpcError:
            return None

    def write(self, path: Path, text: str) -> bool:
        """Save through the editor; False if the editor does not offer that. Raises OSError if the save failed."""
        if not self._client.capabilities.fs.write_text_file:
            return False
        try:
            request = schema.WriteTextFileRequest(self._session, str(path), text)
            self._wait(self._request("fs/write_text_file", request, ANYTHING))
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


class EditorTerminals:
    """Starts commands in terminals of the editor."""

    def __init__(self, client: EditorClient, session: str) -> None:
        self._request = client.connection.request
        self._session = session

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output_bytes: int
    ) -> RunningTerminal:
        """Start a command. Raises OSError if the editor does not start it."""
        variables = [schema.EnvVariable(name, value) for name, value in environment.items()]
        request = schema.CreateTerminalRequest(
            self._session, argv[0], list(argv[1:]), variables, str(cwd), output_bytes
        )
        try:
            created = await self._request("terminal/create", request, schema.CreateTerminalResponse)
        except ClosedError:
            raise
        except RpcError as error:
            raise OSError(f"the editor did not start it: {error}") from None
        return RunningTerminal(self._request, schema.TerminalRequest(self._session, created.terminal_id))


class RunningTerminal:
    """A command in a terminal of the editor."""

    def __init__(self, request: Callable[..., Awaitable[Any]], terminal: schema.TerminalRequest) -> None:
        self.id = terminal.terminal_id
        self._request = request
        self._terminal = terminal

    async def wait(self) -> int | None:
        """Wait for the command and return its exit code; None if a signal ended it."""
        ended: schema.TerminalExitStatus = await self._request(
            "terminal/wait_for_exit", self._terminal, schema.TerminalExitStatus
        )
        return ended.exit_code

    async def output(self) -> tuple[str, bool]:
        """Return the output so far, and whether its beginning was cut off."""
        response = await self._request("terminal/output", self._terminal, schema.TerminalOutputResponse)
        return response.output, response.truncated

    async def kill(self) -> None:
        await self._request("terminal/kill", self._terminal, ANYTHING)

    async def release(self) -> None:
        """Release the terminal. The editor keeps showing its output."""
        await self._request("terminal/release", self._terminal, ANYTHING)
