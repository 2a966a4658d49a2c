"""What a client asks and tells, and who handles it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from outrider.acp import jsonrpc
from outrider.acp.jsonrpc import CANCELLED, METHOD_NOT_FOUND, RpcError, id_key
from outrider.errors import OutriderError


class Method(msgspec.Struct, frozen=True):
    """What handles a request or a notification: a function, sync or async, of parameters of a type."""

    params: type
    run: Callable[[Any], Awaitable[Any] | Any]


class Handlers:
    """Requests run side by side. They and the notifications begin in the order in which they came, and a notification
    is over before what came after it begins."""

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
        self._ending = False
        self._running: dict[bytes, asyncio.Task[None]] = {}
        """The requests that are not answered yet, by the keys of their ids."""
        self._cancelled: set[bytes] = set()
        self._notified: dict[asyncio.Task[None], None] = {}
        """The notifications that are not over yet, in their order."""

    def is_used(self, id: bytes) -> bool:
        """Whether a request of this id waits for its answer."""
        return id_key(id) in self._running

    def begin(self, id: bytes, name: str, raw: msgspec.Raw) -> None:
        """Run a request and answer it. Raises RpcError if it cannot begin."""
        if self._ending:
            raise RpcError.internal("The agent is ending and takes no more requests.")
        if self.is_used(id):
            shown = id.decode() if len(id) <= 100 else "that it has"
            raise RpcError.invalid_request(f"A request with the id {shown} has not been answered yet.")
        if len(self._running) >= self._limit:
            raise RpcError.internal(
                f"{self._limit:,} requests are running. Send this one again when some are answered."
            )
        method = self._requests.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {name[:100]!r}.")
        params = _params(name, raw, method)
        work = self._answer(id, name, self._work, method, params, self._last_notified())
        task = self._running[id_key(id)] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(partial(self._ended, id))

    def hear(self, name: str, raw: msgspec.Raw) -> None:
        """Run a notification; one that nobody knows is ignored."""
        method = self._notifications.get(name)
        if method is None or self._ending:
            return
        try:
            params = _params(name, raw, method)
        except RpcError as error:
            log("%s was ignored: %s", name, error)
            return
        task = asyncio.get_running_loop().create_task(self._work(method, params, self._last_notified()))
        self._notified[task] = None
        task.add_done_callback(partial(self._heard, name))

    def cancel(self, id: bytes) -> None:
        """Cancel what runs for a request, once: a second time would tear what cleans up after the first."""
        key = id_key(id)
        if key in self._running and key not in self._cancelled:
            self._cancelled.add(key)
            self._running[key].cancel()

    def refuse_more(self) -> None:
        """From now on nothing begins."""
        self._ending = True

    def cancel_all(self) -> None:
        """Cancel whatever runs, but the task that asks for it."""
        for task in self._tasks():
            task.cancel()

    async def wait(self, seconds: float) -> None:
        """Until all have ended, or so long."""
        tasks = self._tasks()
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def _work(self, method: Method, params: Any, before: asyncio.Task[None] | None) -> Any:
        if before:
            await asyncio.wait([before])
        result = method.run(params)
        return await result if inspect.isawaitable(result) else result

    async def _answer(self, id: bytes, name: str, work: Callable[..., Awaitable[Any]], *args: Any) -> None:
        try:
            line = jsonrpc.response(id, await work(*args))
        except asyncio.CancelledError:
            line = _cancelled(id)
        except Exception as error:  # noqa: BLE001 - a client gets an answer whatever happened
            line = jsonrpc.refusal(id, _to_rpc_error(name, error))
        self._forget(id)
        self._send(line)

    def _ended(self, id: bytes, task: asyncio.Task[None]) -> None:
        """Answer for what was cancelled before it began."""
        if self._running.get(id_key(id)) is task:
            self._forget(id)
            self._send(_cancelled(id))

    def _forget(self, id: bytes) -> None:
        key = id_key(id)
        del self._running[key]
        self._cancelled.discard(key)

    def _heard(self, name: str, task: asyncio.Task[None]) -> None:
        del self._notified[task]
        if not task.cancelled() and (error := task.exception()):
            log("%s failed", name, exc_info=error)

    def _last_notified(self) -> asyncio.Task[None] | None:
        return next(reversed(self._notified), None)

    def _tasks(self) -> list[asyncio.Task[None]]:
        own = _current_task()
        return [task for task in (*self._running.values(), *self._notified) if task is not own]


def log(text: str, *args: Any, exc_info: BaseException | None = None) -> None:
    """For debugging. The logger masks keys; it is imported when it is needed, as it brings the providers along."""
    from outrider.providers.debugging import logger

    logger.debug(text, *args, exc_info=exc_info)


def _params(name: str, raw: msgspec.Raw, method: Method) -> Any:
    try:
        return jsonrpc.decode(raw, method.params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError.invalid_params(f"The parameters of {name} are not valid: {error}.") from None


def _to_rpc_error(name: str, error: Exception) -> RpcError:
    if isinstance(error, RpcError):
        return error
    if isinstance(error, OutriderError):
        return RpcError.internal(str(error))
    log("%s failed", name, exc_info=error)
    kind = type(error).__name__
    hint = "Set OUTRIDER_DEBUG to the name of a file to log the details."
    return RpcError.internal(f"{name} failed, and that should not have happened ({kind}). {hint}")


def _cancelled(id: bytes) -> bytes:
    return jsonrpc.refusal(id, RpcError(CANCELLED, "The request was cancelled."))


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # closed from outside of any loop
        return None
