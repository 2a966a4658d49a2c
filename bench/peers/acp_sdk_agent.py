"""An agent on the Python SDK of the protocol, to be measured beside ours. Run by the Python that has the SDK.

Without arguments it serves a client; with a number it writes so many updates of one tool call, and says on stderr how
many seconds of CPU they took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from acp.agent.connection import AgentSideConnection  # type: ignore[import-not-found, unused-ignore]
from acp.contrib.tool_calls import ToolCallTracker  # type: ignore[import-not-found, unused-ignore]
from acp.schema import InitializeResponse  # type: ignore[import-not-found, unused-ignore]

from acp import run_agent, stdio_streams  # type: ignore[import-not-found, unused-ignore]

SESSION = "0123456789abcdef0123456789abcdef"


class Agent:
    """As little as an agent can be."""

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        """Say which version is spoken."""
        return InitializeResponse(protocol_version=protocol_version)

    def on_connect(self, conn: Any) -> None:
        """Nobody is called back."""


async def updates(count: int) -> float:
    """CPU seconds for changes of one field, each through the tracker and the connection."""
    reader, writer = await stdio_streams()
    connection = AgentSideConnection(Agent(), writer, reader, listening=False)
    tracker = ToolCallTracker(id_factory=lambda: "call_0001")
    await connection.session_update(SESSION, tracker.start("call", title="Edit", kind="edit"))
    started = time.process_time()
    for number in range(count):
        await connection.session_update(SESSION, tracker.progress("call", title=f"Step {number}"))
    await writer.drain()
    return time.process_time() - started


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(asyncio.run(updates(int(sys.argv[1]))), file=sys.stderr)
    else:
        asyncio.run(run_agent(Agent()))
