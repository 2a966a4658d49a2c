"""A client on the Python SDK of MCP, to be measured beside ours. Run by the Python that has the SDK.

It starts the server `argv[1]`, calls its tool `argv[2]` times, and prints the seconds and the CPU seconds of the calls.
"""

from __future__ import annotations

import asyncio
import sys
import time

from mcp.client.stdio import StdioServerParameters, stdio_client  # type: ignore[import-not-found, unused-ignore]

from mcp import Client  # type: ignore[import-not-found, unused-ignore]

WARM_UP = 100


async def main(server: str, count: int) -> None:
    """Connect, warm up, then time the calls, one after the other."""
    parameters = StdioServerParameters(command=sys.executable, args=["-S", "-E", server])
    async with Client(stdio_client(parameters)) as client:
        await client.list_tools()
        for _ in range(WARM_UP):
            await client.call_tool("echo", {"text": "hello"})
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            result = await client.call_tool("echo", {"text": "hello"})
            assert len(result.content[0].text) == 2_000
        print(time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
