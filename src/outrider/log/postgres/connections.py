"""An event loop in a thread of its own, connections to Postgres that live in it, and what their errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import asyncpg

from outrider.errors import DamagedLogError, LogDeniedError, LogError
from outrider.log.postgres.address import Address
from outrider.log.postgres.schema import MIGRATIONS, SCHEMA, Connection, migrate, version_of

BROKEN = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""Errors of a connection or of a server that restarts or fails over. What was sent may have been done."""
COLLISION = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""Errors of a transaction that was undone and can be repeated."""
T = TypeVar("T")
CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 60.0
"""The longest wait for an answer. Without an answer the connection counts as broken: a cut network sends no error."""
RETRY_SECONDS = 30.0
"""How long to try again after a connection broke: Postgres may be restarting."""
WRITER_SETTINGS = {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}
"""Of connections that append. They must find a session by the index, however few there were when it was planned."""
PAUSES = (0.02, 0.1, 0.3, 1.0)
"""The waits between attempts; the last one repeats."""


def explain(error: BaseException, address: Address) -> LogError:
    """Return an error as a LogError, without the password."""
    if isinstance(error, LogError):
        return error
    reason = address.conceal(" ".join(str(error).split()) or type(error).__name__)
    return _kind(error)(f"the log {address} cannot be used: {reason}{_advice(error)}")


def _kind(error: BaseException) -> type[LogError]:
    match error:
        case asyncpg.DataCorruptedError():
            return DamagedLogError
        case asyncpg.InsufficientPrivilegeError():
            return LogDeniedError
    return LogError


def _advice(error: BaseException) -> str:
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return "; give the password in OUTRIDER_LOG, PGPASSWORD or a password file (~/.pgpass)"
        case asyncpg.InvalidCatalogNameError():
            return "; create it with `createdb`"
        case asyncpg.InsufficientPrivilegeError():
            return "; give the role the rights that docs/scale.md lists"
        case asyncpg.DiskFullError():
            return "; free some space there and continue: nothing is lost"
        case asyncpg.ReadOnlySQLTransactionError():
            return "; the server is a copy: add target_session_attrs=read-write to the URL"
        case OSError() | asyncio.TimeoutError():
            return "; check that Postgres runs there and that this machine may reach it"
    return ""


class Use(Protocol):
    """Runs work on a connection, again if the connection breaks."""

    def __call__(self, work: Callable[[Connection], Coroutine[Any, Any, T]], /) -> T: ...


class LoopThread:
    """Runs coroutines in an event loop of its own. The first use starts the thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a finalizer may run anywhere
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        """The thread that was stopped last. The next one waits for its end: both use the same connections, and asyncpg
        ends the process with a segmentation fault if a connection is used in two threads."""

    @property
    def may_wait(self) -> bool:
        """Whether the caller can wait for the thread: it is another one, also than the one that is being stopped."""
        return threading.current_thread() not in (self._thread, self._ending)

    @property
    def is_of_this_process(self) -> bool:
        """Whether the process has not forked since."""
        return self._process == os.getpid()

    def check_process(self) -> None:
        """Raise LogError in a process that was forked."""
        if not self.is_of_this_process:
            raise LogError("this Log was created before the process forked; create a new Log in the child process")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result."""
        try:
            with self._running() as loop:
                future = asyncio.run_coroutine_threadsafe(work, loop)
            return future.result()
        finally:
            work.close()  # if it could not be started

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the thread soon. Safe in finalizers."""
        with self._running() as loop:
            loop.call_soon_threadsafe(function, *arguments)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]], seconds: float | None = None) -> None:
        """Run a last coroutine and end the thread. The next use starts another."""
        if not self.is_of_this_process:
            return
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None:
                return
            self._loop, self._thread, self._ending = None, None, thread
            asyncio.run_coroutine_threadsafe(_end(loop, last, seconds), loop)
        if thread is not threading.current_thread():  # or a finalizer runs there: it cannot wait for itself
            thread.join()

    @contextlib.contextmanager
    def _running(self) -> Iterator[asyncio.AbstractEventLoop]:
        """Return the loop. What is queued in the block is done before the thread ends."""
        self.check_process()  # before the lock: a thread of the parent process may have held it
        with self._lock:
            if self._loop is None:
                self._start()
            assert self._loop
            yield self._loop

    def _start(self) -> None:
        loop = asyncio.new_event_loop()
        if self._loop is not None:  # a finalizer has started it
            loop.close()
            return
        self._loop = loop
        self._thread = threading.Thread(target=_serve, args=(loop, self._ending), name="outrider-log", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            loop.close()
            self._loop = self._thread = None
            raise LogError(f"the log cannot be used: {error}") from None


def _serve(loop: asyncio.AbstractEventLoop, before: threading.Thread | None) -> None:
    if before:
        before.join()
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end(
    loop: asyncio.AbstractEventLoop, last: Callable[[], Coroutine[Any, Any, None]], seconds: float | None
) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(seconds):
            await last()
    loop.stop()


class Database:
    """What the connections of one log have in common: the address, and the version of the tables."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_current = False
        """Whether the tables were seen in the version of this program."""
        self.was_reached = False
        """Whether a connection was made before: then Postgres may be restarting, and waiting makes sense."""
        self.is_open: bool | None = None
        """Whether the server asks nobody for a password, over the network. None before the first connection."""

    async def connect(self, settings: Mapping[str, str], seconds: float | None = COMMAND_SECONDS) -> Connection:
        """Return a new connection, which waits for answers for so many seconds, or for as long as it takes."""
        address = self.address
        connection: Connection = await asyncpg.connect(
            address.url,
            password=address.password,
            timeout=CONNECT_SECONDS,
            command_timeout=seconds,
            server_settings={"application_name": "outrider", "search_path": SCHEMA, **settings},
        )
        try:
            durable = "SELECT set_config('synchronous_commit', 'on', false)"
            await connection.execute(f"{durable} WHERE current_setting('synchronous_commit') = 'off'")
            if self.is_open is None:
                self.is_open = await _is_open(connection, address)
        except BaseException:
            connection.terminate()
            raise
        self.was_reached = True
        return connection

    async def exists(self, connection: Connection) -> bool:
        """Return whether there is a log. Upgrade it if it is old."""
        if await version_of(connection) == 0:
            return False
        await self.prepare(connection)
        return True

    async def prepare(self, connection: Connection) -> None:
        """Create the tables, or bring them to this version."""
        if not self.is_current:
            if await version_of(connection) < len(MIGRATIONS):
                await migrate(connection)
            self.is_current = True


async def _is_open(connection: Connection, address: Address) -> bool:
    """Return whether the server let us in over TCP without authentication. Before Postgres 16 it does not say how."""
    if not await connection.fetchval("SELECT inet_server_addr() IS NOT NULL"):
        return False
    if connection.get_server_version().major >= 16:
        return bool(await connection.fetchval("SELECT system_user IS NULL"))
    return not address.has_password


class SteadyConnection:
    """One connection, made again when it broke. Used by one caller at a time."""

    def __init__(self, database: Database, **settings: str) -> None:
        self._database, self._settings = database, settings
        self._connection: Connection | None = None
        self._lock: asyncio.Lock | None = None

    async def use(self, work: Callable[[Connection], Coroutine[Any, Any, T]], *, seconds: float | None = None) -> T:
        """Run work with the connection, again and again while the connection breaks. Raise LogError.

        The work is repeated as a whole. It must find out itself whether an earlier attempt was done.
        """
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            clock = asyncio.get_running_loop().time
            deadline = clock() + (RETRY_SECONDS if seconds is None else seconds)
            attempt = 0
            while True:
                try:
                    return await work(await self._connected())
                except (*BROKEN, *COLLISION) as error:
                    if not isinstance(error, COLLISION):
                        self._drop()
                    pause = PAUSES[min(attempt, len(PAUSES) - 1)]
                    is_known = self._database.was_reached or isinstance(error, asyncpg.CannotConnectNowError)
                    if not is_known or clock() + pause > deadline:
                        raise explain(error, self._database.address) from None
                except Exception as error:  # noqa: BLE001 - whatever asyncpg raises is told as a LogError
                    raise explain(error, self._database.address) from None
                except BaseException:
                    self._drop()  # cancelled: an answer may be under way
                    raise
                attempt += 1
                await asyncio.sleep(pause)

    async def close(self) -> None:
        """Disconnect. The next use connects again."""
        connection, self._connection, self._lock = self._connection, None, None
        if connection is not None:
            try:
                await connection.close(timeout=2)
            except Exception:  # noqa: BLE001 - it is gone already
                connection.terminate()

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect(self._settings)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def terminate(connection: Connection) -> None:
    """Disconnect without waiting. The event loop of the connection may be closed."""
    transport: Any = getattr(connection, "_transport", None)
    try:
        connection.terminate()
    except RuntimeError:
        # A closed loop cannot call the transport any more, which would leave its socket open and warn about it.
        # TLS is a transport on another, which has the socket.
        socket = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
        with contextlib.suppress(AttributeError, RuntimeError):
            socket._call_connection_lost(None)
