"""A process that looks into its own log keeps SQLite's locks on it: otherwise the next process to come pulls the shared
memory away from under it, and it dies of SIGBUS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from outrider.log.log import Log
from outrider.log.sqlite import wal

WORKER = """
import asyncio, sys
from outrider import Agent, Session
from outrider.log.log import Log

async def main():
    log = Log(sys.argv[1])
    session = Session.open(log, agent=Agent(model="demo")).now()
    await session.run("What is 2+2?")
    log.sessions()
    print("ready", flush=True)
    for _ in range(200):
        log.sessions(1)
        await session.run("What is 2+2?")

asyncio.run(main())
"""


def test_a_process_survives_others_that_open_and_close_the_log(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    with worker, worker.stdout as answers:
        assert answers.readline() == "ready\n"
        while worker.poll() is None:
            with Log(tmp_path) as log:
                log.sessions(1)
        assert worker.returncode == 0


def test_the_descriptors_of_logs_that_are_gone_are_closed(tmp_path: Path) -> None:

    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert wal.peek(path, 2, offset=1) == b"bc"
    assert wal.peek(path, 9) == b"abc"
    kept = len(wal._kept)
    path.unlink()
    path.write_bytes(b"new")
    assert wal.peek(path, 9) == b"new"
    assert len(wal._kept) <= kept
