"""Tool calls that go on as tasks of the server, in both forms of the protocol.

In version 2025-11-25 a call asks for a task if its tool supports that. Since 2026-07-28 tasks are an extension, and the
server decides which call becomes one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from typing import Any

import msgspec

from outrider import jsonrpc
from outrider.errors import McpError
from outrider.mcp.channel import Progress
from outrider.mcp.handshake import decoded
from outrider.mcp.protocol import (
    CALL_TOOL,
    CANCEL_TASK,
    PROGRESS,
    TASK_STATUS,
    CreateTaskResult,
    Outcome,
    ProgressParams,
    Task,
)
from outrider.mcp.running_task import LONGEST_ID, ExperimentalTask, ExtensionTask, OnProgress, RunningTask, TaskServer

_CANCEL_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_MOST_CHANGED = 16


class Tasks:
    """The tasks of one server. Every call returns its result as if there were no task."""

    def __init__(self, server: TaskServer) -> None:
        self._server = server
        self._running: set[RunningTask] = set()
        self._changed: deque[str] = deque(maxlen=_MOST_CHANGED)
        """The ids in the last notifications: one may arrive with the first answer, before its task is followed."""
        self._cancels: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    async def call(self, params: dict[str, Any], on_progress: OnProgress | None, *, can_cancel: bool) -> msgspec.Raw:
        """Call a tool as a task (2025-11-25). Raises McpError."""
        server = self._server
        token = f"task-{next(self._numbers)}"
        asked = {"task": {"ttl": int(server.bounds.task_seconds * 1000)}, "_meta": {"progressToken": token}}
        raw = await server.send(CALL_TOOL, {**params, **asked}, server.timeout)
        created = decoded(raw, CreateTaskResult, server.name, CALL_TOOL).task
        if created is None:  # the server has called the tool at once
            return raw
        return await self._follow(ExperimentalTask(server, created, on_progress, token), can_cancel)

    async def followed(self, raw: msgspec.Raw, on_progress: OnProgress | None) -> msgspec.Raw:
        """Return the result of a call, or of the task that it became (since 2026-07-28). Raises McpError."""
        name = self._server.name
        if decoded(raw, Outcome, name, CALL_TOOL).result_type != "task":
            return raw
        created = decoded(raw, Task, name, CALL_TOOL)
        return await self._follow(ExtensionTask(self._server, created, on_progress), can_cancel=True)

    def notified(self, method: str, params: msgspec.Raw) -> None:
        """Take a notification: progress of a task, or that one has changed."""
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            if method == PROGRESS:
                told = jsonrpc.decode(params, ProgressParams)
                for task in self._running:
                    if task.token and task.token == told.progress_token:
                        task.progressed(Progress(told.progress, told.total, told.message or ""))
            elif method == TASK_STATUS:
                changed = jsonrpc.decode(params, Task).task_id
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
        kind = decoded(raw, Outcome, self._server.name, CALL_TOOL).result_type
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
            await self._server.send(CANCEL_TASK, {"taskId": id}, _CANCEL_SECONDS)
