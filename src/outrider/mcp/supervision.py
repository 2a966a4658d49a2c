"""One server of a session: its client while it runs, its tools, and its restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.errors import McpClosedError, McpError, McpLoginError, McpRefusedError
from outrider.mcp.channel import CallProgress
from outrider.mcp.client import Client
from outrider.mcp.protocol import CallToolResult, ListKind
from outrider.mcp.server_limits import Restarts
from outrider.mcp.servers import HttpServer, McpServer
from outrider.mcp.tools import server_tools
from outrider.text.visible import one_line
from outrider.tools.tool import Tool

ServerState: TypeAlias = Literal["starting", "ready", "restarting", "failed", "closed"]

CALL_WAIT = 30.0  # seconds that a call waits for a server that is being started again
_LONGEST_ERROR = 1_500
_MOST_NOTICES = 5


class ServerStatus(msgspec.Struct, frozen=True):
    """The state of a server, for people."""

    name: str
    state: ServerState
    error: str = ""
    """Why it failed or is restarted."""
    version: str = ""
    """The version of the protocol."""
    tools: int = 0


class SupervisedServer:
    """A server that is kept running. Its tools wait for it while it restarts."""

    def __init__(
        self,
        server: McpServer,
        make_client: Callable[[SupervisedServer], Client],
        notice: Callable[[str], None],
        changed: Callable[[], None],
        restarts: Restarts,
    ) -> None:
        self.server = server
        self.tools: tuple[Tool, ...] = ()
        """The tools that were read last. They stay while the server restarts, so that requests stay the same."""
        self.is_old = False  # whether the server needed `initialize` when it connected last
        self._make_client = make_client
        self._notice = notice
        self._changed = changed
        self._restarts = restarts
        self._state: ServerState = "starting"
        self._error = ""
        self._client: Client | None = None
        self._lost: asyncio.Future[Exception] | None = None
        self._list_changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._was_ready = False
        self._told: list[str] = []

    @property
    def is_ready(self) -> bool:
        return self._state == "ready"

    @property
    def status(self) -> ServerStatus:
        agreed = self._client.agreement if self._client else None
        return ServerStatus(
            self.server.name, self._state, self._error, agreed.version if agreed else "", len(self.tools)
        )

    @property
    def instructions(self) -> str:
        """What the server says about the use of its tools, cleaned and limited. Empty if it is not connected."""
        agreed = self._client.agreement if self._client else None
        return agreed.instructions if agreed else ""

    def start(self) -> None:
        """Start the server in the background. A closed or failed one is started anew."""
        if self._task is None or self._task.done():
            self._set("starting", "")
            self._task = asyncio.get_running_loop().create_task(self._supervise())

    async def settled(self) -> None:
        await self._settled.wait()

    def client(self) -> Client:
        if self._client is None or not self.is_ready:
            raise McpError(self._unavailable())
        return self._client

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[CallProgress], None]
    ) -> CallToolResult:
        """Call a tool, after waiting a while for a server that is being started. Raises McpError."""
        await self._wait_for(self._settled.wait())
        client, lost = self.client(), self._lost
        try:
            return await client.call_tool(name, arguments, on_progress=on_progress)
        except McpClosedError as error:
            if error.sent or lost is None:
                raise
        # The server had just ended, and has not seen the call.
        await self._wait_for(asyncio.shield(lost))
        await self._wait_for(self._settled.wait())
        return await self.client().call_tool(name, arguments, on_progress=on_progress)

    def list_changed(self, kind: ListKind) -> None:
        if kind == "tools":
            self._list_changed.set()

    def lost(self, reason: Exception) -> None:
        """Learn that the connection ended by itself. From now on, calls wait for the restart."""
        if self._lost and not self._lost.done():
            self._lost.set_result(reason)
            if self.is_ready:
                self._set("restarting", one_line(str(reason), _LONGEST_ERROR))

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self._set("closed", "")
        if self._client:
            await self._client.close()

    async def _wait_for(self, event: Awaitable[object]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CALL_WAIT):
                await event

    async def _supervise(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            reason = await self._run()
            if loop.time() - began >= self._restarts.healthy_after:
                failures = 0
            failures += 1
            error = one_line(str(reason), _LONGEST_ERROR)
            if not self._may_restart(failures, reason):
                self._set("failed", error)
                says_all = not self._was_ready or isinstance(reason, McpRefusedError)
                self._notice(error if says_all else f"{error} It is not started again.")
                return
            self._set("restarting", error)
            self._notice(f"{error} It is started again.")
            await asyncio.sleep(self._restarts.pause(failures))

    def _may_restart(self, failures: int, reason: Exception) -> bool:
        """Return whether to start again: not a program that never worked, nor what waits for a person."""
        needs_person = isinstance(reason, McpLoginError | McpRefusedError)
        worth_it = (self._was_ready or isinstance(self.server, HttpServer)) and not needs_person
        return worth_it and failures <= self._restarts.most

    async def _run(self) -> Exception:
        """Connect and stay connected. Return why that ended."""
        self._lost = lost = asyncio.get_running_loop().create_future()
        self._list_changed.clear()
        self._client = client = self._make_client(self)
        try:
            self.is_old = False  # if it connects differently next time, both ways are tried
            await client.connect()
            self.is_old = client.agreement is not None and not client.agreement.is_stateless
            await self._read_tools(client)
            self._was_ready = True
            self._set("ready", "")
            return await self._stay(client, lost)
        except McpError as error:
            return error
        finally:
            await client.close()

    async def _stay(self, client: Client, lost: asyncio.Future[Exception]) -> Exception:
        """Read the tools again whenever they change, until the connection is lost."""
        while True:
            changed = asyncio.ensure_future(self._list_changed.wait())
            try:
                await asyncio.wait((lost, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if lost.done():
                return lost.result()
            self._list_changed.clear()
            try:
                await self._read_tools(client)
            except McpError as error:
                self._notice(one_line(str(error), _LONGEST_ERROR))
            await asyncio.wait((lost,), timeout=self._restarts.list_pause)

    async def _read_tools(self, client: Client) -> None:
        specs = await client.list_tools()
        tools, skipped = server_tools(self.server.name, specs, self.call, trusted=self.server.trusted)
        reasons = [f"The MCP server {self.server.name}: {reason}." for reason in client.skipped.get("tools", ())]
        told, self._told = self._told, [one_line(each, _LONGEST_ERROR) for each in [*reasons, *skipped][:_MOST_NOTICES]]
        for sentence in self._told:  # each notice once, however often the list is read
            if sentence not in told:
                self._notice(sentence)
        before = [(tool.name, tool.description, tool.parameters) for tool in self.tools]
        if before != [(tool.name, tool.description, tool.parameters) for tool in tools]:
            self.tools = tuple(tools)
            self._changed()

    def _set(self, state: ServerState, error: str) -> None:
        self._state, self._error = state, error
        if state in ("starting", "restarting"):
            self._settled.clear()
        else:
            self._settled.set()

    def _unavailable(self) -> str:
        name = self.server.name
        why = f" {self._error}" if self._error else ""
        match self._state:
            case "failed":
                return f"The MCP server {name} is not running.{why}"
            case "closed":
                return f"The MCP server {name} was closed."
        return f"The MCP server {name} is not ready yet. Try again later.{why}"
