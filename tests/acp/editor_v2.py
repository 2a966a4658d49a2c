"""An editor that speaks the draft of version 2: the real program, each message held against its own definition."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.acp.editor import Editor, Handler, Json
from tests.acp.official import check, definition_of
from tests.acp.seen_v2 import SeenV2
from tests.cli.program import clean_environment, start


class EditorV2(Editor):
    """Both directions of one connection. What it says itself is held against the schema as well."""

    def __init__(self, process: subprocess.Popen[bytes], handlers: dict[str, Handler] | None = None) -> None:
        super().__init__(process, handlers)
        self.seen_sessions: dict[str, SeenV2] = {}
        self.errors: list[Json] = []

    async def introduce(self) -> Json:
        """Introduce itself, and offer version 2."""
        introduced: Json = await self.ask("initialize", protocolVersion=2, info={"name": "tests", "version": "1"})
        return introduced

    def begin(self, method: str, params: Json) -> int:
        if self.is_honest:
            check(definition_of("agent", method, "params", 2), params, 2)
        return super().begin(method, params)

    is_honest = True
    """Whether only what the protocol has is asked."""

    async def open(self, folder: Path) -> str:
        """A new session in a folder; its id."""
        return str((await self.ask("session/new", cwd=str(folder)))["sessionId"])

    async def resume(self, session: str, folder: Path, *, replay: bool = True) -> Json:
        """A session that was, with all that was said in it."""
        cursor = {"replayFrom": {"type": "start"}} if replay else {}
        resumed: Json = await self.ask("session/resume", sessionId=session, cwd=str(folder), **cursor)
        return resumed

    async def prompted(self, session: str, *said: str | Json) -> str:
        """Say something, and wait for the end of the work; how that ended."""
        screen = self.screen(session)
        before = len(screen.stops)
        await self.answer(self.say(session, *said))
        await self.until(lambda: len(screen.stops) > before, "the end of the work")
        return screen.stops[-1]

    def screen(self, session: str) -> SeenV2:
        """What was told of a session so far."""
        return self.seen_sessions.setdefault(session, SeenV2())

    def _take(self, message: Json) -> None:
        self.received.append(message)
        assert message["jsonrpc"] == "2.0"
        if "method" not in message:
            self._take_answer(message)
            return
        params = message["params"]
        check(definition_of("client", message["method"], "params", 2), params, 2)
        if "id" in message:
            self.asked.append(message)
            self._question(params)
            task = asyncio.ensure_future(self._respond(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif message["method"] == "session/update":
            self.screen(params["sessionId"]).take(params["update"])

    def _question(self, params: Json) -> None:
        """What is asked about is known, and said nothing new of."""
        subject, screen = params["subject"], self.screen(params["sessionId"])
        call = subject["toolCall"] if subject["type"] == "tool_call" else {"toolCallId": subject["toolCallId"]}
        assert list(call) == ["toolCallId"]
        assert screen.calls[call["toolCallId"]]["status"] == "pending"

    def _take_answer(self, message: Json) -> None:
        if "error" in message:
            check("Error", message["error"], 2)
            self.errors.append(message["error"])
        elif message["id"] is not None:
            check(definition_of("agent", self._methods[message["id"]], "result", 2), message["result"], 2)
        assert message["id"] not in self._answers, "a second answer"
        self._answers[message["id"]] = message


@asynccontextmanager
async def speaking(
    *arguments: str, handlers: dict[str, Handler] | None = None, **environment: str
) -> AsyncIterator[EditorV2]:
    """The agent while it runs, not introduced yet. It does not outlive the block, in which nothing may be amiss."""
    process = start(
        "acp",
        *arguments,
        env=clean_environment() | {"OUTRIDER_MODEL": "demo"} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    editor = EditorV2(process, handlers)
    await editor.connect()
    try:
        yield editor
        if editor.broken and not isinstance(editor.broken, asyncio.CancelledError):
            raise editor.broken
    finally:
        await editor.aclose()


@asynccontextmanager
async def in_v2(
    *arguments: str, handlers: dict[str, Handler] | None = None, **environment: str
) -> AsyncIterator[EditorV2]:
    """The agent while it runs, after version 2 was settled."""
    async with speaking("--v2", *arguments, handlers=handlers, **environment) as editor:
        assert (await editor.introduce())["protocolVersion"] == 2
        yield editor
