"""Runs an agent for a client and writes down each line of both: `recorder.py FOLDER COMMAND…`, one file a process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

FROM_CLIENT, FROM_AGENT = b"> ", b"< "


def relay(lines: IO[bytes], to: IO[bytes], mark: bytes, record: IO[bytes]) -> None:
    for line in lines:
        record.write(mark + line)  # one write a line: the file is not buffered, and both threads append to it
        to.write(line)
        to.flush()


def main(folder: str, *command: str) -> int:
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin
    assert agent.stdout

    def ask(to: IO[bytes]) -> None:
        try:
            relay(sys.stdin.buffer, to, FROM_CLIENT, record)
            to.close()
        except BrokenPipeError:
            pass  # the agent has ended

    with (Path(folder) / f"{agent.pid}.lines").open("ab", buffering=0) as record:
        threading.Thread(target=ask, args=[agent.stdin], daemon=True).start()
        relay(agent.stdout, sys.stdout.buffer, FROM_AGENT, record)
        return agent.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
