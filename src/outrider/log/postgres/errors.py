"""Errors of Postgres and of the network, as a LogError that says what to do."""

from __future__ import annotations

import asyncio

import asyncpg

from outrider.errors import DamagedLogError, LogDeniedError, LogError
from outrider.log.postgres.address import Address

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
