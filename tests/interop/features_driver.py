"""What an editor can use besides turns, with the client that INTEROP_EDITOR names. features.mjs has the same scenes."""

from __future__ import annotations

import asyncio
import importlib
import os
from pathlib import Path
from typing import Any

from tests.interop.driving import PLAY, PROJECT, PROMPTS, Json, noticing, report

connected = importlib.import_module(f"tests.interop.{os.environ['INTEROP_EDITOR']}").connected
CAPABILITIES: Json = PLAY["capabilities"]
META: Json = PLAY["meta"]


async def main() -> None:
    async with connected(**CAPABILITIES) as editor:
        opened = await editor.open(PROJECT, **META)
        session = opened["sessionId"]
        report("introduced", **editor.introduced)
        await delegated(editor, session)
        await configured(editor, session, opened)
        for scene in ("long", "command", "skill"):
            report(scene, **await editor.prompt(session, PROMPTS[scene]))
        editor.answer, editor.permissions = "reject_always", []
        report("never", **await editor.prompt(session, PROMPTS["never"]), permissions=editor.permissions)
        await queued(editor, session)
        report("compact", **await editor.prompt(session, PROMPTS["compact"]))
        shown = len(editor.told[session])
        await editor.load(session, PROJECT, **META)
        report("loaded", updates=editor.told[session][shown:])
        report("whole", updates=editor.told[session])
        await editor.configure(session, "mode", "plan")
    async with connected(**CAPABILITIES) as later:
        report("reloaded", options=(await later.load(session, PROJECT, **META))["configOptions"])


async def delegated(editor: Any, session: str) -> None:
    told = await editor.prompt(session, PROMPTS["delegated"])
    shown = len(editor.told[session])
    await editor.load(session, PROJECT, **META)
    again = editor.told[session][shown:]
    report("delegated", **told, again=again, session=session, fork=await editor.fork(session, PROJECT, **META))


async def configured(editor: Any, session: str, opened: Json) -> None:
    await editor.configure(session, "model", PLAY["model"])
    effort = await editor.configure(session, "effort", "high")
    edits = await editor.configure(session, "mode", "edits")
    report("configured", first=opened["configOptions"], effort=effort, mode=edits)
    await editor.configure(session, "mode", "ask")


async def queued(editor: Any, session: str) -> None:
    await editor.configure(session, "mode", "all")
    runs, editor.watch = noticing("in_progress")
    look = asyncio.ensure_future(editor.prompt(session, PROMPTS["look"]))
    await runs.wait()
    french = asyncio.ensure_future(editor.prompt(session, PROMPTS["french"]))
    await asyncio.sleep(0)  # the prompt is sent
    await editor.configure(session, "mode", "all")  # the prompt before it was taken
    await asyncio.to_thread(Path(PROJECT, "go").touch)
    report("queued", stops=[(await look)["stop"], (await french)["stop"]])


asyncio.run(main())
