"""A channel to a server that is a program: one JSON message a line over its standard input and output.

The program runs in its own process group. It ends with the channel, and a guard ends it if this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from outrider import jsonrpc
from outrider.errors import McpClosedError, McpError, McpRefusedError
from outrider.jsonrpc import LineSplitter
from outrider.mcp.channel import Headers, OnProgress, Params, ServerListener
from outrider.mcp.exchange import Exchange
from outrider.mcp.server_limits import ServerHost
from outrider.mcp.servers import StdioServer, secrets_of
from outrider.processes.process_tree import MARK
from outrider.processes.processes import Process, Processes, end
from outrider.processes.programs import ProgramNotFoundError, Programs
from outrider.text.visible import plain_text, without_colours
from outrider.tools.threads import Threads

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""The variables that a program inherits if the caller gives no environment: none of them is a key."""

EXIT_SECONDS = 0.5
"""How long a program may take to end by itself: after its input closes, and after it has closed its output."""
_SHOWN_STDERR = 1_000
_READ_BYTES = 64 * 1024
"""What a pipe holds. asyncio would allocate 256 KiB for each read, which costs more than the rest of a call."""


class StdioChannel:
    """A channel to a program. `processes` ends it with the session, also if this process is killed."""

    def __init__(
        self, server: StdioServer, listener: ServerListener, *, processes: Processes, host: ServerHost
    ) -> None:
        self.protocol_version = ""
        self._server = server
        self._listener = listener
        self._processes = processes
        inherited = {name: value for name in INHERITED if (value := os.environ.get(name))}
        self._environment = inherited if host.environment is None else host.environment
        self._programs = host.programs
        self._bounds = host.bounds
        self._exchange = Exchange(server.name, listener, host.bounds)
        self._lines = LineSplitter(host.bounds.message_bytes)
        self._stderr = b""
        self._process: Process | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._readers: list[asyncio.ReadTransport] = []
        self._ending: asyncio.Task[None] | None = None
        self._exit_handle: int | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Start the program. Raises McpError; McpRefusedError if it must not start as it is now."""
        # Immediately before each start: its files may have changed since the last one.
        if (check := self._server.before_start) and (reason := await Threads().run(check)):
            raise McpRefusedError(reason)
        theirs: list[int] = []
        ours: list[int] = []
        try:
            for is_input in (True, False, False):
                reading, writing = os.pipe()
                theirs.append(reading if is_input else writing)
                ours.append(writing if is_input else reading)
            self._process = self._start(*theirs)
            await self._connect(*ours)
        except (OSError, ValueError) as error:
            raise McpError(self._start_failure(error)) from None
        finally:
            for handle in (*theirs, *([] if self._writer else ours)):
                with contextlib.suppress(OSError):
                    os.close(handle)

    async def request(
        self,
        method: str,
        params: Params,
        timeout: float | None,
        on_progress: OnProgress = None,
        headers: Headers = None,
    ) -> msgspec.Raw:
        pending = self._exchange.begin(method, params, timeout, on_progress)
        try:
            self._send(pending.line)
        except McpError:
            self._exchange.forget(pending)
            raise
        return await self._exchange.wait(pending, self._send)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        with contextlib.suppress(McpError):
            self._send(jsonrpc.notification(method, params))

    async def close(self) -> None:
        """Close the program's input, and end it if it does not end by itself."""
        self._is_closed = True
        self._exchange.close(McpClosedError(f"The connection to the MCP server {self._server.name} was closed."))
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    def _start(self, input: int, output: int, errors: int) -> Process:
        mark = self._processes.next_mark()
        server, folder = self._server, os.path.abspath(self._server.cwd or os.curdir)
        return self._processes.start(
            [program_of(server, self._environment, self._programs), *server.args],
            mark,
            folder=folder,
            environment={**self._environment, **server.env, MARK: mark},
            input=input,
            output=output,
            errors=errors,
        )

    async def _connect(self, input: int, output: int, errors: int) -> None:
        loop = asyncio.get_running_loop()
        self._writer, _ = await loop.connect_write_pipe(_Input, os.fdopen(input, "wb", buffering=0))
        # A program may close its standard error.
        takers = (output, self._feed, self._output_ended), (errors, self._keep_stderr, lambda: None)
        for handle, take, ended in takers:
            reader = os.fdopen(handle, "rb", buffering=0)
            transport, _ = await loop.connect_read_pipe(lambda take=take, ended=ended: _Output(take, ended), reader)  # type: ignore[misc]
            transport.max_size = _READ_BYTES  # type: ignore[attr-defined]
            self._readers.append(transport)
        # Notice the end of a program whose children keep its output open.
        if self._process and (exit_handle := self._process.exit_handle) is not None:
            self._exit_handle = os.dup(exit_handle)
            loop.add_reader(self._exit_handle, self._exited)

    def _send(self, line: bytes) -> None:
        writer = self._writer
        if self._is_closed or writer is None or writer.is_closing():
            raise McpClosedError(f"The MCP server {self._server.name} is not running.", sent=False)
        if writer.get_write_buffer_size() > self._bounds.message_bytes:
            raise McpError(f"The MCP server {self._server.name} does not read its input.")
        writer.write(line)

    def _feed(self, data: bytes) -> None:
        try:
            for line in self._lines.split(data):
                if self._is_closed:
                    return
                if line is None:
                    self._exchange.skip(self._lines.skipped)
                elif line.strip(b" \t\r"):
                    self._exchange.receive(line, self._send)
        except McpError as error:
            self._lose(error)

    def _keep_stderr(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-self._bounds.stderr_bytes :]

    def _output_ended(self) -> None:
        if not self._is_closed:
            self._lose(None)

    def _exited(self) -> None:
        self._forget_exit()  # what it has written is read first
        asyncio.get_running_loop().call_later(EXIT_SECONDS, self._output_ended)

    def _forget_exit(self) -> None:
        if self._exit_handle is not None:
            asyncio.get_running_loop().remove_reader(self._exit_handle)
            os.close(self._exit_handle)
            self._exit_handle = None

    def _lose(self, reason: McpError | None) -> None:
        """Handle the end of a program that was not asked to end, or whose output cannot be used any more."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end_lost(reason))

    async def _end_lost(self, reason: McpError | None) -> None:
        await self._wait_for_exit(EXIT_SECONDS if reason is None else 0)
        code = await self._end_process()
        told = reason or McpClosedError(self._end_message(code))
        was_closed, self._is_closed = self._is_closed, True
        self._exchange.close(McpClosedError(str(told)))
        if not was_closed:
            self._listener.closed(told)

    async def _end(self) -> None:
        if self._writer:
            self._writer.close()
        await self._wait_for_exit(EXIT_SECONDS)
        await self._end_process()

    async def _wait_for_exit(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until, moment = loop.time() + seconds, 0.002
        while self._process and not self._process.ended() and loop.time() < until:
            await asyncio.sleep(moment)
            moment = min(moment * 2, 0.05)

    async def _end_process(self) -> int | None:
        """End the whole group, and release the pipes. Return the exit code."""
        self._forget_exit()
        process, self._process = self._process, None
        code = await Threads().run(_end, process, self._processes) if process else None
        await asyncio.sleep(0)  # let the readers take what is left
        if self._writer and not self._writer.is_closing():
            self._writer.abort()
        for reader in self._readers:
            reader.close()
        return code

    def _start_failure(self, error: OSError | ValueError) -> str:
        name, command = self._server.name, self._server.command
        if isinstance(error, ProgramNotFoundError) and error.inside:
            return f"The MCP server {name} cannot start: {error}."
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            if self._server.cwd and not os.path.isdir(self._server.cwd):
                return f"The MCP server {name} cannot start: its folder {self._server.cwd} does not exist."
            return (
                f"The MCP server {name} cannot start: the program {command!r} was not found. "
                "Install it, or correct the command."
            )
        reason = error.strerror if isinstance(error, OSError) else error
        return f"The MCP server {name} cannot start {command!r}: {reason}."

    def _end_message(self, code: int | None) -> str:
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
        said = self._stderr.decode(errors="replace")[-_SHOWN_STDERR:].strip()
        for secret in secrets_of(self._server):
            said = said.replace(secret, "…")
        said = plain_text(without_colours(said), _SHOWN_STDERR)
        why = f"It said: {said}" if said else "Run its command in a terminal to see why."
        return f"The MCP server {self._server.name} ended{how}. {why}"


def program_of(server: StdioServer, environment: Mapping[str, str], programs: Programs | None = None) -> str:
    """Return the absolute path of a server's program. A path is relative to the server's folder; a name is looked up.

    `environment` is what the program inherits. Without `programs`, the folders of the server and of this process are
    the working folders. Raises ProgramNotFoundError if there is no such program outside of them.
    """
    folder = os.path.abspath(server.cwd or os.curdir)
    if os.path.dirname(server.command):
        return os.path.join(folder, server.command)
    path = server.env.get("PATH")
    if programs is None or path is not None:
        looked = environment.get("PATH", os.defpath) if path is None else path
        programs = Programs((*(programs.folders if programs else ()), folder, os.curdir), looked)
    return programs.require(server.command)


def _end(process: Process, processes: Processes) -> int:
    end([process])
    code = process.reap()
    processes.forget(process)
    return code


class _Input(asyncio.BaseProtocol):
    """The end of a pipe that is written to. A broken pipe shows as the end of the program's output."""


class _Output(asyncio.Protocol):
    def __init__(self, take: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._take = take
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()
