"""Tool calls that go on as tasks of the server: each is polled until it ends, within limits.

In version 2025-11-25 a call asks for a task if its tool supports that, `tasks/result` returns the result, and the
server asks its questions while that request is open. Since 2026-07-28 tasks are an extension: the server decides which
call becomes one, and the answer to `tasks/get` has the questions and the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec

from outrider import jsonrpc
from outrider.errors import McpClosedError, McpError, McpTimeoutError
from outrider.jsonrpc import IncomingMessage
from outrider.mcp import protocol
from outrider.mcp.channel import CallProgress, OnProgress
from outrider.mcp.exchange import result_of
from outrider.mcp.handshake import decoded
from outrider.mcp.server_limits import Bounds
from outrider.text.visible import one_line, plain_text

_CANCEL_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_MOST_CHANGED = 16

Send: TypeAlias = Callable[[str, dict[str, Any], float | None], Awaitable[msgspec.Raw]]

LONGEST_ID: Final = 1_000
ENDED: Final = ("completed", "failed", "cancelled")
_STATUSES = ("working", "input_required", *ENDED)
_LEAST_PAUSE = 0.1  # the server cannot make the client poll faster, neither by its interval nor by notifications
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 5.0  # the first and the longest pause if the server suggests none
_REQUEST_SECONDS = 60.0
_LONGEST_MESSAGE = 2_000


class TaskServer(msgspec.Struct, frozen=True):
    """What a task needs of the client of its server."""

    name: str
    timeout: float  # seconds without progress until the call fails
    bounds: Bounds
    send: Send
    answer: Callable[[str, msgspec.Raw], Awaitable[Any]]  # answers a request of the server
    is_asking: Callable[[], bool]  # whether a person is being asked, so that the time does not run


class RunningTask:
    """A task of a server. `result` follows it to its end."""

    def __init__(self, server: TaskServer, task: protocol.Task, on_progress: OnProgress, token: str = "") -> None:
        """`token` is that of progress notifications. Raises McpError if the state is not valid."""
        if not 0 < len(task.task_id) <= LONGEST_ID:
            raise McpError(f"The MCP server {server.name} sent a task whose id has not 1 to {LONGEST_ID} characters.")
        self.id = task.task_id
        self.token = token
        self.task = task  # the state that the server told last
        self._server = server
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._began = self._moved_at = self._loop.time()
        self._woken = asyncio.Event()
        self._own_pause = _FIRST_PAUSE
        self._failure: McpError | None = None  # why the last request did not reach the server
        self._take(task)

    @property
    def is_open(self) -> bool:
        return self.task.status not in ENDED

    async def result(self) -> msgspec.Raw:
        """Poll until the task ends. Return the result of the call. Raises McpError."""
        while self.is_open:
            if (left := self._seconds_left()) <= 0:
                raise self._time_over()
            if (early := await self._attend()) is not None:
                return early
            await self._pause(min(self._interval(), left))
            await self._poll()
        if self.task.status == "cancelled":
            raise McpError(f"The MCP server {self._server.name} cancelled the task.{self._said()}")
        return await self._final()

    def progressed(self, progress: CallProgress) -> None:
        """Take a progress notification of the server: the time without progress begins again."""
        self._moved_at = self._loop.time()
        if self._on_progress:
            self._on_progress(progress)

    def wake(self) -> None:
        """Poll soon: the server says that the task has changed."""
        self._woken.set()

    def close(self) -> None:
        """Release what the task holds here."""

    async def _attend(self) -> msgspec.Raw | None:
        """Do what the server needs before the task goes on. Return the result if that brings it."""
        raise NotImplementedError

    async def _final(self) -> msgspec.Raw:
        raise NotImplementedError

    async def _poll(self) -> None:
        raw = await self._request(protocol.GET_TASK)
        if raw is None:
            return
        name = self._server.name
        task = decoded(raw, protocol.Task, name, protocol.GET_TASK)
        if task.task_id != self.id:
            raise McpError(f"The MCP server {name} answered {protocol.GET_TASK} with the state of another task.")
        if _signs(task) != _signs(self.task):
            self._moved_at = self._loop.time()
        self._take(task)

    def _take(self, task: protocol.Task) -> None:
        if task.status not in _STATUSES:
            status = one_line(task.status, 40)
            raise McpError(f"The MCP server {self._server.name} sent a task of an unknown status, {status!r}.")
        is_new = task is self.task or task.status_message != self.task.status_message
        self.task = task
        if task.status_message and is_new and self._on_progress:
            self._on_progress(CallProgress(None, message=task.status_message))

    async def _request(self, method: str, **params: Any) -> msgspec.Raw | None:
        """Send a request about the task. Return None if the connection failed: the server may still know the task."""
        seconds = min(_REQUEST_SECONDS, self._server.timeout)
        try:
            raw = await self._server.send(method, {"taskId": self.id, **params}, seconds)
        except McpClosedError as error:
            error.sent = True  # the call itself has arrived, and must not be made again
            raise
        except McpError as error:
            if not error.is_passing and not isinstance(error, McpTimeoutError):
                raise
            self._failure = error
            return None
        self._failure = None
        return raw

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(_LEAST_PAUSE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - _LEAST_PAUSE):
                await self._woken.wait()
        self._woken.clear()

    def _interval(self) -> float:
        """Return the seconds until the next poll: what the server suggests, within bounds."""
        task = self.task
        told = task.poll_interval if task.poll_interval_ms is None else task.poll_interval_ms
        if told is not None and self._failure is None:
            return min(told / 1000, self._server.bounds.poll_seconds)
        pause, self._own_pause = self._own_pause, min(self._own_pause * 2, _LONGEST_PAUSE)
        return pause

    @property
    def _lifetime(self) -> float | None:
        """Seconds from the creation of the task for which the server keeps it."""
        told = self.task.ttl if self.task.ttl_ms is None else self.task.ttl_ms
        return None if told is None else told / 1000

    def _seconds_left(self) -> float:
        now = self._loop.time()
        if self._server.is_asking():
            self._moved_at = now
        longest = self._server.bounds.task_seconds
        lifetime = longest if self._lifetime is None else min(self._lifetime, longest)
        return min(self._moved_at + self._server.timeout, self._began + lifetime) - now

    def _time_over(self) -> McpTimeoutError:
        name, seconds = self._server.name, self._server.timeout
        if self._failure:
            told = f"{self._failure} It could not be reached again, so the result of the call is unknown."
        elif self._loop.time() >= self._moved_at + seconds:
            told = (
                f"The task of the MCP server {name} made no progress within {seconds:g} seconds. "
                "If it needs more time, set its timeout."
            )
        elif self._lifetime is not None and self._lifetime < self._server.bounds.task_seconds:
            told = f"The MCP server {name} keeps the task for {self._lifetime:g} seconds, and it has not ended."
        else:
            told = f"The task of the MCP server {name} took longer than {self._server.bounds.task_seconds:g} seconds."
        return McpTimeoutError(told)

    def _said(self) -> str:
        said = plain_text(self.task.status_message or "", _LONGEST_MESSAGE)
        return f" It said: {said}" if said else ""


class ExperimentalTask(RunningTask):
    """A task of version 2025-11-25."""

    _waiting: asyncio.Task[msgspec.Raw] | None = None
    """`tasks/result` while the server has questions: it may only be able to ask them during this request."""

    def close(self) -> None:
        if self._waiting:
            self._waiting.cancel()

    async def _attend(self) -> msgspec.Raw | None:
        if self._waiting and self._waiting.done():
            waited, self._waiting = self._waiting, None
            try:
                return waited.result()
            except McpError as error:
                if error.code is not None:
                    raise
        if self.task.status == "input_required" and self._waiting is None:
            asked = asyncio.ensure_future(self._server.send(protocol.TASK_RESULT, {"taskId": self.id}, None))
            asked.add_done_callback(self._waited)
            self._waiting = asked
        return None

    def _waited(self, request: asyncio.Task[msgspec.Raw]) -> None:
        if not request.cancelled():
            request.exception()  # the poll that follows reports a lost connection
        self.wake()

    async def _final(self) -> msgspec.Raw:
        self.close()
        while (raw := await self._request(protocol.TASK_RESULT)) is None:
            if (left := self._seconds_left()) <= 0:
                raise self._time_over()
            await self._pause(min(self._interval(), left))
        return raw


class ExtensionTask(RunningTask):
    """A task of the extension since 2026-07-28."""

    def __init__(self, server: TaskServer, task: protocol.Task, on_progress: OnProgress) -> None:
        if task.status in ENDED or task.status == "input_required":  # only `tasks/get` has the rest
            told = protocol.Task(task_id=task.task_id, status="working", ttl_ms=task.ttl_ms, poll_interval_ms=0)
            task = msgspec.structs.replace(told, status_message=task.status_message)
        super().__init__(server, task, on_progress)
        self._answered: set[str] = set()
        self._unsent: dict[str, Any] = {}
        self._rounds = 0

    async def _attend(self) -> msgspec.Raw | None:
        if self.task.status == "input_required":
            await self._answer()
        if self._unsent and await self._request(protocol.UPDATE_TASK, inputResponses=self._unsent) is not None:
            self._unsent = {}
        return None

    async def _answer(self) -> None:
        """Answer the new requests one after the other: two questions at once would confuse the person."""
        asked = self.task.input_requests or {}
        new = {key: request for key, request in asked.items() if key not in self._answered}
        if not new:
            return
        self._rounds += 1
        if self._rounds > (most := self._server.bounds.rounds):
            raise McpError(f"The MCP server {self._server.name} asked for input more than {most} times in one task.")
        for key, request in new.items():
            self._unsent[key] = await self._server.answer(request.method, request.params)
            self._answered.add(key)
        self._moved_at = self._loop.time()

    async def _final(self) -> msgspec.Raw:
        name, task = self._server.name, self.task
        if task.status == "failed":
            result_of(IncomingMessage(error=task.error), protocol.CALL_TOOL, name)  # raises what the server says
            raise McpError(f"The task of the MCP server {name} failed.{self._said()}")
        if not task.result:
            raise McpError(f"The MCP server {name} completed the task without a result.")
        return task.result


def _signs(task: protocol.Task) -> tuple[str, str | None, str | None]:
    """Return the fields whose change shows that the task goes on."""
    return task.status, task.status_message, task.last_updated_at


class Tasks:
    """The tasks of one server. Every call returns its result as if there were no task."""

    def __init__(self, server: TaskServer) -> None:
        self._server = server
        self._running: set[RunningTask] = set()
        self._changed: deque[str] = deque(maxlen=_MOST_CHANGED)
        """The ids in the last notifications: one may arrive with the first answer, before its task is followed."""
        self._cancels: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    async def call(self, params: dict[str, Any], on_progress: OnProgress, *, can_cancel: bool) -> msgspec.Raw:
        """Call a tool as a task (2025-11-25). Raises McpError."""
        server = self._server
        token = f"task-{next(self._numbers)}"
        asked = {"task": {"ttl": int(server.bounds.task_seconds * 1000)}, "_meta": {"progressToken": token}}
        raw = await server.send(protocol.CALL_TOOL, {**params, **asked}, server.timeout)
        created = decoded(raw, protocol.CreateTaskResult, server.name, protocol.CALL_TOOL).task
        if created is None:  # the server has called the tool at once
            return raw
        return await self._follow(ExperimentalTask(server, created, on_progress, token), can_cancel)

    async def followed(self, raw: msgspec.Raw, on_progress: OnProgress) -> msgspec.Raw:
        """Return the result of a call, or of the task that it became (since 2026-07-28). Raises McpError."""
        name = self._server.name
        if decoded(raw, protocol.Outcome, name, protocol.CALL_TOOL).result_type != "task":
            return raw
        created = decoded(raw, protocol.Task, name, protocol.CALL_TOOL)
        return await self._follow(ExtensionTask(self._server, created, on_progress), can_cancel=True)

    def notified(self, method: str, params: msgspec.Raw) -> None:
        """Take a notification: progress of a task, or that one has changed."""
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            if method == protocol.PROGRESS:
                told = jsonrpc.decode(params, protocol.ProgressParams)
                for task in self._running:
                    if task.token and task.token == told.progress_token:
                        task.progressed(CallProgress(told.progress, told.total, told.message or ""))
            elif method == protocol.TASK_STATUS:
                changed = jsonrpc.decode(params, protocol.Task).task_id
                self._changed.append(changed[: LONGEST_ID + 1])
                for task in self._running:
                    if task.id == changed:
                        task.wake()

    async def close(self) -> None:
        """Let the cancels that are on their way arrive."""
        if self._cancels:
            await asyncio.wait(self._cancels, timeout=_CLOSE_SECONDS)

    async def _follow(self, task: RunningTask, can_cancel: bool) -> msgspec.Raw:
        self._running.add(task)
        if task.id in self._changed:
            task.wake()
        try:
            raw = await task.result()
        except (asyncio.CancelledError, McpError):
            if can_cancel and task.is_open:
                self._cancel(task)
            raise
        finally:
            self._running.discard(task)
            task.close()
        kind = decoded(raw, protocol.Outcome, self._server.name, protocol.CALL_TOOL).result_type
        if kind != "complete":
            raise McpError(f"The MCP server {self._server.name} ended a task with a result of the type {kind[:40]!r}.")
        return raw

    def _cancel(self, task: RunningTask) -> None:
        """Tell the server in the background that no one waits for the task any more."""
        sent = asyncio.get_running_loop().create_task(self._send_cancel(task.id))
        self._cancels.add(sent)
        sent.add_done_callback(self._cancels.discard)

    async def _send_cancel(self, id: str) -> None:
        with contextlib.suppress(McpError):  # it may have ended, or the server is gone
            await self._server.send(protocol.CANCEL_TASK, {"taskId": id}, _CANCEL_SECONDS)
