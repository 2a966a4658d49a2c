"""Servers that run in the background, in a thread with an event loop of their own.

A session may be used in several event loops, one after the other, and be closed in none. Its servers outlive them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outrider.errors import McpClosedError, McpError
from outrider.mcp.server_limits import DEFAULT, ServerHost
from outrider.mcp.servers import McpServer
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer, OnElicit
    from outrider.mcp.pool import Authorize, OnNotice, ServerPool
    from outrider.mcp.supervision import ServerStatus

GRACE = 1.0  # seconds that the first request of a session waits for servers that are still starting
TOOLS_SHARE = 0.05
"""The share of the context window that the tools of servers may take before they are searched for instead."""
CLOSE_SECONDS = 5.0
_MOST_NOTICES = 100

T = TypeVar("T")


class RunningServers:
    """Servers for one session or several: `Agent(mcp=RunningServers([…]))`. Close it when the last session is over.

    Every method is safe from any thread. A session starts the servers, if they do not run yet.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        on_elicit: OnElicit | None = None,
        on_notice: OnNotice | None = None,
        authorize: Authorize | None = None,
        host: ServerHost = DEFAULT,
        grace: float = GRACE,
        tools_share: float = TOOLS_SHARE,
    ) -> None:
        """`on_elicit` runs in the event loop that used the servers last.

        `on_notice` gets each notice at once, in the thread of the servers. Without it, sessions take them.
        """
        from outrider.mcp.pool import ServerPool  # imports the whole client, which most programs do not need

        self.servers = tuple(servers)
        self.grace = grace
        self.tools_share = tools_share
        self._notices: deque[str] = deque(maxlen=_MOST_NOTICES)
        self._pool = ServerPool(
            self.servers,
            on_elicit=self._elicit if on_elicit else None,
            on_notice=on_notice or self._notices.append,
            authorize=authorize,
            host=host,
        )
        self._on_elicit = on_elicit
        self._tools: dict[int, tuple[Tool, Tool]] = {}
        """The tools as sessions call them, beside the originals, by the identity of the original."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event | None = None
        self._asking: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the servers, unless they run already."""
        with self._lock:
            if self._thread or self._is_closed:
                return
            self._loop = loop = asyncio.new_event_loop()
            self._stopping = asyncio.Event()
            self._thread = threading.Thread(
                target=self._serve, args=(loop, self._stopping), name="outrider-mcp", daemon=True
            )
            self._thread.start()

    def tools(self, names: Sequence[str] | None = None) -> tuple[Tool, ...]:
        """Return the tools that are ready, or those that match these names and patterns."""
        originals = self._pool.tools()
        with self._lock:
            self._tools = {id(each): self._tools.get(id(each)) or (each, self._wrapped(each)) for each in originals}
            tools = [self._tools[id(each)][1] for each in originals]
        if names is None:
            return tuple(tools)
        from fnmatch import fnmatchcase

        return tuple(tool for tool in tools if any(fnmatchcase(tool.name, name) for name in names))

    def instructions(self) -> dict[str, str]:
        """Return what each server that is ready says about the use of its tools, by name."""
        return self._pool.instructions()

    def statuses(self) -> tuple[ServerStatus, ...]:
        return self._pool.statuses()

    @property
    def starting(self) -> tuple[str, ...]:
        """The names of the servers that have not answered yet."""
        return tuple(status.name for status in self.statuses() if status.state == "starting")

    def take_notices(self) -> list[str]:
        """Return what happened to the servers since the last time, in sentences for people."""
        taken: list[str] = []
        with contextlib.suppress(IndexError):
            while True:
                taken.append(self._notices.popleft())
        return taken

    def answer_here(self) -> None:
        """Ask the questions of servers in the running event loop, also before a session has used them."""
        self._asking = asyncio.get_running_loop()

    async def settled(self, timeout: float | None = None) -> bool:
        """Wait until every server is ready or has failed. Return False if the time is over first."""
        return await self.do(lambda pool: pool.settled(timeout))

    async def do(self, work: Callable[[ServerPool], Coroutine[Any, Any, T]]) -> T:
        """Run work with the pool, in its event loop, and return the result. Cancelling the caller cancels the work."""
        self._asking = asyncio.get_running_loop()
        return await asyncio.wrap_future(self._submit(work(self._pool)))

    def do_now(self, work: Callable[[ServerPool], Coroutine[Any, Any, T]], timeout: float) -> T:
        """Run work with the pool from a thread without an event loop. Raises TimeoutError."""
        future = self._submit(work(self._pool))
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def only(self, names: Iterable[str]) -> ServerTools:
        """Return these servers with the tools that match names and patterns, as in `mcp__git__*`."""
        return ServerTools(self, tuple(names))

    def stop(self) -> None:
        """Begin to end the servers, and do not wait for them."""
        with self._lock:
            self._is_closed = True
            if self._loop and self._stopping and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._stopping.set)

    def close(self) -> None:
        self.stop()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)

    def __enter__(self) -> RunningServers:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
        async def serve() -> None:
            self._pool.start()
            await stopping.wait()
            await self._pool.close()

        try:
            loop.run_until_complete(serve())
        finally:
            with self._lock:
                left = asyncio.all_tasks(loop)
                for task in left:
                    task.cancel()
                if left:
                    loop.run_until_complete(asyncio.wait(left, timeout=1))
                loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        self.start()
        with self._lock:
            if self._loop is None or self._loop.is_closed() or self._is_closed:
                work.close()
                raise McpClosedError("The MCP servers of this session were closed.")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wrapped(self, tool: Tool) -> Tool:
        """Return the tool with a function that runs in the servers' event loop."""

        async def run(**arguments: Any) -> ToolResult:
            async def call(_: ServerPool) -> ToolResult:
                result: ToolResult = await tool.function(**arguments)
                return result

            try:
                return await self.do(call)
            except McpError as error:
                return ToolResult(str(error), is_error=True)

        return msgspec.structs.replace(tool, function=run)

    async def _elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask in the event loop that used the servers last. Decline if that has ended."""
        from outrider.mcp.elicitation import ElicitationAnswer

        loop = self._asking
        if self._on_elicit is None or loop is None or not loop.is_running():
            return ElicitationAnswer("decline")

        async def ask(ask: OnElicit) -> ElicitationAnswer:
            return await ask(question)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(self._on_elicit), loop))


class ServerTools(msgspec.Struct, frozen=True):
    """Running servers, with some of their tools."""

    servers: RunningServers
    names: tuple[str, ...]
    """Names, and patterns such as `mcp__git__*`."""
