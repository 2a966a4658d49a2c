"""The scenes that every client plays, with the official Python SDK."""

from __future__ import annotations

import asyncio

import acp
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
from tests.interop.python_sdk_editor import Editor, connected


async def main() -> None:
    async with connected() as editor:
        report("introduced", **editor.introduced)
        demo = (await editor.open(PROJECT))["sessionId"]
        report("read", **await editor.prompt(demo, PROMPTS["read"]))
        session = (await editor.open(PROJECT))["sessionId"]
        await editor.configure(session, "model", PLAY["model"])
        await with_a_model(editor, session)
        await cancelled(editor, demo)
        await two_at_once(editor)
    await another_day(session, demo)


async def with_a_model(editor: Editor, session: str) -> None:
    editor.watch = reporting_the_first_words()
    report("streamed", **await editor.prompt(session, PROMPTS["streamed"]))
    edited = await editor.prompt(session, PROMPTS["allowed"])
    report("allowed", **edited, permissions=editor.permissions, file=notes())
    editor.answer, editor.permissions = "reject_once", []
    refused = await editor.prompt(session, PROMPTS["rejected"])
    report("rejected", **refused, permissions=editor.permissions)
    picture = acp.image_block(PLAY["picture"], "image/png")
    report("picture", **await editor.prompt(session, PROMPTS["picture"], picture))


async def cancelled(editor: Editor, session: str) -> None:
    await editor.connection.set_session_mode(session_id=session, mode_id="all")
    started = asyncio.Event()
    editor.watch = when_it_runs(started.set)
    running = asyncio.ensure_future(editor.prompt(session, PROMPTS["cancelled"]))
    await started.wait()
    await editor.connection.cancel(session_id=session)
    report("cancelled", **await running)


async def two_at_once(editor: Editor) -> None:
    opened = [(await editor.open(FOLDERS[name]))["sessionId"] for name in ("left", "right")]
    for session in opened:
        await editor.connection.set_session_mode(session_id=session, mode_id="all")
    pairs = zip(opened, ("left", "right"), strict=True)
    left, right = await asyncio.gather(*(editor.prompt(session, PROMPTS[name]) for session, name in pairs))
    report("left", **left)
    report("right", **right)


async def another_day(session: str, demo: str) -> None:
    async with connected() as editor:
        listed = await editor.connection.list_sessions(cwd=PROJECT)
        await editor.load(session, PROJECT)
        known = [each.session_id for each in listed.sessions]
        report("loaded", updates=editor.told[session], listed=known, session=session, demo=demo)
        await editor.connection.resume_session(cwd=PROJECT, session_id=demo, mcp_servers=[])
        replayed = [update["sessionUpdate"] for update in editor.told.get(demo, [])]
        report("resumed", **await editor.prompt(demo, PROMPTS["read"]), replayed=replayed)


asyncio.run(main())
