"""An editor on the official Python SDK: it loads a session, sends prompts, and prints what it heard as JSON.

Run by the Python that has the SDK: loading_client.py AGENT SESSION FOLDER PROMPTS, where AGENT and PROMPTS are JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from acp.schema import ClientCapabilities, Implementation

import acp


class Editor(acp.Client):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.told.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    def on_connect(self, conn: Any) -> None:
        pass


async def main(agent: list[str], session: str, folder: str, prompts: list[str]) -> None:
    editor = Editor()
    options = {"stderr": None, "limit": 16 * 1024 * 1024}
    spawned = acp.spawn_agent_process(editor, *agent, env=dict(os.environ), transport_kwargs=options)
    async with spawned as (connection, _):
        info = Implementation(name="sdk", version="1")
        await connection.initialize(acp.PROTOCOL_VERSION, ClientCapabilities(), info)
        await connection.load_session(cwd=folder, session_id=session, mcp_servers=[])
        stops = []
        for prompt in prompts:
            ended = await connection.prompt(session_id=session, prompt=[acp.text_block(prompt)])
            stops.append(ended.stop_reason)
    print(json.dumps({"stops": stops, "told": editor.told}))


asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])))
