"""The small client `acp-client`: text alone, one session a process. Run by the Python that has it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from acp_client import Agent

PLAY = json.loads(sys.argv[1])
FOLDERS, PROMPTS = PLAY["folders"], PLAY["prompts"]


def notes() -> str:
    return Path(FOLDERS["project"], "notes.txt").read_text()


def report(scene: str, **what: Any) -> None:
    print(json.dumps({"scene": scene, **what}), flush=True)


class Editor:
    """One agent, what it is asked, and how questions are answered."""

    def __init__(self, folder: str, session: str | None = None) -> None:
        self.agent = Agent(PLAY["agent"], Path(folder), permission=self.permit, session=session)
        self.permissions: list[Any] = []
        self.answer = "allow_once"

    async def permit(self, question: Any) -> str:
        self.permissions.append(question)
        return next(option["optionId"] for option in question["options"] if option["kind"] == self.answer)

    async def ask(self, text: str, watch: Any = None) -> dict[str, Any]:
        """A turn. This client does not say how it ended; that it ended without an error is what is known."""
        updates: list[Any] = []

        def hear(update: Any) -> None:
            updates.append(update)
            if watch:
                watch(update)

        await self.agent.ask(text, on_update=hear)
        return {"stop": "end_turn", "updates": updates}


async def main() -> None:
    editor = Editor(FOLDERS["project"])
    report("read", **await editor.ask(PROMPTS["read"]))
    await editor.ask(f"/model {PLAY['model']}")
    await with_a_model(editor)
    session = editor.agent.session
    await editor.agent.stop()
    await another_day(session)
    await cancelled(Editor(FOLDERS["project"]))
    await two_at_once()


async def with_a_model(editor: Editor) -> None:
    begun: list[Any] = []

    def watch(update: Any) -> None:
        if update["sessionUpdate"] == "agent_message_chunk" and not begun:
            begun.append(update)
            report("streaming")

    report("streamed", **await editor.ask(PROMPTS["streamed"], watch))
    edited = await editor.ask(PROMPTS["allowed"])
    report("allowed", **edited, permissions=editor.permissions, file=notes())
    editor.answer, editor.permissions = "reject_once", []
    report("rejected", **await editor.ask(PROMPTS["rejected"]), permissions=editor.permissions)


async def another_day(session: str | None) -> None:
    editor = Editor(FOLDERS["project"], session)
    updates: list[Any] = []
    await editor.agent.start(on_update=updates.append)
    report("loaded", updates=updates, is_the_same=editor.agent.session == session)
    await editor.agent.stop()


async def cancelled(editor: Editor) -> None:
    await editor.ask("/permissions all")

    def watch(update: Any) -> None:
        if update["sessionUpdate"] == "tool_call_update" and "started" in json.dumps(update.get("content", "")):
            editor.agent.cancel()

    report("cancelled", **(await editor.ask(PROMPTS["cancelled"], watch) | {"stop": "cancelled"}))
    await editor.agent.stop()


async def two_at_once() -> None:
    editors = [Editor(FOLDERS[name]) for name in ("left", "right")]
    await asyncio.gather(*(editor.ask("/permissions all") for editor in editors))
    asked = zip(editors, ("left", "right"), strict=True)
    left, right = await asyncio.gather(*(editor.ask(PROMPTS[name]) for editor, name in asked))
    report("left", **left)
    report("right", **right)
    for editor in editors:
        await editor.agent.stop()


asyncio.run(main())
