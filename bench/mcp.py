"""A call of an MCP tool over standard input and output, beside the Python SDK.

The rules: both clients start the same server, which has no SDK and answers with a fixed text of 2,000 bytes, in version
2026-07-28 of the protocol. Each round is a process of its own: it connects, lists the tools, warms up with 100 calls
and times calls one after the other. The clients take turns; the best round of each counts. Ours ends with what a
session gets, a `ToolResult`; theirs with the SDK's result.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure

ROUNDS, CALLS, WARM_UP = 7, 2_000, 100
HERE = Path(__file__).parent
SERVER = HERE / "peers" / "mcp_server.py"
PEER = HERE / "peers" / "mcp_sdk_client.py"
MISSING = "the Python SDK is missing: name a Python that has it in OUTRIDER_BENCH_MCP_PYTHON"


def measure() -> Iterator[Figure]:
    """The time and the CPU time of a call, each as a share of the SDK's."""
    python = peer()
    clients = {"ours": (sys.executable, "-m", "bench.mcp")} | ({"theirs": (python, str(PEER))} if python else {})
    best = dict.fromkeys(clients, (float("inf"), float("inf")))
    for _ in range(ROUNDS):
        for name, argv in clients.items():
            said = subprocess.check_output([*argv, str(SERVER), str(CALLS)], text=True).split()
            wall, cpu = best[name]
            best[name] = min(wall, float(said[0])), min(cpu, float(said[1]))
    for place, what in enumerate(("time", "CPU time of the client")):
        ours = best["ours"][place] / CALLS * 1e6
        if not python:
            yield Figure(f"a call over stdio, {what}", ours, "µs", None, MISSING)
            continue
        theirs = best["theirs"][place] / CALLS * 1e6
        detail = f"{ours:.0f} µs against {theirs:.0f}"
        yield Figure(f"a call over stdio, {what} / the Python SDK", ours / theirs, "x", 0.25, detail)


def peer() -> str:
    """A Python that has the SDK: the named one, the one of the benchmarks, or the one that the tests have made."""
    places = (HERE / ".peers" / "mcp", Path(sys.prefix) / "interop" / "mcp")
    found = [str(place / "bin" / "python") for place in places if (place / "bin" / "python").exists()]
    return os.environ.get("OUTRIDER_BENCH_MCP_PYTHON") or next(iter(found), "")


async def _call(server: str, count: int) -> None:
    """Time calls of our client, and print the seconds and the CPU seconds."""
    from outrider.mcp.client import Client
    from outrider.mcp.results import tool_result
    from outrider.mcp.servers import StdioServer

    client = Client(StdioServer("bench", sys.executable, ("-S", "-E", server)))
    await client.connect()
    try:
        await client.list_tools()
        for _ in range(WARM_UP):
            await client.call_tool("echo", {"text": "hello"})
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            result = tool_result(await client.call_tool("echo", {"text": "hello"}), "echo")
            assert len(result.text) == 2_000
        print(time.perf_counter() - wall, time.process_time() - cpu)
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(_call(sys.argv[1], int(sys.argv[2])))
