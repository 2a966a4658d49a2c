"""A server and its children die with the process that started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mcp.starting import Pool, hostile, scripted
from tests.mcp.test_hostile_servers import is_running

ROOT = Path(__file__).parents[2]
OWNER = """
import asyncio, sys
from tests.mcp.starting import Pool, hostile
async def main():
    async with Pool(hostile("stubborn", pids=sys.argv[1])) as pool:
        print("ready", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_owner_takes_the_group_with_it(number: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(pids)], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        running = [int(pid) for pid in pids.read_text().split()]
        assert all(map(is_running, running))
        owner.send_signal(number)
        owner.wait()
        until = time.monotonic() + 60
        while any(map(is_running, running)) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(map(is_running, running))
    finally:
        owner.kill()
        owner.wait()
        assert owner.stdout is not None
        owner.stdout.close()


async def test_a_call_right_after_a_death_waits_for_the_restart(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with Pool(scripted(pid_file=str(pids))) as pool:
        for _ in range(3):
            os.kill(int(pids.read_text().split()[-1]), signal.SIGKILL)
            result = await pool.call("mcp__scripted__echo", text="hi")
            # The call may have been written before the death was seen; then it is an error, and is not repeated.
            assert result.text == "hi" or "ended (signal 9)" in result.text
            assert (await pool.call("mcp__scripted__echo", text="again")).text == "again"


async def test_a_closed_pool_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pool = Pool(hostile("normal", pids=str(pids)))
    pool.start()
    await pool.settled()
    running = [int(pid) for pid in pids.read_text().split()]
    await pool.close()
    await pool.close()
    assert not any(map(is_running, running))
    assert [each.state for each in pool.statuses()] == ["closed"]
