"""Runs the handlers of the client's requests and notifications."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from outrider import errors, jsonrpc
from outrider.jsonrpc import CANCELLED, METHOD_NOT_FOUND, RpcError, id_key


class Method(msgspec.Struct, frozen=True):
    """The type of a method's parameters and the function, sync or async, that handles them."""

    params: type
    run: Callable[[Any], Awaitable[Any] | Any]


class Handlers:
    """Runs requests concurrently. Requests and notifications start in the order of arrival, and each notification
    finishes before later messages start."""

    def __init__(
        self,
        requests: Mapping[str, Method],
        notifications: Mapping[str, Method],
        send: Callable[[bytes], object],
        *,
        limit: int,
    ) -> None:
        self._requests = requests
        self._notifications = notifications
        self._send = send
        self._limit = limit
        self._is_closing = False
        self._running: dict[bytes, asyncio.Task[None]] = {}
        """The requests without a response, by the keys of their ids."""
        self._cancelled: set[bytes] = set()
        self._notified: dict[asyncio.Task[None], None] = {}
        """The running notifications, in order."""

    def is_pending(self, id: bytes) -> bool:
        """Return whether a request with this id has no response yet."""
        return id_key(id) in self._running

    def start_request(self, id: bytes, name: str, raw: msgspec.Raw) -> None:
        """Run a request and send its response. Raises RpcError if it cannot start."""
        if self._is_closing:
            raise RpcError.internal("The agent is closing and takes no more requests.")
        if self.is_pending(id):
            shown = f" {id.decode()}" if len(id) <= 100 else ""
            raise RpcError.invalid_request(f"The id{shown} belongs to a request that has no response yet.")
        if len(self._running) >= self._limit:
            raise RpcError.internal(f"{self._limit:,} requests are running. Send this one again after some responses.")
        method = self._requests.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {name[:100]!r}.")
        params = _decode_params(name, raw, method)
        work = self._respond(id, name, method, params, self._last_notification())
        task = self._running[id_key(id)] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(partial(self._request_done, id))

    def start_notification(self, name: str, raw: msgspec.Raw) -> None:
        """Run a notification; ignore an unknown one."""
        method = self._notifications.get(name)
        if method is None or self._is_closing:
            return
        try:
            params = _decode_params(name, raw, method)
        except RpcError as error:
            log("%s was ignored: %s", name, error)
            return
        task = asyncio.get_running_loop().create_task(self._run(method, params, self._last_notification()))
        self._notified[task] = None
        task.add_done_callback(partial(self._notification_done, name))

    def cancel(self, id: bytes) -> None:
        """Cancel a request. A second cancel is ignored: it would interrupt the cleanup after the first."""
        key = id_key(id)
        if key in self._running and key not in self._cancelled:
            self._cancelled.add(key)
            self._running[key].cancel()

    def stop_accepting(self) -> None:
        self._is_closing = True

    def cancel_all(self) -> None:
        """Cancel all running handlers except the calling task."""
        for task in self._tasks():
            task.cancel()

    async def wait(self, seconds: float) -> None:
        """Wait until all handlers have ended, at most so many seconds."""
        tasks = self._tasks()
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def _run(self, method: Method, params: Any, after: asyncio.Task[None] | None) -> Any:
        if after:
            await asyncio.wait([after])
        result = method.run(params)
        return await result if inspect.isawaitable(result) else result

    async def _respond(
        self, id: bytes, name: str, method: Method, params: Any, after: asyncio.Task[None] | None
    ) -> None:
        try:
            line = jsonrpc.response(id, await self._run(method, params, after))
        except asyncio.CancelledError:
            line = _cancelled(id)
        except Exception as error:  # noqa: BLE001 - every request gets a response
            line = jsonrpc.error_response(id, to_rpc_error(name, error))
        self._forget(id)
        self._send(line)

    def _request_done(self, id: bytes, task: asyncio.Task[None]) -> None:
        """Send the response of a request that was cancelled before it started."""
        if self._running.get(id_key(id)) is task:
            self._forget(id)
            self._send(_cancelled(id))

    def _forget(self, id: bytes) -> None:
        key = id_key(id)
        del self._running[key]
        self._cancelled.discard(key)

    def _notification_done(self, name: str, task: asyncio.Task[None]) -> None:
        del self._notified[task]
        if not task.cancelled() and (error := task.exception()):
            log("%s failed", name, exc_info=error)

    def _last_notification(self) -> asyncio.Task[None] | None:
        return next(reversed(self._notified), None)

    def _tasks(self) -> list[asyncio.Task[None]]:
        own = _current_task()
        return [task for task in (*self._running.values(), *self._notified) if task is not own]


def log(text: str, *args: Any, exc_info: BaseException | None = None) -> None:
    """Write to the debug log, which masks keys. The import is lazy because it loads the providers."""
    from outrider.providers.debugging import logger

    logger.debug(text, *args, exc_info=exc_info)


def _decode_params(name: str, raw: msgspec.Raw, method: Method) -> Any:
    try:
        return jsonrpc.decode(raw, method.params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError.invalid_params(f"The parameters of {name} are not valid: {error}.") from None


def to_rpc_error(name: str, error: Exception) -> RpcError:
    match error:
        case RpcError():
            return error
        case errors.UnknownSessionError():
            return RpcError.not_found(str(error))
        case errors.AuthenticationError():
            return RpcError.auth_required(str(error))
        case (
            errors.ConfigError()
            | errors.UnknownModelError()
            | errors.AttachmentError()
            | errors.ConversationError()
            | errors.ToolDefinitionError()
        ):
            return RpcError.invalid_params(str(error))
        case errors.SessionBusyError() | errors.SessionHeldError():
            return RpcError.invalid_request(str(error))
        case errors.OutriderError():
            return RpcError.internal(str(error))
    log("%s failed", name, exc_info=error)
    kind = type(error).__name__
    hint = "Set OUTRIDER_DEBUG to the name of a file to log the details."
    return RpcError.internal(f"{name} failed with an unexpected error ({kind}). {hint}")


def _cancelled(id: bytes) -> bytes:
    return jsonrpc.error_response(id, RpcError(CANCELLED, "The request was cancelled."))


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # called outside of an event loop
        return None
