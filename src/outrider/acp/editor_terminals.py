"""The editor's terminals, as the Bash tool uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.acp.client import Client
from outrider.acp.connection import ClosedError, RpcError
from outrider.acp.schema.client_requests import CreateTerminalRequest, EnvVariable, TerminalRequest


class EditorTerminals:
    """Starts commands in terminals of the editor."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session

    async def start(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output_bytes: int
    ) -> RunningTerminal:
        """Start a command. Raises OSError if the editor does not start it."""
        variables = [EnvVariable(name, value) for name, value in environment.items()]
        request = CreateTerminalRequest(self._session, argv[0], list(argv[1:]), variables, str(cwd), output_bytes)
        try:
            terminal_id = await self._client.create_terminal(request)
        except ClosedError:
            raise
        except RpcError as error:
            raise OSError(f"the editor did not start it: {error}") from None
        return RunningTerminal(self._client, TerminalRequest(self._session, terminal_id))


class RunningTerminal:
    """A command in a terminal of the editor."""

    def __init__(self, client: Client, terminal: TerminalRequest) -> None:
        self.id = terminal.terminal_id
        self._client = client
        self._terminal = terminal

    async def wait(self) -> int | None:
        """Wait for the command and return its exit code; None if a signal ended it."""
        return (await self._client.wait_for_exit(self._terminal)).exit_code

    async def output(self) -> tuple[str, bool]:
        """Return the output so far, and whether its beginning was cut off."""
        response = await self._client.terminal_output(self._terminal)
        return response.output, response.truncated

    async def kill(self) -> None:
        """Kill the command."""
        await self._client.kill_terminal(self._terminal)

    async def release(self) -> None:
        """Release the terminal. The editor keeps showing its output."""
        await self._client.release_terminal(self._terminal)
