"""What the workers of all machines share, in Postgres: batches with their budgets, the pace of requests, and leases."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outrider.batches.queue import BatchSettings
from outrider.errors import ConfigError, LogDeniedError, LogError, install_extra
from outrider.log.postgres.address import Address
from outrider.struct_types import described

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
CONNECT_SECONDS = 10
_LOCK = 0x6F757472
"""The advisory lock under which the tables are created."""
_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS outrider_batch;
CREATE TABLE IF NOT EXISTS outrider_batch.batch (
    id text PRIMARY KEY,
    name text NOT NULL,
    created bigint GENERATED ALWAYS AS IDENTITY,
    application text NOT NULL,           -- the name of the DBOS application whose executors have its tools
    settings text NOT NULL,
    budget double precision,
    spent double precision NOT NULL DEFAULT 0,
    is_open boolean NOT NULL DEFAULT true
);
CREATE INDEX IF NOT EXISTS batch_name ON outrider_batch.batch (name, created);
CREATE TABLE IF NOT EXISTS outrider_batch.pace (provider text PRIMARY KEY, next timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS outrider_batch.executor (id text PRIMARY KEY, beaten timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS outrider_batch.parked (
    workflow text PRIMARY KEY,
    batch text NOT NULL,
    questions text[] NOT NULL,           -- their ids
    deadline double precision,           -- the first one, in seconds since the epoch
    result text NOT NULL
);
CREATE INDEX IF NOT EXISTS parked_batch ON outrider_batch.parked (batch);
"""
_RESERVE = """
INSERT INTO outrider_batch.pace AS pace VALUES (%(provider)s, clock_timestamp() + %(interval)s * interval '1 second')
ON CONFLICT (provider) DO UPDATE
    SET next = greatest(pace.next, clock_timestamp()) + %(interval)s * interval '1 second'
RETURNING extract(epoch FROM next - clock_timestamp()) - %(interval)s
"""
_BLOCK = """
INSERT INTO outrider_batch.pace AS pace VALUES (%(provider)s, clock_timestamp() + %(seconds)s * interval '1 second')
ON CONFLICT (provider) DO UPDATE SET next = greatest(pace.next, excluded.next)
"""


class PostgresLedger:
    """The tables in the schema `outrider_batch`. The clock of the database decides. Safe to use from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_ready = False

    # Batches

    def insert(self, batch: str, name: str, application: str, settings: BatchSettings) -> list[str]:
        """Add a batch. Return the ids of open ones of the same name, which it replaces."""
        stored = msgspec.json.encode(settings).decode()

        def work(connection: psycopg.Connection[Any]) -> list[str]:
            with connection.transaction():
                close = "UPDATE outrider_batch.batch SET is_open = false WHERE name = %s AND is_open RETURNING id"
                replaced = [row[0] for row in connection.execute(close, (name,)).fetchall()]
                insert = "INSERT INTO outrider_batch.batch (id, name, application, settings, budget)"
                values = (batch, name, application, stored, settings.budget)
                connection.execute(f"{insert} VALUES (%s, %s, %s, %s, %s)", values)
                return replaced

        return self._do(work)

    def reopen(self, name: str, application: str, settings: BatchSettings) -> str | None:
        """Open the newest batch of a name again, with other settings. Return its id, or None if there is none."""
        stored = msgspec.json.encode(settings).decode()
        change = """
            UPDATE outrider_batch.batch SET application = %s, settings = %s, budget = %s, is_open = true
            WHERE id = (SELECT id FROM outrider_batch.batch WHERE name = %s ORDER BY created DESC LIMIT 1)
            RETURNING id
        """
        row = self._do(lambda c: c.execute(change, (application, stored, settings.budget, name)).fetchone())
        return row[0] if row else None

    def close_batch(self, batch: str) -> None:
        """Mark a batch as ended."""
        self._do(lambda c: c.execute("UPDATE outrider_batch.batch SET is_open = false WHERE id = %s", (batch,)))

    def batch(self, batch: str) -> tuple[BatchSettings, float]:
        """Return the settings of a batch, and what it has cost so far."""
        query = "SELECT settings, spent FROM outrider_batch.batch WHERE id = %s"
        row = self._do(lambda c: c.execute(query, (batch,)).fetchone())
        if row is None:
            raise LogError(f"there is no batch {batch} in this database")
        return msgspec.json.decode(row[0], type=described(BatchSettings)), row[1]

    # Sharing

    def spend(self, batch: str, dollars: float) -> None:
        change = "UPDATE outrider_batch.batch SET spent = spent + %s WHERE id = %s"
        self._do(lambda c: c.execute(change, (dollars, batch)))

    def is_spent(self, batch: str) -> bool:
        query = "SELECT 1 FROM outrider_batch.batch WHERE id = %s AND spent >= budget"
        return self._do(lambda c: c.execute(query, (batch,)).fetchone()) is not None

    def reserve(self, provider: str, interval: float) -> float:
        if interval:
            row = self._do(lambda c: c.execute(_RESERVE, {"provider": provider, "interval": interval}).fetchone())
        else:
            wait = "SELECT extract(epoch FROM next - clock_timestamp()) FROM outrider_batch.pace WHERE provider = %s"
            row = self._do(lambda c: c.execute(wait, (provider,)).fetchone())
        return max(0.0, float(row[0])) if row else 0.0

    def block(self, provider: str, seconds: float) -> None:
        self._do(lambda c: c.execute(_BLOCK, {"provider": provider, "seconds": seconds}))

    # Leases

    def new_executor(self) -> str:
        """Return an id for an executor in this process."""
        return f"{_process(os.getpid())}{os.urandom(4).hex()}"

    def register(self, executor: str) -> None:
        """Begin the lease of an executor."""
        self._do(lambda c: c.execute("INSERT INTO outrider_batch.executor VALUES (%s, clock_timestamp())", (executor,)))

    def beat(self, executor: str) -> bool:
        """Renew the lease of an executor. Return False if it was taken for dead."""
        change = "UPDATE outrider_batch.executor SET beaten = clock_timestamp() WHERE id = %s"
        return self._do(lambda c: c.execute(change, (executor,)).rowcount) == 1

    def expired(self, seconds: float) -> list[str]:
        """Return the executors that have not renewed their leases for so long."""
        query = "SELECT id FROM outrider_batch.executor WHERE beaten < clock_timestamp() - %s * interval '1 second'"
        return [row[0] for row in self._do(lambda c: c.execute(query, (seconds,)).fetchall())]

    def executors_of(self, pid: int) -> list[str]:
        """Return the executors of a process of this machine."""
        query = "SELECT id FROM outrider_batch.executor WHERE starts_with(id, %s)"
        return [row[0] for row in self.query(query, _process(pid))]

    def remove(self, executor: str, seconds: float = 0.0) -> None:
        """End the lease of an executor, unless it was renewed meanwhile."""
        since = "beaten <= clock_timestamp() - %s * interval '1 second'"
        change = f"DELETE FROM outrider_batch.executor WHERE id = %s AND {since}"
        self._do(lambda c: c.execute(change, (executor, seconds)))

    # The connection

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._do(lambda c: c.execute(statement, values).fetchall())

    def close(self) -> None:
        """Close the connection. The next use opens it again."""
        with self._lock:
            self._disconnect()

    def _do(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Do the work, once more if the connection was lost. Raises LogError.

        A single statement commits itself: a transaction around it would be two more round trips, in every task.
        """
        psycopg = import_psycopg()
        with self._lock:
            for attempt in (1, 2):
                try:
                    return work(self._connected())
                except psycopg.OperationalError as error:
                    was_connected = self._connection is not None
                    self._disconnect()
                    if attempt == 2 or not was_connected:
                        raise LogError(
                            f"the database of the batches cannot be reached: {self._reason(error)}"
                        ) from None
                except psycopg.errors.InsufficientPrivilege as error:
                    raise denied(error) from None
                except psycopg.Error as error:
                    raise LogError(f"the database of the batches refuses: {self._reason(error)}") from None
        raise AssertionError

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            psycopg = import_psycopg()
            self._connection = psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS)
            if not self._is_ready:
                self._create(self._connection)
        return self._connection

    def _create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the tables, unless they are there. A worker's role may lack the right to create any."""
        exists = "SELECT to_regclass('outrider_batch.parked') IS NOT NULL"
        row = connection.execute(exists).fetchone()
        if not (row and row[0]):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                connection.execute(_SCHEMA)
        self._is_ready = True

    def _reason(self, error: BaseException) -> str:
        """Return the first line of an error, without the password."""
        return Address(self.url).conceal(str(error).strip().split("\n")[0])

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def _process(pid: int) -> str:
    """Return how the ids of the executors of a process of this machine begin."""
    return f"{os.uname().nodename}-{pid}-"


def denied(error: BaseException) -> LogDeniedError:
    """Return the error for a right that the role does not have."""
    reason = str(error).strip().split("\n")[0]
    return LogDeniedError(f"the database refuses: {reason}; give the role the rights that docs/scale.md lists")


def import_psycopg() -> Any:
    """Return the module `psycopg`. Raises ConfigError if the extra is not installed."""
    try:
        import psycopg
    except ImportError:
        raise ConfigError(f"batches on Postgres need DBOS: {install_extra('dbos')}") from None
    return psycopg
