"""`outrider batch` and `outrider worker` on a log in a real Postgres, as a user runs them."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from outrider import Log
from tests.cli.program import clean_environment, outrider
from tests.cli.test_batch import Program, results_in, write_tasks
from tests.modelserver import Held, ModelServer
from tests.postgres import execute, new_database, worker_role
from tests.streams import Answer

pytestmark = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with new_database(tmp_path_factory) as url:
        yield url


@asynccontextmanager
async def running_worker(folder: Path, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `outrider worker`, with a home of its own as on another machine, until it is ready."""
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outrider", "worker", "--log", url),
        cwd=folder,
        env=clean_environment() | {"OUTRIDER_HOME": str(folder / "worker"), "OUTRIDER_MODEL_LOOKUP": "off"},
        stderr=asyncio.subprocess.PIPE,
    )
    assert worker.stderr
    try:
        assert await worker.stderr.readline() == b"outrider worker: ready\n"
        yield worker
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.communicate()


@pytest.mark.long
async def test_a_worker_elsewhere_does_the_work_and_drains(tmp_path: Path, url: str) -> None:
    """`--workers 0` leaves all tasks to it. SIGTERM lets its task finish; the next worker runs the rest."""
    async with ModelServer(lambda request: Held(Answer("ok"))) as server:
        write_tasks(tmp_path, *({"id": str(n), "prompt": f"Question {n}"} for n in range(3)))
        options = ("--log", url, "--model", f"{server.url}/v1#tester", "--workers", "0")
        async with Program(tmp_path, *options) as program:
            async with running_worker(tmp_path, url) as first:
                await server.held.wait()
                first.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.3)
                assert first.returncode is None  # it waits for its task
                server.release.set()
                _, printed = await first.communicate()
            assert (first.returncode, printed.count(b": done")) == (0, 1), printed
            async with running_worker(tmp_path, url):
                code, errors = await program.ended()
    assert (code, "3 of 3 tasks finished" in errors) == (0, True), errors
    assert "DBOS" not in errors
    found = results_in(tmp_path / "results.jsonl")
    assert {id: each["status"] for id, each in found.items()} == dict.fromkeys("012", "done")  # noqa: A001
    assert len(server.requests) == 3
    listed = outrider("sessions", "--all", "--log", url, cwd=tmp_path, OUTRIDER_HOME=str(tmp_path / "home"))
    assert listed.stdout.count("Question") == 3, listed.stderr


@pytest.mark.long
async def test_a_worker_needs_only_the_rights_of_the_documentation(tmp_path: Path, url: str) -> None:
    """The owner starts batches. The first one creates the tables."""
    write_tasks(tmp_path, *({"id": str(n), "prompt": f"What is {n}+1?"} for n in range(2)))
    options = ("--log", url, "--model", "demo", "--workers")
    async with Program(tmp_path, *options, "1") as program:
        assert (await program.ended())[0] == 0
    (tmp_path / "results.jsonl").unlink()
    with worker_role(url, batches=True) as restricted:
        async with Program(tmp_path, *options, "0") as program, running_worker(tmp_path, restricted):
            code, errors = await program.ended()
        with pytest.raises(Exception, match="permission denied"):
            execute(restricted, "DELETE FROM outrider.event")
    assert code == 0, errors
    assert {each["text"] for each in results_in(tmp_path / "results.jsonl").values()} == {"1", "2"}


def test_a_worker_without_the_rights_says_so(tmp_path: Path, url: str) -> None:
    with Log(url) as log:
        log.create().close()
    with worker_role(url, batches=False) as restricted:
        ended = outrider("worker", "--log", restricted, cwd=tmp_path, OUTRIDER_HOME=str(tmp_path / "home"))
    assert (ended.returncode, "permission denied" in ended.stderr) == (1, True), ended.stderr
    assert "docs/scale.md" in ended.stderr
