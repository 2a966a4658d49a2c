"""JSON-RPC 2.0 with a client: requests both ways, notifications in order, and an end that leaves nothing open.

What the other side may rely on:
- Each request is answered once, with its id as it was sent. An id that is still in use is refused with the id null, so
  that the answer to the first request stays the only one.
- Requests and notifications begin in the order of arrival; a notification is over before what came after it begins.
- `$/cancel_request` cancels what runs for a request; the answer is then -32800, or what its handler makes of it.
- Whatever a handler raises becomes an error with a sentence. Details go to the debug log, never onto the wire.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from outrider.acp import jsonrpc
from outrider.acp.handlers import Handlers, Method, log
from outrider.acp.jsonrpc import (
    AUTH_REQUIRED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    NULL,
    PARSE_ERROR,
    ClosedError,
    ErrorObject,
    IncomingMessage,
    LineSplitter,
    RpcError,
)
from outrider.text import human_size

__all__ = [
    "AUTH_REQUIRED",
    "CANCELLED",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "NOT_FOUND",
    "PARSE_ERROR",
    "ClosedError",
    "Connection",
    "Method",
    "RpcError",
]

T = TypeVar("T")

MAX_LINE = 64 * 1024 * 1024
MAX_RUNNING = 1000
"""Requests of a client at once."""
CANCEL = "$/cancel_request"
PATIENCE_SECONDS = 10.0


class Connection:
    """One client. It belongs to the loop in which it is fed. A `write` that raises OSError closes it."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        requests: Mapping[str, Method],
        notifications: Mapping[str, Method],
        *,
        max_line: int = MAX_LINE,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self._write = write
        self._lines = LineSplitter(max_line)
        self._max_line = max_line
        self._handlers = Handlers(requests, notifications, self._send, limit=max_running)
        self._asked: dict[bytes, asyncio.Future[IncomingMessage | None]] = {}
        """What the client was asked; None instead of its answer once the connection ends."""
        self._ids = itertools.count(1)
        self._ending = False
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether the client can still be asked."""
        return not self._ending

    def feed(self, data: bytes) -> None:
        """Bytes from the client, as they arrive."""
        for line in self._lines.split(data):
            if self._closed:
                return
            if line is None:
                limit = human_size(self._max_line)
                self._refuse(NULL, RpcError.invalid_request(f"A line is longer than {limit}. It was skipped."))
            elif line.strip(b" \t\r"):
                self._received(line)

    @overload
    async def request(self, method: str, params: Any, type: type[T]) -> T: ...
    @overload
    async def request(self, method: str, params: Any, type: Any) -> Any: ...
    async def request(self, method: str, params: Any, type: Any) -> Any:
        """Ask the client. Raises its error as RpcError, and ClosedError if the connection ends before the answer."""
        if self._ending:
            raise ClosedError
        number = next(self._ids)
        own = b"%d" % number
        line = jsonrpc.request(own, method, params)
        answer = self._asked[own] = asyncio.get_running_loop().create_future()
        self._send(line)
        try:
            message = await answer
        except asyncio.CancelledError:
            if self._asked.pop(own, None) is not None:  # neither answered nor closed
                self.notify(CANCEL, {"requestId": number})
            raise
        if message is None:
            raise ClosedError
        return _answer(method, message, type)

    def notify(self, method: str, params: Any) -> int:
        """Tell the client something; the bytes that it took, 0 if the connection is closed."""
        return self._send(jsonrpc.notification(method, params))

    def close(self) -> None:
        """End at once: nothing is read or written any more, handlers are cancelled, `request` raises ClosedError."""
        self._closed = True
        self._end()
        self._handlers.cancel_all()

    async def finish(self, seconds: float) -> None:
        """Begin to end: nothing is asked any more, new requests are refused, and what runs has so long to finish."""
        self._end()
        await self._handlers.wait(seconds)

    async def aclose(self, patience: float = PATIENCE_SECONDS) -> None:
        """End in good order: handlers are cancelled and answered for, new requests refused meanwhile.

        A handler that has not ended after `patience` seconds is left alone.
        """
        self._end()
        self._handlers.cancel_all()
        await self._handlers.wait(patience)
        self.close()

    def _end(self) -> None:
        self._ending = True
        self._handlers.refuse_more()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(None)
        self._asked.clear()

    def _received(self, line: bytes) -> None:
        refused = NULL
        try:
            message = jsonrpc.read(line)
            if message.is_response:
                self._settle(message)
                return
            refused = self._id_to_refuse(message)
            self._dispatch(message.called(), message)
        except RpcError as error:
            self._refuse(refused, error)

    def _dispatch(self, method: str, message: IncomingMessage) -> None:
        if message.id:
            self._handlers.begin(bytes(message.id), method, message.params)
        elif method == CANCEL:
            self._cancel(message.params)
        else:
            self._handlers.hear(method, message.params)

    def _id_to_refuse(self, message: IncomingMessage) -> bytes:
        sent = bytes(message.id)
        return sent if jsonrpc.is_id(sent) and not self._handlers.is_used(sent) else NULL

    def _cancel(self, params: msgspec.Raw) -> None:
        try:
            self._handlers.cancel(bytes(jsonrpc.decode(params, _Cancel).request_id))
        except (msgspec.DecodeError, RecursionError) as error:
            log("%s was ignored: %s", CANCEL, error)

    def _settle(self, message: IncomingMessage) -> None:
        answer = self._asked.pop(bytes(message.id), None)
        if answer and not answer.done():
            answer.set_result(message)

    def _refuse(self, id: bytes, error: RpcError) -> None:
        self._send(jsonrpc.refusal(id, error))

    def _send(self, line: bytes) -> int:
        if self._closed:
            return 0
        try:
            self._write(line)
        except OSError as error:
            log("The client cannot be written to: %s", error)
            self.close()
            return 0
        return len(line)


class _Cancel(msgspec.Struct, rename="camel"):
    request_id: msgspec.Raw


def _answer(name: str, message: IncomingMessage, wanted: Any) -> Any:
    try:
        if message.error and bytes(message.error) != NULL:
            fault = msgspec.json.decode(message.error, type=ErrorObject)
            raise RpcError(fault.code, fault.message or f"The client refused {name}.", fault.data)
        return jsonrpc.decode(message.result, wanted)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError.internal(f"The client's answer to {name} cannot be understood: {error}.") from None
