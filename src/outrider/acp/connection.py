"""A JSON-RPC 2.0 connection with a client: requests in both directions, and notifications.

Guarantees for the client:
- Each request gets one response, with its id as it was sent. If an id is in use already, the error has the id null, so
  that the first request still gets exactly one response.
- Requests and notifications start in the order of arrival; a notification finishes before later messages start.
- `$/cancel_request` cancels a request; the response is then the error -32800, or what its handler returns.
- Every exception of a handler becomes an error with a message. Details go to the debug log, never to the client.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from outrider import jsonrpc
from outrider.acp.handlers import Handlers, Method, log
from outrider.jsonrpc import INTERNAL_ERROR, NULL, ErrorObject, IncomingMessage, LineSplitter, RpcError
from outrider.struct_types import described
from outrider.text import human_size

T = TypeVar("T")

MAX_LINE = 64 * 1024 * 1024
MAX_RUNNING = 1000
"""Concurrent requests of a client."""
CANCEL = "$/cancel_request"
CLOSE_TIMEOUT = 10.0


class ClosedError(RpcError, ConnectionResetError):
    """The connection to the client is closed."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "The connection to the client is closed.")


class Connection:
    """One client. Use it only in the event loop that feeds it. If `write` raises OSError, the connection closes."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        requests: Mapping[str, Method],
        notifications: Mapping[str, Method],
        *,
        max_line: int = MAX_LINE,
        max_running: int = MAX_RUNNING,
        cancel: str = CANCEL,
    ) -> None:
        """`cancel` is the notification that cancels a request, in both directions."""
        self._write = write
        self._cancel_method = cancel
        self._lines = LineSplitter(max_line)
        self._max_line = max_line
        self._handlers = Handlers(requests, notifications, self._send, limit=max_running)
        self._pending: dict[bytes, asyncio.Future[IncomingMessage | None]] = {}
        """The agent's requests by id. The result is the response, or None if the connection closes first."""
        self._ids = itertools.count(1)
        self._is_closing = False
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent to the client."""
        return not self._is_closing

    def feed(self, data: bytes) -> None:
        for line in self._lines.split(data):
            if self._is_closed:
                return
            if line is None:
                limit = human_size(self._max_line)
                self._send_error(NULL, RpcError.invalid_request(f"A line is longer than {limit}. It was skipped."))
            elif line.strip(b" \t\r"):
                self._handle_line(line)

    @overload
    async def request(self, method: str, params: Any, type: type[T]) -> T: ...
    @overload
    async def request(self, method: str, params: Any, type: Any) -> Any: ...
    async def request(self, method: str, params: Any, type: Any) -> Any:
        """Send a request and return its result. Raises RpcError, and ClosedError if the connection closes first."""
        if self._is_closing:
            raise ClosedError
        number = next(self._ids)
        own_id = b"%d" % number
        line = jsonrpc.request(own_id, method, params)
        response = self._pending[own_id] = asyncio.get_running_loop().create_future()
        self._send(line)
        try:
            message = await response
        except asyncio.CancelledError:
            if self._pending.pop(own_id, None) is not None:  # no response yet, and not closed
                self.notify(self._cancel_method, {"requestId": number})
            raise
        if message is None:
            raise ClosedError
        return _decode_result(method, message, type)

    def notify(self, method: str, params: Any) -> int:
        """Send a notification. Return its size in bytes, or 0 if the connection is closed."""
        return self._send(jsonrpc.notification(method, params))

    def close(self) -> None:
        """Close at once: stop reading and writing, cancel handlers, and let `request` raise ClosedError."""
        self._is_closed = True
        self._start_closing()
        self._handlers.cancel_all()

    async def finish(self, seconds: float) -> None:
        """Start to close: refuse new requests in both directions, and give running handlers so many seconds."""
        self._start_closing()
        await self._handlers.wait(seconds)

    async def aclose(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Refuse requests, cancel the handlers, send their responses for at most `timeout` seconds, and close."""
        self._start_closing()
        self._handlers.cancel_all()
        await self._handlers.wait(timeout)
        self.close()

    def _start_closing(self) -> None:
        self._is_closing = True
        self._handlers.stop_accepting()
        for response in self._pending.values():
            if not response.done():
                response.set_result(None)
        self._pending.clear()

    def _handle_line(self, line: bytes) -> None:
        error_id = NULL
        try:
            message = jsonrpc.parse(line)
            if message.is_response:
                self._resolve(message)
                return
            error_id = self._error_id(message)
            self._dispatch(message.method_name(), message)
        except RpcError as error:
            self._send_error(error_id, error)

    def _dispatch(self, method: str, message: IncomingMessage) -> None:
        if message.id:
            self._handlers.start_request(bytes(message.id), method, message.params)
        elif method == self._cancel_method:
            self._cancel(message.params)
        else:
            self._handlers.start_notification(method, message.params)

    def _error_id(self, message: IncomingMessage) -> bytes:
        """Return the id for an error response: the message's id, or null if that is invalid or in use."""
        sent = bytes(message.id)
        return sent if jsonrpc.is_id(sent) and not self._handlers.is_pending(sent) else NULL

    def _cancel(self, params: msgspec.Raw) -> None:
        try:
            self._handlers.cancel(bytes(jsonrpc.decode(params, _CancelParams).request_id))
        except (msgspec.DecodeError, RecursionError) as error:
            log("%s was ignored: %s", CANCEL, error)

    def _resolve(self, message: IncomingMessage) -> None:
        response = self._pending.pop(bytes(message.id), None)
        if response and not response.done():
            response.set_result(message)

    def _send_error(self, id: bytes, error: RpcError) -> None:
        self._send(jsonrpc.error_response(id, error))

    def _send(self, line: bytes) -> int:
        if self._is_closed:
            return 0
        try:
            self._write(line)
        except OSError as error:
            log("Writing to the client failed: %s", error)
            self.close()
            return 0
        return len(line)


class _CancelParams(msgspec.Struct, rename="camel"):
    request_id: msgspec.Raw


def _decode_result(name: str, message: IncomingMessage, type: Any) -> Any:
    try:
        if message.error and bytes(message.error) != NULL:
            error = msgspec.json.decode(message.error, type=described(ErrorObject))
            raise RpcError(error.code, error.message or f"The client refused {name}.", error.data)
        return jsonrpc.decode(message.result, type)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise RpcError.internal(f"The client's response to {name} is not valid: {problem}.") from None
