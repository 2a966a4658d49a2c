"""The scenes that every client plays, with the small client `acp-client`."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from tests.interop.acp_client_editor import Editor, connected
from tests.interop.driving import (
    FOLDERS,
    PLAY,
    PROJECT,
    PROMPTS,
    notes,
    report,
    reporting_the_first_words,
    when_it_runs,
)


async def main() -> None:
    async with connected() as editor:
        session = (await editor.open(PROJECT))["sessionId"]
        report("read", **await editor.prompt(session, PROMPTS["read"]))
        await editor.prompt(session, f"/model {PLAY['model']}")
        await with_a_model(editor, session)
    await another_day(session)
    await cancelled()
    await two_at_once()


async def with_a_model(editor: Editor, session: str) -> None:
    editor.watch = reporting_the_first_words()
    report("streamed", **await editor.prompt(session, PROMPTS["streamed"]))
    edited = await editor.prompt(session, PROMPTS["allowed"])
    report("allowed", **edited, permissions=editor.permissions, file=notes())
    editor.answer, editor.permissions = "reject_once", []
    report("rejected", **await editor.prompt(session, PROMPTS["rejected"]), permissions=editor.permissions)


async def another_day(session: str) -> None:
    async with connected() as editor:
        await editor.load(session, PROJECT)
        report("loaded", updates=editor.told[session])


async def cancelled() -> None:
    async with connected() as editor:
        session = (await editor.open(PROJECT))["sessionId"]
        await editor.prompt(session, "/permissions all")
        editor.watch = when_it_runs(editor.agent.cancel)
        report("cancelled", **await editor.prompt(session, PROMPTS["cancelled"]))


async def two_at_once() -> None:
    async with AsyncExitStack() as stack:
        sides = {name: await stack.enter_async_context(connected()) for name in ("left", "right")}
        await asyncio.gather(*(play_side(name, editor) for name, editor in sides.items()))


async def play_side(name: str, editor: Editor) -> None:
    session = (await editor.open(FOLDERS[name]))["sessionId"]
    await editor.prompt(session, "/permissions all")
    report(name, **await editor.prompt(session, PROMPTS[name]))


asyncio.run(main())
