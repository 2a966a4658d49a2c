"""The requests that are under way on a channel: ids, responses, progress and time-outs, whatever the transport."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Callable

import msgspec

from outrider import jsonrpc
from outrider.errors import McpClosedError, McpError, McpTimeoutError
from outrider.jsonrpc import NULL, ErrorObject, IncomingMessage, RpcError
from outrider.mcp import protocol
from outrider.mcp.channel import CallProgress, OnProgress, Params, ServerListener
from outrider.mcp.server_limits import Bounds
from outrider.struct_types import described
from outrider.text import human_size
from outrider.text.visible import plain_text

Send = Callable[[bytes], None]
"""Sends one line. May raise McpError."""

_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_TAIL = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_TAIL_BYTES = 100
_BUSY = -32000
_LONGEST_MESSAGE = 2_000
_CLOCK_STEP = 0.01  # the event loop may call a little early


class PendingRequest(msgspec.Struct, eq=False):
    """A request without an answer. `line` is what the transport sends, with a line end."""

    id: int
    line: bytes
    method: str
    timeout: float | None
    on_progress: OnProgress
    future: asyncio.Future[msgspec.Raw]
    on_hold: bool = False  # whether the request waits for a person, so that its time does not run
    progressed: int = 0
    until: float | None = None  # when the time is over, on the clock of the event loop; None if there is no limit

    def fail(self, error: McpError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Exchange:
    """Matches the messages of one server with the requests of the client. Every request ends exactly once."""

    def __init__(self, name: str, listener: ServerListener, bounds: Bounds) -> None:
        self.name = name
        self._listener = listener
        self._bounds = bounds
        self._ids = itertools.count(1)
        self._pending: dict[int, PendingRequest] = {}
        self._answers: dict[bytes, asyncio.Task[None]] = {}  # the requests of the server that are being answered, by id
        self._timer: asyncio.TimerHandle | None = None  # one timer for all requests: it is set for the earliest end
        self._strays = 0.0
        self._counted_at = 0.0

    def begin(
        self, method: str, params: Params, timeout: float | None, on_progress: OnProgress = None
    ) -> PendingRequest:
        """Register a request. The caller sends its `line`, then waits. Raises McpError if it cannot be JSON."""
        number = next(self._ids)
        if on_progress:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": number}}
        try:
            line = jsonrpc.request(b"%d" % number, method, params)
        except (TypeError, ValueError) as error:
            raise McpError(f"{method} cannot be sent to the MCP server {self.name}: {error}.") from None
        future: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        pending = self._pending[number] = PendingRequest(number, line, method, timeout, on_progress, future)
        self._restart_time(pending)
        return pending

    async def wait(self, pending: PendingRequest, send: Send) -> msgspec.Raw:
        """Return the result of a request. If it is cancelled or takes too long, `send` tells the server."""
        try:
            return await pending.future
        except (asyncio.CancelledError, McpTimeoutError) as error:
            if self._pending.pop(pending.id, None) and pending.method not in (protocol.INITIALIZE, protocol.DISCOVER):
                self._send_cancel(pending.id, error, send)
            raise
        finally:
            self.forget(pending)

    def forget(self, pending: PendingRequest) -> None:
        """Remove a request that has ended, or was not sent."""
        self._pending.pop(pending.id, None)

    def receive(self, line: bytes, send: Send) -> None:
        """Handle one message. `send` takes the answer to a server's request. Raises McpError if the server floods."""
        try:
            message = jsonrpc.parse(line)
            if message.is_response:
                self._resolve(message)
            elif message.id:
                self._start_answer(message, send)
            else:
                self._notify(message.method_name(), message.params)
        except RpcError as error:
            self._fail_unreadable(line, error)

    def skip(self, head: bytes) -> None:
        """Handle a message over the limit: fail the request that it answers, or all if that is unknown."""
        error = self.too_large()
        found = _HEAD.match(head)
        answered = (self._pending.get(int(found[1])),) if found else tuple(self._pending.values())
        for pending in filter(None, answered):
            pending.fail(error)

    def too_large(self) -> McpError:
        limit = human_size(self._bounds.message_bytes)
        return McpError(f"The MCP server {self.name} sent a message of more than {limit}. Ask it for less at once.")

    def close(self, error: McpClosedError) -> None:
        """Fail all open requests, and stop answering those of the server."""
        for pending in tuple(self._pending.values()):
            pending.fail(error)
        for task in tuple(self._answers.values()):
            task.cancel()
        if self._timer:
            self._timer.cancel()

    def _resolve(self, message: IncomingMessage) -> None:
        text = bytes(message.id)
        pending = self._pending.pop(int(text), None) if text.isdigit() and len(text) <= 18 else None
        if pending is None or pending.future.done():
            self._count_stray()
            return
        try:
            pending.future.set_result(result_of(message, pending.method, self.name))
        except McpError as error:
            pending.fail(error)

    def _notify(self, method: str, params: msgspec.Raw) -> None:
        if method == protocol.PROGRESS:
            self._progress(params)
            return
        self._count_stray()
        if method == protocol.CANCELLED:
            self._cancel_answer(params)
        else:
            self._listener.notified(method, params)

    def _progress(self, params: msgspec.Raw) -> None:
        try:
            told = jsonrpc.decode(params, protocol.ProgressParams)
        except (msgspec.DecodeError, RecursionError):
            self._count_stray()
            return
        pending = self._pending.get(told.progress_token) if isinstance(told.progress_token, int) else None
        if pending is None or pending.on_progress is None:
            self._count_stray()
            self._listener.notified(protocol.PROGRESS, params)  # of a task, perhaps
            return
        pending.progressed += 1
        if pending.progressed > self._bounds.stray_messages:
            self._count_stray()
        self._restart_time(pending)
        pending.on_progress(CallProgress(told.progress, told.total, told.message or ""))

    def _start_answer(self, message: IncomingMessage, send: Send) -> None:
        their_id, method = bytes(message.id), message.method_name()
        if method == protocol.PING:
            self._count_stray()
            send(jsonrpc.response(their_id, {}))
        elif len(self._answers) >= self._bounds.server_requests or jsonrpc.id_key(their_id) in self._answers:
            self._count_stray()
            busy = RpcError(_BUSY, "Too many requests are open. Wait for their answers.")
            send(jsonrpc.error_response(their_id, busy))
        else:
            task = asyncio.get_running_loop().create_task(self._answer(their_id, method, message.params, send))
            key = jsonrpc.id_key(their_id)
            self._answers[key] = task
            task.add_done_callback(lambda _: self._answers.pop(key, None))

    async def _answer(self, id: bytes, method: str, params: msgspec.Raw, send: Send) -> None:
        try:
            line = jsonrpc.response(id, await self._listener.answer(method, params))
        except McpError as error:
            code = protocol.METHOD_NOT_FOUND if error.code is None else error.code
            line = jsonrpc.error_response(id, RpcError(code, str(error), error.data))
        except Exception as error:  # noqa: BLE001 - a front end failed to ask; the server must not wait forever
            line = jsonrpc.error_response(id, RpcError.internal(f"{method} failed: {type(error).__name__}"))
        for pending in self._pending.values():  # the server's time begins again
            self._restart_time(pending)
        with contextlib.suppress(McpError):  # the channel has ended, and everyone else learns it there
            send(line)

    def _cancel_answer(self, params: msgspec.Raw) -> None:
        with contextlib.suppress(ValueError, RecursionError):
            key = jsonrpc.id_key(bytes(jsonrpc.decode(params, protocol.CancelledParams).request_id))
            if task := self._answers.get(key):
                task.cancel()

    def _restart_time(self, pending: PendingRequest) -> None:
        if pending.timeout is not None:
            loop = asyncio.get_running_loop()
            pending.until = loop.time() + pending.timeout
            if self._timer is None or pending.until < self._timer.when():
                self._set_timer(loop, pending.until)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._check_times)

    def _check_times(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        now = loop.time() + _CLOCK_STEP
        for pending in tuple(self._pending.values()):
            if pending.until is not None and pending.until <= now:
                self._time_over(pending)
        ends = [each.until for each in self._pending.values() if each.until is not None and not each.future.done()]
        if ends:
            self._set_timer(loop, min(ends))

    def _time_over(self, pending: PendingRequest) -> None:
        if self._answers or pending.on_hold:  # the server waits for us, perhaps for a person
            self._restart_time(pending)
            return
        setting = "startup_timeout" if pending.method in (protocol.INITIALIZE, protocol.DISCOVER) else "timeout"
        pending.fail(
            McpTimeoutError(
                f"The MCP server {self.name} did not answer {pending.method} within {pending.timeout:g} seconds. "
                f"If it needs more time, set its {setting}."
            )
        )

    def _send_cancel(self, id: int, error: BaseException, send: Send) -> None:
        reason = "The time is over." if isinstance(error, McpTimeoutError) else "The user cancelled the request."
        with contextlib.suppress(McpError):  # the channel has ended, so nothing is left to cancel
            send(jsonrpc.notification(protocol.CANCELLED, {"requestId": id, "reason": reason}))

    def _fail_unreadable(self, line: bytes, error: RpcError) -> None:
        """Fail the request that an unreadable line answers. Other lines, such as debug prints, are ignored."""
        found = _HEAD.match(line) or _TAIL.search(line[-_TAIL_BYTES:])
        pending = self._pending.get(int(found[1])) if found else None
        if pending:
            pending.fail(McpError(f"The MCP server {self.name} sent an invalid answer to {pending.method}: {error}"))
        self._count_stray()

    def _count_stray(self) -> None:
        """Count a message that answers nothing. They are forgotten at a steady rate: a heartbeat is not a flood."""
        now = asyncio.get_running_loop().time()
        forgotten = (now - self._counted_at) * self._bounds.stray_rate
        self._strays = max(0.0, self._strays - forgotten) + 1
        self._counted_at = now
        if self._strays > self._bounds.stray_messages:
            raise McpError(f"The MCP server {self.name} sent too many messages that answer nothing.")


def result_of(message: IncomingMessage, method: str, name: str) -> msgspec.Raw:
    if not message.error or bytes(message.error) == NULL:
        return message.result
    try:
        error = msgspec.json.decode(message.error, type=described(ErrorObject))
    except (msgspec.DecodeError, RecursionError):
        raise McpError(f"The MCP server {name} refused {method} with an invalid error.", code=0) from None
    said = plain_text(error.message, _LONGEST_MESSAGE) or f"error {error.code}"
    raise McpError(f"The MCP server {name} refused {method}: {said}", code=error.code, data=error.data)
