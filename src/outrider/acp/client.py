"""The editor at the other end: what it can do, what it is told, what it is asked."""

from __future__ import annotations

from outrider.acp.schema.client_requests import (
    CreateTerminal,
    ExitStatus,
    FileText,
    OfTerminal,
    Permission,
    ReadTextFile,
    RequestPermission,
    TerminalCreated,
    TerminalOutput,
    WriteTextFile,
)
from outrider.acp.schema.notifications import Notification, SessionUpdate
from outrider.acp.schema.requests import ClientCapabilities, Implementation, Nothing
from outrider.acp.wire import ClosedError, Connection
from outrider.acp.writer import STALL_SECONDS, Writer


class Client:
    """One editor. Its capabilities are known when it has introduced itself."""

    def __init__(self, connection: Connection, writer: Writer) -> None:
        self.connection = connection
        self._writer = writer
        self.capabilities = ClientCapabilities()
        self.info: Implementation | None = None

    def introduce(self, capabilities: ClientCapabilities, info: Implementation | None) -> None:
        """What it says of itself."""
        self.capabilities, self.info = capabilities, info

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self.info.name if self.info else ""

    @property
    def takes_notices(self) -> bool:
        """Whether it shows notices apart from what the model says."""
        session = self.capabilities.session
        return session is not None and session.notices is not None

    @property
    def appends_output(self) -> bool:
        """Whether output is appended to what it shows, instead of sent whole again; one that runs commands has it."""
        meta = self.capabilities.meta or {}
        names = ("terminal_output", "terminal_output_delta")
        return any(meta.get(name) is True for name in names) and not self.capabilities.terminal

    @property
    def output_key(self) -> str:
        """The name under which it takes output that is appended: there are two in use."""
        meta = self.capabilities.meta or {}
        return "terminal_output" if meta.get("terminal_output") is True else "terminal_output_delta"

    @property
    def is_congested(self) -> bool:
        """Whether it takes less than it is told: what can wait should."""
        return self._writer.congested

    async def caught_up(self) -> None:
        """Wait until a slow editor has taken what it was told."""
        if self.is_congested:
            await self._writer.flush(STALL_SECONDS)

    def tell(self, session: str, update: SessionUpdate) -> int:
        """Tell it of a change in a session; the bytes that it took. Raises ClosedError if it is gone."""
        size = self.connection.notify("session/update", Notification(session, update))
        if not size:
            raise ClosedError
        return size

    async def permit(self, request: RequestPermission) -> Permission:
        """Ask the person whether a call may run."""
        return await self.connection.request("session/request_permission", request, Permission)

    async def read_text(self, session: str, path: str) -> str:
        """A file as the editor has it."""
        asked = ReadTextFile(session, path)
        return (await self.connection.request("fs/read_text_file", asked, FileText)).content

    async def write_text(self, session: str, path: str, text: str) -> None:
        """Have the editor save a file."""
        asked = WriteTextFile(session, path, text)
        await self.connection.request("fs/write_text_file", asked, Nothing | None)

    async def create_terminal(self, asked: CreateTerminal) -> str:
        """Start a command in a terminal of the editor; its id."""
        return (await self.connection.request("terminal/create", asked, TerminalCreated)).terminal_id

    async def terminal_output(self, terminal: OfTerminal) -> TerminalOutput:
        """What it has printed so far."""
        return await self.connection.request("terminal/output", terminal, TerminalOutput)

    async def wait_for_exit(self, terminal: OfTerminal) -> ExitStatus:
        """How it ended, when it has."""
        return await self.connection.request("terminal/wait_for_exit", terminal, ExitStatus)

    async def kill_terminal(self, terminal: OfTerminal) -> None:
        """End the command."""
        await self.connection.request("terminal/kill", terminal, Nothing | None)

    async def release_terminal(self, terminal: OfTerminal) -> None:
        """The terminal is not needed any more."""
        await self.connection.request("terminal/release", terminal, Nothing | None)
