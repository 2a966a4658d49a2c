"""Questions of an MCP server, as forms of an editor on the official Python SDK; as elicitation.mjs."""

from __future__ import annotations

import asyncio
import json
import os

from tests.interop.driving import PROJECT, Json, report
from tests.interop.python_sdk_editor import connected


async def main() -> None:
    started = asyncio.Event()

    def watch(update: Json) -> None:
        if any("greet" in command["name"] for command in update.get("availableCommands", ())):
            started.set()

    async with connected(elicitation={"form": {}, "url": {}}) as editor:
        editor.watch = watch
        opened = await editor.open(PROJECT, [json.loads(os.environ["INTEROP_SERVER"])])
        await started.wait()  # the prompts of the server are announced when it runs
        for scene, form in (
            ("accepted", {"action": "accept", "content": {"name": "Ada", "age": 36}}),
            ("declined", {"action": "decline"}),
            ("cancelled", {"action": "cancel"}),
        ):
            editor.form, editor.forms = form, []
            report(scene, **await editor.prompt(opened["sessionId"], "Ask me."), forms=editor.forms)


asyncio.run(main())
