"""The official Python SDK as a client that offers the agent nothing of its own. Run by the Python that has it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp.schema import AllowedOutcome, ClientCapabilities, Implementation, RequestPermissionResponse

import acp

PLAY = json.loads(sys.argv[1])
FOLDERS, PROMPTS = PLAY["folders"], PLAY["prompts"]


def notes() -> str:
    return Path(FOLDERS["project"], "notes.txt").read_text()


def report(scene: str, **what: Any) -> None:
    print(json.dumps({"scene": scene, **what}), flush=True)


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Editor(acp.Client):
    """What it was told, by session, and how it answers questions."""

    def __init__(self) -> None:
        self.told: dict[str, list[Any]] = {}
        self.permissions: list[Any] = []
        self.answer = "allow_once"
        self.watch: Any = lambda update: None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.told.setdefault(session_id, []).append(plain(update))
        self.watch(plain(update))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.permissions.append({"toolCall": plain(tool_call), "options": [plain(option) for option in options]})
        option = next(option for option in options if option.kind == self.answer)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))

    def on_connect(self, conn: Any) -> None:
        pass


@asynccontextmanager
async def connected(editor: Editor) -> Any:
    options = {"stderr": None, "limit": 16 * 1024 * 1024}
    agent = acp.spawn_agent_process(editor, *PLAY["agent"], env=dict(os.environ), transport_kwargs=options)
    async with agent as (connection, _):
        info = Implementation(name="interop", version="1")
        hello = await connection.initialize(acp.PROTOCOL_VERSION, ClientCapabilities(), info)
        yield connection, hello


async def prompt(editor: Editor, connection: Any, session: str, *blocks: Any) -> dict[str, Any]:
    before = len(editor.told.get(session, []))
    said = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
    ended = await connection.prompt(session_id=session, prompt=said)
    return {"stop": ended.stop_reason, "updates": editor.told[session][before:]}


async def main() -> None:
    editor = Editor()
    async with connected(editor) as (connection, hello):
        report("introduced", **plain(hello))
        demo = (await connection.new_session(cwd=FOLDERS["project"])).session_id
        report("read", **await prompt(editor, connection, demo, PROMPTS["read"]))
        session = (await connection.new_session(cwd=FOLDERS["project"])).session_id
        await connection.set_config_option(config_id="model", session_id=session, value=PLAY["model"])
        await with_a_model(editor, connection, session)
        await cancelled(editor, connection, demo)
        await two_at_once(editor, connection)
    await another_day(session, demo)


async def with_a_model(editor: Editor, connection: Any, session: str) -> None:
    def watch(update: Any) -> None:
        if update["sessionUpdate"] == "agent_message_chunk":
            editor.watch = lambda update: None
            report("streaming")

    editor.watch = watch
    report("streamed", **await prompt(editor, connection, session, PROMPTS["streamed"]))
    edited = await prompt(editor, connection, session, PROMPTS["allowed"])
    report("allowed", **edited, permissions=editor.permissions, file=notes())
    editor.answer, editor.permissions = "reject_once", []
    refused = await prompt(editor, connection, session, PROMPTS["rejected"])
    report("rejected", **refused, permissions=editor.permissions)
    picture = acp.image_block(PLAY["picture"], "image/png")
    report("picture", **await prompt(editor, connection, session, PROMPTS["picture"], picture))


async def cancelled(editor: Editor, connection: Any, session: str) -> None:
    await connection.set_session_mode(session_id=session, mode_id="all")
    started = asyncio.Event()

    def watch(update: Any) -> None:
        if update["sessionUpdate"] == "tool_call_update" and "started" in json.dumps(update.get("content", "")):
            started.set()

    editor.watch = watch
    running = asyncio.ensure_future(prompt(editor, connection, session, PROMPTS["cancelled"]))
    await started.wait()
    await connection.cancel(session_id=session)
    report("cancelled", **await running)


async def two_at_once(editor: Editor, connection: Any) -> None:
    opened = [(await connection.new_session(cwd=FOLDERS[name])).session_id for name in ("left", "right")]
    for session in opened:
        await connection.set_session_mode(session_id=session, mode_id="all")
    turns = (
        prompt(editor, connection, session, PROMPTS[name])
        for session, name in zip(opened, ("left", "right"), strict=True)
    )
    left, right = await asyncio.gather(*turns)
    report("left", **left)
    report("right", **right)


async def another_day(session: str, demo: str) -> None:
    editor = Editor()
    async with connected(editor) as (connection, _):
        listed = await connection.list_sessions(cwd=FOLDERS["project"])
        await connection.load_session(cwd=FOLDERS["project"], session_id=session, mcp_servers=[])
        known = [each.session_id for each in listed.sessions]
        report("loaded", updates=editor.told[session], listed=known, session=session, demo=demo)
        await connection.resume_session(cwd=FOLDERS["project"], session_id=demo, mcp_servers=[])
        replayed = [update["sessionUpdate"] for update in editor.told.get(demo, [])]
        report("resumed", **await prompt(editor, connection, demo, PROMPTS["read"]), replayed=replayed)


asyncio.run(main())
