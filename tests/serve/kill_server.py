"""The app of a counting agent on a real server, in a process that can be killed: `kill_server.py FOLDER PORT`."""

from __future__ import annotations

import sys

import uvicorn

from outrider import Log
from tests.serve.clients import made
from tests.serve.counting import counting

if __name__ == "__main__":
    with Log(sys.argv[1]) as log:
        uvicorn.run(made(log, counting(0.002)), port=int(sys.argv[2]), log_level="error")
