"""Workers, Postgres and the network fail while a batch runs on DBOS: each result comes once, no effect twice."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.batches.proxy import Proxy
from tests.batches.trial import LEASE, Trial
from tests.lengths import only_long
from tests.postgres import own_server

pytestmark = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")


@pytest.mark.parametrize(("tasks", "workers", "kills", "database_kills"), only_long((1_000, 4, 40, 3)))
@pytest.mark.timeout(600)
async def test_results_and_effects_come_once_though_everything_fails(
    tmp_path: Path, tasks: int, workers: int, kills: int, database_kills: int
) -> None:
    with own_server() as server:
        async with Proxy(server.port) as proxy:

            async def kill_database() -> None:
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(server.start)

            async def cut_network() -> None:
                await proxy.cut(LEASE * 1.3)

            url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
            trial = Trial(tmp_path, url, tasks, workers, queue=url)
            await trial.run(kills, 11, *[kill_database] * database_kills, cut_network)
            assert trial.kills > 0
            trial.judge()
