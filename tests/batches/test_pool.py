"""The worker processes of a batch: what is said to them arrives, also while they are being started."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from outrider.batches.pool import WorkerPool
from outrider.processes.starting import start

WORKER = """
import sys
for line in sys.stdin.buffer:
    print(line.decode().strip(), file=sys.stderr, flush=True)
    if line == b"cancel\\n":
        break
"""


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_process_that_is_being_started_hears_what_was_said(
    is_killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, said = asyncio.Event(), asyncio.Event(), list[str]()

    async def late(*arguments: object, **options: object) -> object:
        begun.set()
        await go_on.wait()
        return await start(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("outrider.batches.pool.start", late)
    pool = WorkerPool([sys.executable, "-c", WORKER], 1, said.append)
    tending = asyncio.ensure_future(pool.tend())
    await begun.wait()
    pool.cancel()
    pool.cancel()
    if is_killed:
        pool.kill()
    go_on.set()
    await tending
    async with asyncio.timeout(30):
        while not pool.has_ended or (len(said) < 2 and not is_killed):
            await pool.tend()
            await asyncio.sleep(0.01)
    await pool.close()
    assert is_killed or said == ["drain", "cancel"]
