"""The client at the other end of the connection: its capabilities, and the messages that are sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from outrider.acp.connection import ClosedError, Connection
from outrider.acp.schema import (
    ClientCapabilities,
    CreateElicitationRequest,
    CreateElicitationResponse,
    Implementation,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    SessionUpdate,
    Wire,
)
from outrider.acp.writer import STALL_SECONDS, EditorWriter

if TYPE_CHECKING:
    from outrider.acp.updates.engine import Engine

T = TypeVar("T")


class AskingSession(Protocol):
    """A session that asks the user in the editor. Its id and its engine are known once it is open."""

    client: EditorClient
    id: str
    engine: Engine


class EditorClient:
    """One editor. Its capabilities are known after `initialize`."""

    def __init__(self, connection: Connection, writer: EditorWriter) -> None:
        self.connection = connection
        self._writer = writer
        self.capabilities = ClientCapabilities()
        self.info: Implementation | None = None

    def initialize(self, capabilities: ClientCapabilities, info: Implementation | None) -> None:
        """Store what the client sent with its `initialize` request."""
        self.capabilities, self.info = capabilities, info

    @property
    def name(self) -> str:
        """The name of the client; empty if it sent none."""
        return self.info.name if self.info else ""

    @property
    def takes_notices(self) -> bool:
        session = self.capabilities.session
        return session is not None and session.notices is not None

    @property
    def takes_compactions(self) -> bool:
        """Whether the client shows compactions as a part of the conversation."""
        session = self.capabilities.session
        return session is not None and session.compaction is not None

    @property
    def appends_output(self) -> bool:
        """Whether the client appends terminal output. Not used if it runs the commands in terminals of its own."""
        meta = self.capabilities.meta or {}
        names = ("terminal_output", "terminal_output_delta")
        return any(meta.get(name) is True for name in names) and not self.capabilities.terminal

    @property
    def output_key(self) -> str:
        """The `_meta` key for appended output; clients use one of two."""
        meta = self.capabilities.meta or {}
        return "terminal_output" if meta.get("terminal_output") is True else "terminal_output_delta"

    @property
    def is_congested(self) -> bool:
        """Whether the client reads more slowly than the agent writes."""
        return self._writer.congested

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call back once, as soon as the client has caught up; in the next iteration of the loop if it has."""
        self._writer.when_drained(callback)

    async def drain(self) -> None:
        """Wait until a slow client has read what was written."""
        if self.is_congested:
            await self._writer.flush(STALL_SECONDS)

    def send_update(self, session: str, update: SessionUpdate) -> int:
        """Send a `session/update` notification. Return its size in bytes; 0 if the connection is closed."""
        return self.connection.notify("session/update", SessionNotification(session, update))

    async def request_permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        """Ask the user whether a call may run."""
        return await self._ask("session/request_permission", request, RequestPermissionResponse)

    async def elicit(self, request: CreateElicitationRequest) -> CreateElicitationResponse:
        """Ask the user for the values of a form, or to open a page."""
        return await self._ask("elicitation/create", request, CreateElicitationResponse)

    async def _ask(self, method: str, request: Wire, response: type[T]) -> T:
        try:
            return await self.connection.request(method, request, response)
        except ClosedError:  # the user did not decide: wait until the session is cancelled
            await asyncio.get_running_loop().create_future()
            raise
