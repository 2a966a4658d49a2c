"""A client of one MCP server, in either era of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from outrider.errors import McpClosedError, McpError, McpLoginError
from outrider.mcp import protocol
from outrider.mcp.channel import Authorization, Channel, Headers, OnProgress, Params
from outrider.mcp.elicitation import OnElicit, elicit
from outrider.mcp.handshake import Agreement, agree, agree_on, agree_on_handshake, decoded
from outrider.mcp.lists import ListCache, keep_listening, read_list
from outrider.mcp.parameter_headers import HeaderParameter, header_parameters, parameter_headers
from outrider.mcp.protocol import Prompt, ResourceTemplate
from outrider.mcp.server_limits import DEFAULT, ServerHost
from outrider.mcp.servers import HttpServer, McpServer, StdioServer
from outrider.mcp.tasks import Tasks, TaskServer
from outrider.processes.processes import Processes
from outrider.text.visible import one_line
from outrider.trace_context import trace_context

T = TypeVar("T")
OutcomeT = TypeVar("OutcomeT", bound=protocol.Outcome)

REQUEST_SECONDS = 60.0  # how long a server may take for a request other than a tool call
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
"""Seconds until a request is sent again to a server that needs more time."""

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[msgspec.Raw]]

OnChange: TypeAlias = Callable[[protocol.ListKind], None]
"""Learns that a server's tools, resources or prompts changed. Called in the event loop; must not raise."""
OnClose: TypeAlias = Callable[[Exception], None]
"""Learns that the connection ended by itself. Called in the event loop; must not raise."""


class Client:
    """A connection to one server. Every method after `connect` raises McpError if the server fails.

    A client is used in one event loop. It does not reconnect: `ServerPool` does.
    """

    def __init__(
        self,
        server: McpServer,
        *,
        on_elicit: OnElicit | None = None,
        on_change: OnChange | None = None,
        on_close: OnClose | None = None,
        authorization: Authorization | None = None,
        host: ServerHost = DEFAULT,
        processes: Processes | None = None,
        handshake_first: bool = False,
    ) -> None:
        """`processes` ends programs with this process. `handshake_first` saves time with a server that is old."""
        self.server = server
        self.agreement: Agreement | None = None
        """What was agreed in `connect`: the version, the server's capabilities, name and instructions."""
        self.skipped: dict[protocol.ListKind, list[str]] = {}
        """Why items of a list were left out, by list; set when the list is read."""
        self._on_elicit = on_elicit
        self._on_change = on_change
        self._on_close = on_close
        self._authorization = authorization
        self._host = host
        self._processes = processes
        self._handshake_first = handshake_first
        self._channel: Channel | None = None
        self._lists = ListCache()
        self._header_parameters: dict[str, tuple[HeaderParameter, ...]] = {}
        self._task_tools: frozenset[str] | None = None
        """The tools that are called as tasks (2025-11-25); None if the list has not been read."""
        self._asking = 0  # how many questions of the server wait for a person
        self._tasks = Tasks(
            TaskServer(server.name, server.timeout, host.bounds, self._send, self.answer, lambda: self._asking > 0)
        )
        self._listening: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Start or reach the server and agree on a protocol version. Raises McpError; the client is then closed."""
        try:
            self.agreement = await self._agree()
        except BaseException:
            await self.close()
            raise
        self._start_listening()

    async def list_tools(self) -> tuple[protocol.ToolSpec, ...]:
        tools = await self._list("tools", protocol.LIST_TOOLS, "tools", protocol.ToolSpec)
        if self._agreed.runs_tasks:
            self._task_tools = frozenset(tool.name for tool in tools if tool.runs_as_task)
        is_marked = isinstance(self.server, HttpServer) and self._agreed.is_stateless
        return self._with_headers(tools) if is_marked else tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, on_progress: OnProgress = None
    ) -> protocol.CallToolResult:
        """Call a tool, and follow its task if it becomes one. Cancelling the caller cancels it on the server."""
        agreed, timeout = self._agreed, self.server.timeout
        headers = parameter_headers(self._header_parameters.get(name, ()), arguments)
        if agreed.runs_tasks and self._task_tools is None:
            await self.list_tools()
        is_task = name in (self._task_tools or ())

        async def send(params: dict[str, Any]) -> msgspec.Raw:
            if is_task:
                return await self._tasks.call(params, on_progress, can_cancel=agreed.cancels_tasks)
            raw = await self._send(protocol.CALL_TOOL, params, timeout, on_progress, headers)
            return await self._tasks.followed(raw, on_progress) if agreed.is_stateless else raw

        params = {"name": name, "arguments": dict(arguments)}
        return await self._call(protocol.CALL_TOOL, params, protocol.CallToolResult, send)

    async def list_resources(self) -> tuple[protocol.Resource, ...]:
        return await self._list("resources", protocol.LIST_RESOURCES, "resources", protocol.Resource)

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        return await self._list("resources", protocol.LIST_TEMPLATES, "resource_templates", ResourceTemplate)

    async def read_resource(self, uri: str) -> tuple[protocol.ResourceContents, ...]:
        return tuple((await self._call(protocol.READ_RESOURCE, {"uri": uri}, protocol.ReadResourceResult)).contents)

    async def list_prompts(self) -> tuple[Prompt, ...]:
        return await self._list("prompts", protocol.LIST_PROMPTS, "prompts", Prompt)

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> protocol.GetPromptResult:
        params = {"name": name, "arguments": dict(arguments)}
        return await self._call(protocol.GET_PROMPT, params, protocol.GetPromptResult)

    async def complete(
        self, reference: Prompt | ResourceTemplate, argument: str, value: str, context: Mapping[str, str] = {}
    ) -> protocol.Completion:
        """Return suggestions for an argument of a prompt or a resource template. `context` has the other arguments."""
        if self._agreed.capabilities.completions is None:
            return protocol.Completion()
        if isinstance(reference, Prompt):
            ref = {"type": "ref/prompt", "name": reference.name}
        else:
            ref = {"type": "ref/resource", "uri": reference.uri_template}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        return (await self._request(protocol.COMPLETE, params, protocol.CompleteResult)).completion

    async def close(self) -> None:
        if self._listening:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        await self._tasks.close()
        if self._channel:
            await self._channel.close()

    async def answer(self, method: str, params: msgspec.Raw) -> Any:
        """Answer a request of the server. Sampling and roots are refused. Raises McpError."""
        if method != protocol.ELICIT or self._on_elicit is None:
            raise McpError(f"Outrider does not support {method[:80]}.", code=protocol.METHOD_NOT_FOUND)
        self._asking += 1
        try:
            return await elicit(self.server.name, params, self._on_elicit)
        finally:
            self._asking -= 1

    def notified(self, method: str, params: msgspec.Raw) -> None:
        """Take a notification: changes of lists and of tasks count, log messages and others are ignored."""
        self._tasks.notified(method, params)
        kind = protocol.CHANGES.get(method)
        if kind:
            self._lists.forget(kind)
            if self._on_change:
                self._on_change(kind)

    def closed(self, reason: Exception) -> None:
        if self._on_close and self.agreement:
            self._on_close(reason)

    @property
    def _agreed(self) -> Agreement:
        if self.agreement is None:
            raise McpClosedError(f"The MCP server {self.server.name} is not connected.")
        return self.agreement

    async def _agree(self) -> Agreement:
        name, seconds, pinned = self.server.name, self.server.startup_timeout, self.server.protocol
        capabilities: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}} if self._on_elicit else {}
        channel = await self._open()
        try:
            if pinned:
                return await agree_on(channel, name, capabilities, seconds, pinned)
            if self._handshake_first:
                return await agree_on_handshake(channel, name, capabilities, seconds)
            return await agree(channel, name, capabilities, seconds=seconds)
        except McpClosedError:
            if not isinstance(self.server, StdioServer) or self._handshake_first or pinned:
                raise
        except McpError as error:
            if not getattr(channel, "is_refused", False) or pinned in protocol.MODERN_VERSIONS:
                raise
            return await self._agree_over_sse(error, capabilities)
        # Some old servers end when the first request is not `initialize`.
        await channel.close()
        return await agree_on_handshake(await self._open(), name, capabilities, seconds)

    async def _agree_over_sse(self, refusal: McpError, capabilities: dict[str, Any]) -> Agreement:
        """Agree over the transport of 2024-11-05. Raises the refusal of the newer one if the server has neither."""
        from outrider.mcp.legacy_sse import LegacySseChannel

        assert isinstance(self.server, HttpServer)
        if self._channel:
            await self._channel.close()
        channel = LegacySseChannel(self.server, self, authorization=self._authorization, bounds=self._host.bounds)
        self._channel = channel
        try:
            await channel.open()
        except McpLoginError:
            raise
        except McpError:
            raise refusal from None
        server = self.server
        return await agree_on_handshake(channel, server.name, capabilities, server.startup_timeout, server.protocol)

    async def _open(self) -> Channel:
        self._channel = channel = self._new_channel()
        await channel.open()
        return channel

    def _new_channel(self) -> Channel:
        if isinstance(self.server, HttpServer):
            from outrider.mcp.http import HttpChannel  # brings the HTTP library

            return HttpChannel(self.server, self, authorization=self._authorization, bounds=self._host.bounds)
        from outrider.mcp.stdio import StdioChannel

        processes = self._processes = self._processes or Processes()
        return StdioChannel(self.server, self, processes=processes, host=self._host)

    def _start_listening(self) -> None:
        agreed, channel = self._agreed, self._channel
        kinds: list[protocol.ListKind] = [
            kind for kind in ("tools", "resources", "prompts") if agreed.capabilities.announces(kind)
        ]
        if channel and agreed.meta is not None and kinds and self._on_change:
            listening = keep_listening(channel, agreed.meta, kinds)
            self._listening = asyncio.get_running_loop().create_task(listening)

    def _with_headers(self, tools: tuple[protocol.ToolSpec, ...]) -> tuple[protocol.ToolSpec, ...]:
        """Return the tools whose marks for headers are valid, and keep the marks for their calls."""
        usable: list[protocol.ToolSpec] = []
        for tool in tools:
            try:
                self._header_parameters[tool.name] = header_parameters(tool.input_schema)
                usable.append(tool)
            except McpError as error:
                reason = f"the tool {one_line(tool.name, 80)!r} cannot be used: {error}"
                if reason not in self.skipped["tools"]:
                    self.skipped["tools"].append(reason)
        return tuple(usable)

    async def _list(self, kind: protocol.ListKind, method: str, field: str, type: type[T]) -> tuple[T, ...]:
        if getattr(self._agreed.capabilities, kind) is None:
            return ()
        cached: tuple[T, ...] | None = self._lists.get(method)
        if cached is not None:
            return cached
        version = self._lists.version(kind)
        found = await read_list(self._request, method, field, type, self._host.bounds)
        self.skipped[kind] = found.skipped
        self._lists.put(method, kind, found.items, found.seconds, version)
        return found.items

    async def _call(
        self, method: str, params: dict[str, Any], type: type[OutcomeT], send: Send | None = None
    ) -> OutcomeT:
        """Send a request, and again with the input that the server asks for first.

        Since 2026-07-28 a result may ask for input. In version 2025-11-25 an error may name pages to open first.
        """
        send = send or (lambda params: self._send(method, params, REQUEST_SECONDS))
        name, rounds = self.server.name, self._host.bounds.rounds
        pause, sent = _FIRST_PAUSE, params
        for _ in range(rounds + 1):
            try:
                raw = await send(sent)
            except McpError as error:
                if error.code != protocol.URL_ELICITATION_REQUIRED:
                    raise
                await self._open_pages(error)
                continue
            outcome = decoded(raw, type, name, method)
            if outcome.result_type == "complete":
                return outcome
            if outcome.result_type != "input_required":
                raise McpError(f"The MCP server {name} sent a result of an unknown type, {outcome.result_type[:40]!r}.")
            sent = dict(params)
            if asked := outcome.input_requests:  # answered one after the other: two questions at once would confuse
                sent["inputResponses"] = {
                    key: await self.answer(each.method, each.params) for key, each in asked.items()
                }
            else:  # the server only needs more time
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            if outcome.request_state is not None:
                sent["requestState"] = outcome.request_state
        raise McpError(f"The MCP server {name} asked for input more than {rounds} times for one {method}.")

    async def _open_pages(self, error: McpError) -> None:
        """Ask the person to open the pages that the server names. Raises the error again if one is not opened."""
        pages = error.data.get("elicitations") if isinstance(error.data, dict) else None
        if not isinstance(pages, list) or not pages:
            raise error
        for page in pages:
            result = await self.answer(protocol.ELICIT, msgspec.Raw(msgspec.json.encode(page)))
            if result.get("action") != "accept":
                raise error

    async def _request(self, method: str, params: dict[str, Any], type: type[T]) -> T:
        return decoded(await self._send(method, params, REQUEST_SECONDS), type, self.server.name, method)

    async def _send(
        self,
        method: str,
        params: Params,
        timeout: float | None,
        on_progress: OnProgress = None,
        headers: Headers = None,
    ) -> msgspec.Raw:
        # A server that records spans adds them to the trace.
        meta = {**params.get("_meta", {}), **(self._agreed.meta or {}), **trace_context()}
        assert self._channel is not None
        params = {**params, "_meta": meta} if meta else params
        return await self._channel.request(method, params, timeout=timeout, on_progress=on_progress, headers=headers)
